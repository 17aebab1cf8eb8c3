//! From a message to a question for the engine.

use std::borrow::Cow;

use tollgate::policy::{Entry, Unit};
use tollgate::{Descriptor, OwnLimit, Request, Subject};

use super::Refusal;
use super::wire::{RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitUnit};

/// How many descriptors a request may have.
pub(super) const DESCRIPTORS_MAX: usize = 128;
/// How many entries a descriptor may have.
pub(super) const ENTRIES_MAX: usize = 32;

/// Puts the question of a message. It borrows from the message, so it is handed to whoever answers it.
pub(super) fn with_request<R>(
    message: &RateLimitRequest,
    ask: impl FnOnce(&Request<'_>) -> R,
) -> Result<R, Refusal> {
    check_bounds(message)?;
    let all = || message.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
    let values: Vec<Cow<'_, str>> = all().map(|entry| text(&entry.value)).collect();
    let entries: Vec<Entry<'_>> =
        all().zip(&values).map(|(entry, value)| (entry.key.as_str(), &**value)).collect();
    let mut rest = entries.as_slice();
    let mut descriptors = Vec::with_capacity(message.descriptors.len());
    for sent in &message.descriptors {
        let (entries, after) = rest.split_at(sent.entries.len());
        descriptors.push(descriptor(sent, entries));
        rest = after;
    }
    let subject = Subject::Descriptors { domain: &message.domain, descriptors: &descriptors };
    Ok(ask(&Request { subject, cost: cost(message.hits_addend), peek: false, id: None }))
}

/// What a message costs. Zero and absent look the same on the wire, and mean one.
pub(super) fn cost(hits_addend: u32) -> u64 {
    u64::from(hits_addend.max(1))
}

/// A value as text. Whatever is not text in it is replaced: such a value is counted, as any other is.
pub(super) fn text(value: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(value)
}

fn check_bounds(message: &RateLimitRequest) -> Result<(), Refusal> {
    if message.descriptors.len() > DESCRIPTORS_MAX {
        return Err(Refusal::TooManyDescriptors { max: DESCRIPTORS_MAX });
    }
    let mut descriptors = message.descriptors.iter();
    match descriptors.position(|descriptor| descriptor.entries.len() > ENTRIES_MAX) {
        Some(index) => Err(Refusal::TooManyEntries { index, max: ENTRIES_MAX }),
        None => Ok(()),
    }
}

fn descriptor<'a>(sent: &RateLimitDescriptor, entries: &'a [Entry<'a>]) -> Descriptor<'a> {
    Descriptor {
        entries,
        cost: sent.hits_addend,
        refund: sent.is_negative_hits,
        limit: sent.limit.map(own_limit),
    }
}

fn own_limit(sent: RateLimitOverride) -> OwnLimit {
    OwnLimit { requests_per_unit: u64::from(sent.requests_per_unit), unit: unit(sent.unit) }
}

pub(super) fn unit(sent: i32) -> Option<Unit> {
    match RateLimitUnit::try_from(sent).ok()? {
        RateLimitUnit::Unknown => None,
        RateLimitUnit::Second => Some(Unit::Second),
        RateLimitUnit::Minute => Some(Unit::Minute),
        RateLimitUnit::Hour => Some(Unit::Hour),
        RateLimitUnit::Day => Some(Unit::Day),
        RateLimitUnit::Month => Some(Unit::Month),
        RateLimitUnit::Year => Some(Unit::Year),
    }
}
