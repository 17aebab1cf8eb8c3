//! What a reservation is about, as bytes: it is kept while the reservation is open, and met again when that is settled.

use tollgate_policy::{Entry, Unit};

use crate::request::{Descriptor, OwnLimit, Request, Subject};

const POLICY: u8 = 0;
const POLICY_OF_TIER: u8 = 1;
const DESCRIPTORS: u8 = 2;

/// Writes down what a request is about.
pub(crate) fn put_subject(bytes: &mut Vec<u8>, subject: &Subject<'_>) {
    match *subject {
        Subject::Policy { name, key, tier } => {
            bytes.push(if tier.is_some() { POLICY_OF_TIER } else { POLICY });
            put(bytes, name.as_bytes());
            put(bytes, key);
            if let Some(tier) = tier {
                put(bytes, tier.as_bytes());
            }
        }
        Subject::Descriptors { domain, descriptors } => {
            bytes.push(DESCRIPTORS);
            put(bytes, domain.as_bytes());
            put_number(bytes, descriptors.len() as u64);
            for descriptor in descriptors {
                put_descriptor(bytes, descriptor);
            }
        }
    }
}

/// Asks with what was written down. None if it is not what [`put_subject`] writes.
pub(crate) fn with_request<R>(bytes: &[u8], ask: impl FnOnce(&Request<'_>) -> R) -> Option<R> {
    let mut rest = bytes;
    let rest = &mut rest;
    let kind = take_byte(rest)?;
    if kind != DESCRIPTORS {
        let (name, key) = (take_text(rest)?, take(rest)?);
        let tier = if kind == POLICY_OF_TIER { Some(take_text(rest)?) } else { None };
        return Some(ask(&Request {
            subject: Subject::Policy { name, key, tier },
            cost: 0,
            peek: false,
            id: None,
        }));
    }
    let domain = take_text(rest)?;
    let count = take_number(rest)?;
    let (mut entries, mut bare): (Vec<Entry<'_>>, Vec<(Descriptor<'_>, usize)>) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let descriptor = take_descriptor(rest)?;
        let before = entries.len();
        for _ in 0..take_number(rest)? {
            entries.push((take_text(rest)?, take_text(rest)?));
        }
        bare.push((descriptor, entries.len() - before));
    }
    let mut left = entries.as_slice();
    let mut descriptors: Vec<Descriptor<'_>> = Vec::with_capacity(bare.len());
    for (descriptor, length) in bare {
        let (entries, after) = left.split_at(length);
        left = after;
        descriptors.push(Descriptor { entries, ..descriptor });
    }
    let subject = Subject::Descriptors { domain, descriptors: &descriptors };
    Some(ask(&Request { subject, cost: 0, peek: false, id: None }))
}

fn put_descriptor(bytes: &mut Vec<u8>, descriptor: &Descriptor<'_>) {
    let unit_of = |limit: OwnLimit| Some((limit.requests_per_unit, limit.unit?));
    match descriptor.limit.and_then(unit_of) {
        None => bytes.push(0),
        Some((requests_per_unit, unit)) => {
            let place = Unit::ALL.iter().position(|other| *other == unit).unwrap_or(0);
            bytes.push(u8::try_from(place + 1).unwrap_or(0));
            put_number(bytes, requests_per_unit);
        }
    }
    put_number(bytes, descriptor.entries.len() as u64);
    for (key, value) in descriptor.entries {
        put(bytes, key.as_bytes());
        put(bytes, value.as_bytes());
    }
}

/// A descriptor without its entries.
fn take_descriptor<'b>(rest: &mut &'b [u8]) -> Option<Descriptor<'b>> {
    let Some(place) = usize::from(take_byte(rest)?).checked_sub(1) else { return Some(Descriptor::new(&[])) };
    let unit = Some(*Unit::ALL.get(place)?);
    let limit = Some(OwnLimit { requests_per_unit: take_number(rest)?, unit });
    Some(Descriptor { limit, ..Descriptor::new(&[]) })
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    put_number(bytes, part.len() as u64);
    bytes.extend_from_slice(part);
}

/// Seven bits a byte, the lowest first: nearly all numbers are small.
pub(crate) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn take<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (part, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(part)
}

fn take_text<'b>(rest: &mut &'b [u8]) -> Option<&'b str> {
    str::from_utf8(take(rest)?).ok()
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    Some(byte)
}

pub(crate) fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = take_byte(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// So many bytes.
pub(crate) fn take_chunk<const LENGTH: usize>(rest: &mut &[u8]) -> Option<[u8; LENGTH]> {
    let (&chunk, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(chunk)
}
