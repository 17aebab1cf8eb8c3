//! Answers written as they go over the wire, without messages in between.
//!
//! [`encode`](super::encode) says what an answer is; here is how it is put down. Both take what is told from the same functions, and tests compare the two.

#[cfg(test)]
mod tests;

use bytes::BufMut;
use prost::Message;
use prost_types::Duration;
use tollgate::core::Tick;
use tollgate::policy::PlacedLimit;
use tollgate::{Ruling, Status, Verdict};

use super::PREFIX_BYTES;
use super::encode::{clamped, code, is_told_over, unit, until_reset, wanted, whole_seconds};
use super::wire::RateLimitResponse;
use crate::gate::GateSettings;
use crate::headers;
use crate::protocol::http::denial_body;

/// Wire types of fields.
const NUMBER: u8 = 0;
const BYTES: u8 = 2;

/// Writes answers one after the other, all in the same place.
#[derive(Debug, Default)]
pub(super) struct Writer {
    out: Vec<u8>,
    value: String,
}

impl Writer {
    /// The answer to a question: a whole gRPC message with its prefix.
    pub(super) fn answer(&mut self, verdict: &Verdict, settings: &GateSettings) -> &[u8] {
        let value = &mut self.value;
        put_prefixed(&mut self.out, |out| {
            put_number(out, 1, code(!verdict.allowed()).unsigned_abs().into());
            for status in verdict.statuses() {
                put_message(out, 2, |out| put_status(out, verdict, status));
            }
            headers::each(verdict, wanted(settings), value, |name, value| put_header(out, name, value));
            if !verdict.allowed() {
                put_header(out, "content-type", "application/json");
                put_bytes(out, 5, denial_body(verdict).as_bytes());
            }
        })
    }

    /// The same, of an answer that there is as a message.
    pub(super) fn encoded(&mut self, response: &RateLimitResponse) -> &[u8] {
        put_prefixed(&mut self.out, |out| out.extend_from_slice(&response.encode_to_vec()))
    }
}

/// A message with its prefix, which says that it is not compressed, and how long it is.
fn put_prefixed(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
    out.clear();
    out.put_slice(&[0; PREFIX_BYTES]);
    put(out);
    let length = u32::try_from(out.len() - PREFIX_BYTES).unwrap_or(u32::MAX);
    out[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    out
}

fn put_status(out: &mut Vec<u8>, verdict: &Verdict, status: &Status) {
    let tightest = verdict.tightest_of(status);
    let is_over = matches!(status, Status::Banned { .. }) || tightest.is_some_and(is_told_over);
    put_number(out, 1, code(is_over).unsigned_abs().into());
    match status {
        Status::Unlimited => put_number(out, 3, u32::MAX.into()),
        Status::Banned { until } => {
            let left = whole_seconds(Tick::NANOSECOND.duration(until.since(verdict.now())));
            put_message(out, 4, |out| put_number(out, 1, left.seconds.cast_unsigned()));
        }
        _ => {}
    }
    let Some(ruling) = tightest else { return };
    put_message(out, 2, |out| put_limit(out, verdict, ruling));
    if !ruling.is_over() {
        put_number(out, 3, clamped(ruling.decision.remaining).into());
    }
    if let Some(Duration { seconds, .. }) = until_reset(ruling, verdict.now()) {
        put_message(out, 4, |out| put_number(out, 1, seconds.cast_unsigned()));
    }
}

fn put_limit(out: &mut Vec<u8>, verdict: &Verdict, ruling: &Ruling) {
    put_number(out, 1, clamped(ruling.units).into());
    put_number(out, 2, i32::from(unit(ruling)).unsigned_abs().into());
    put_bytes(out, 3, verdict.limit(ruling).and_then(PlacedLimit::name).unwrap_or_default().as_bytes());
}

fn put_header(out: &mut Vec<u8>, name: &str, value: &str) {
    put_message(out, 3, |out| {
        put_bytes(out, 1, name.as_bytes());
        put_bytes(out, 2, value.as_bytes());
    });
}

/// A field of the type number. One that is zero is not sent.
fn put_number(out: &mut Vec<u8>, field: u8, number: u64) {
    if number != 0 {
        out.put_u8(field << 3 | NUMBER);
        put_varint(out, number);
    }
}

/// A field of the types string and bytes. One that is empty is not sent.
fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.put_u8(field << 3 | BYTES);
        put_varint(out, bytes.len() as u64);
        out.put_slice(bytes);
    }
}

/// A field that is a message. Its length stands before it and is known only after it; there is one byte for it, and hardly ever are
/// more needed.
fn put_message(out: &mut Vec<u8>, field: u8, put: impl FnOnce(&mut Vec<u8>)) {
    out.put_slice(&[field << 3 | BYTES, 0]);
    let start = out.len();
    put(out);
    let length = out.len() - start;
    if let Ok(length @ 0..0x80) = u8::try_from(length) {
        out[start - 1] = length;
        return;
    }
    let (mut room, end) = ([0; 10], out.len());
    let mut rest = room.as_mut_slice();
    prost::encoding::encode_varint(length as u64, &mut rest);
    let bytes = 10 - rest.len();
    out.put_bytes(0, bytes - 1);
    out.copy_within(start..end, start + bytes - 1);
    out[start - 1..start - 1 + bytes].copy_from_slice(&room[..bytes]);
}

fn put_varint(out: &mut Vec<u8>, number: u64) {
    match u8::try_from(number) {
        Ok(byte @ 0..0x80) => out.put_u8(byte),
        _ => prost::encoding::encode_varint(number, out),
    }
}
