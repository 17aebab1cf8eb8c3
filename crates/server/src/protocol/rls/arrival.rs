//! Bodies that come in pieces: each is waited for in a task of its own, so that nobody else has to.
//!
//! All that a connection has sent and not finished is bounded, in bytes and in time.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use tokio::time::timeout;
use tonic::Status;

use super::{MESSAGE_BYTES_MAX, PREFIX_BYTES};
use crate::room::{Held, Room};

/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bodies are kept in pieces of this length.
const BLOCK_BYTES: usize = 16 << 10;
/// What a connection may have sent of bodies that are not whole yet: one that is as long as may be, and then some.
const UNFINISHED_BYTES_MAX: usize = 16 << 20;
/// What of that is not counted with the listener.
const FREE_BYTES: usize = 64 << 10;

/// A share of what a connection holds of bodies that are not whole yet. It ends with this value.
#[derive(Debug)]
struct Share {
    of: Arc<Held>,
    bytes: usize,
}

impl Share {
    fn none(of: &Arc<Held>) -> Share {
        Share { of: Arc::clone(of), bytes: 0 }
    }

    /// Takes more, or says why there is no more.
    fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        self.bytes += bytes; // It counts even where it is refused.
        match self.of.grow(bytes) {
            Ok(held_bytes) if held_bytes <= UNFINISHED_BYTES_MAX => Ok(()),
            Ok(_) => {
                let text = format!("unfinished messages of more than {UNFINISHED_BYTES_MAX} bytes");
                Err(Status::resource_exhausted(text))
            }
            Err(error) => Err(Status::resource_exhausted(error.to_string())),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.shrink(self.bytes);
    }
}

/// What a connection holds of bodies, of which nothing is there yet.
pub(super) fn nothing_held(room: Arc<Room>) -> Arc<Held> {
    Arc::new(Held::new(room, FREE_BYTES))
}

/// Waits for all of a body. `Ok(None)` if the client has gone.
pub(super) async fn wait(body: &mut RecvStream, held: &Arc<Held>) -> Result<Option<Bytes>, Status> {
    let too_slow = || Status::deadline_exceeded(format!("no whole message within {BODY_TIMEOUT:?}"));
    timeout(BODY_TIMEOUT, wait_for_all(body, held)).await.map_err(|_| too_slow())?
}

async fn wait_for_all(body: &mut RecvStream, held: &Arc<Held>) -> Result<Option<Bytes>, Status> {
    let (mut parts, mut share) = (Parts::default(), Share::none(held));
    loop {
        match poll_fn(|context| body.poll_data(context)).await {
            Some(Ok(data)) => {
                parts.add(&data);
                check_length(&parts)?;
                share.grow(data.len())?;
                // An error means that there is no such stream any more.
                let _ = body.flow_control().release_capacity(data.len());
            }
            Some(Err(_)) => return Ok(None),
            None => return Ok(Some(parts.whole())),
        }
    }
}

/// What has come of a body. In blocks, because a thousand bodies that grow would otherwise leave behind the memory that each of them
/// has grown out of; and copied, because whoever keeps a part of what was read would keep all of it.
#[derive(Debug, Default)]
struct Parts {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
}

impl Parts {
    fn add(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let (fitting, rest) = data.split_at(data.len().min(BLOCK_BYTES - self.last.len()));
            self.last.extend_from_slice(fitting);
            if self.last.len() == BLOCK_BYTES {
                self.full.push(std::mem::take(&mut self.last));
            }
            data = rest;
        }
    }

    fn first(&self) -> &[u8] {
        self.full.first().unwrap_or(&self.last)
    }

    fn length(&self) -> usize {
        self.full.len() * BLOCK_BYTES + self.last.len()
    }

    fn whole(self) -> Bytes {
        if self.full.is_empty() {
            return self.last.into();
        }
        let mut whole = Vec::with_capacity(self.length());
        self.full.iter().chain([&self.last]).for_each(|part| whole.extend_from_slice(part));
        whole.into()
    }
}

/// Whether a body may go on as it has begun. The words are tonic's.
fn check_length(parts: &Parts) -> Result<(), Status> {
    let told = match parts.first() {
        [_, a, b, c, d, ..] => usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).unwrap_or(usize::MAX),
        _ => 0,
    };
    let found = told.max(parts.length().saturating_sub(PREFIX_BYTES));
    if found <= MESSAGE_BYTES_MAX {
        return Ok(());
    }
    let limit = MESSAGE_BYTES_MAX;
    let text =
        format!("Error, decoded message length too large: found {found} bytes, the limit is: {limit} bytes");
    Err(Status::out_of_range(text))
}
