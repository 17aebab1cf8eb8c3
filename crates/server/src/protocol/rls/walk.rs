//! Messages read where they lie: names and values are borrowed from the bytes that came over the wire.
//!
//! What a message may be by the rules of protobuf is much more than what anybody sends. Here is read what is sent: fields in any order,
//! sent twice or unknown. Whatever else there may be (groups, values that are not text, more than there may be, and all that is
//! wrong) is left to prost, which is slower and says what is wrong. So the two can disagree in one way only: by reading a
//! message differently. The tests hold them side by side.

#[cfg(test)]
mod tests;

use tollgate::policy::Entry;
use tollgate::{Descriptor, OwnLimit, Request, Subject};

use super::Refusal;
use super::decode::{DESCRIPTORS_MAX, ENTRIES_MAX, cost, unit};

/// A thread keeps room for so many entries and descriptors, whatever it was asked before.
const KEPT_MAX: usize = 4096;

/// A message that is left to prost.
#[derive(Clone, Copy, Debug)]
struct Odd;

/// Questions of several messages. Entries and descriptors of all of them stand in one list each, so that the lists can be used again.
#[derive(Debug, Default)]
pub(super) struct Questions<'a> {
    entries: Vec<Entry<'a>>,
    parts: Vec<Part>,
    asked: Vec<Question<'a>>,
}

/// A descriptor, but for its entries: those are in the common list, up to an index.
#[derive(Clone, Copy, Debug)]
struct Part {
    entries_end: usize,
    cost: Option<u64>,
    refund: bool,
    limit: Option<Override>,
}

/// A limit that a descriptor brings along, as it is sent.
#[derive(Clone, Copy, Debug, Default)]
struct Override {
    requests_per_unit: u32,
    unit: i32,
}

/// A message, but for its descriptors: those are in the common list, up to an index.
#[derive(Clone, Copy, Debug)]
struct Question<'a> {
    domain: &'a str,
    parts_end: usize,
    hits_addend: u32,
}

/// The lists that requests are made of, kept for the next ones.
#[derive(Debug, Default)]
pub(super) struct Room {
    questions: Questions<'static>,
    descriptors: Vec<Descriptor<'static>>,
    requests: Vec<Request<'static>>,
}

impl Room {
    /// Lists for new questions.
    pub(super) fn questions<'a>(&mut self) -> Questions<'a> {
        let Questions { entries, parts, asked } = std::mem::take(&mut self.questions);
        Questions { entries: emptied(entries), parts: emptied(parts), asked: emptied(asked) }
    }

    /// Hands the questions to whoever answers them, and takes the lists back.
    pub(super) fn ask(&mut self, questions: Questions<'_>, answer: impl FnOnce(&[Request<'_>])) {
        let mut descriptors = emptied(std::mem::take(&mut self.descriptors));
        let mut requests = emptied(std::mem::take(&mut self.requests));
        let mut entries = questions.entries.as_slice();
        let mut entries_start = 0;
        for part in &questions.parts {
            let (own, rest) = entries.split_at(part.entries_end - entries_start);
            (entries, entries_start) = (rest, part.entries_end);
            descriptors.push(part.descriptor(own));
        }
        let (mut rest, mut parts_start) = (descriptors.as_slice(), 0);
        for question in &questions.asked {
            let (descriptors, after) = rest.split_at(question.parts_end - parts_start);
            (rest, parts_start) = (after, question.parts_end);
            let subject = Subject::Descriptors { domain: question.domain, descriptors };
            requests.push(Request { subject, cost: cost(question.hits_addend), peek: false, id: None });
        }
        answer(&requests);
        self.requests = emptied(requests);
        self.descriptors = emptied(descriptors);
        let Questions { entries, parts, asked } = questions;
        self.questions =
            Questions { entries: emptied(entries), parts: emptied(parts), asked: emptied(asked) };
    }
}

/// The memory of a list, for things of the same size that live elsewhere. The standard library collects in place.
fn emptied<A, B>(mut list: Vec<A>) -> Vec<B> {
    list.clear();
    list.shrink_to(KEPT_MAX);
    list.into_iter().filter_map(|_| None).collect()
}

impl Part {
    fn descriptor<'a>(&self, entries: &'a [Entry<'a>]) -> Descriptor<'a> {
        let limit = self.limit.map(|sent| OwnLimit {
            requests_per_unit: u64::from(sent.requests_per_unit),
            unit: unit(sent.unit),
        });
        Descriptor { entries, cost: self.cost, refund: self.refund, limit }
    }
}

impl<'a> Questions<'a> {
    /// Adds the question of a message. False, and nothing is added, if it is none that can be read here.
    pub(super) fn read(&mut self, message: &'a [u8]) -> bool {
        let (entries, parts) = (self.entries.len(), self.parts.len());
        let question = self.read_request(message);
        if question.is_err() {
            self.entries.truncate(entries);
            self.parts.truncate(parts);
        }
        question.map(|question| self.asked.push(question)).is_ok()
    }

    fn read_request(&mut self, message: &'a [u8]) -> Result<Question<'a>, Odd> {
        let parts_max = self.parts.len() + DESCRIPTORS_MAX;
        let (mut domain, mut hits_addend) = ("", 0);
        let mut fields = Fields(message);
        while let Some(field) = fields.next()? {
            match field {
                (1, Value::Bytes(bytes)) => domain = text(bytes)?,
                (2, Value::Bytes(bytes)) => {
                    if self.parts.len() == parts_max {
                        return Err(Odd);
                    }
                    let part = self.read_descriptor(bytes)?;
                    self.parts.push(part);
                }
                (3, Value::Number(number)) => hits_addend = low_half(number),
                (1..=3, _) => return Err(Odd),
                _ => {}
            }
        }
        Ok(Question { domain, parts_end: self.parts.len(), hits_addend })
    }

    fn read_descriptor(&mut self, message: &'a [u8]) -> Result<Part, Odd> {
        let entries_max = self.entries.len() + ENTRIES_MAX;
        let mut part = Part { entries_end: 0, cost: None, refund: false, limit: None };
        let mut fields = Fields(message);
        while let Some(field) = fields.next()? {
            match field {
                (1, Value::Bytes(bytes)) => {
                    if self.entries.len() == entries_max {
                        return Err(Odd);
                    }
                    self.entries.push(read_entry(bytes)?);
                }
                (2, Value::Bytes(bytes)) => {
                    part.limit = Some(read_override(part.limit.unwrap_or_default(), bytes)?);
                }
                (3, Value::Bytes(bytes)) => {
                    part.cost = Some(read_number(part.cost.unwrap_or_default(), bytes)?);
                }
                (4, Value::Number(number)) => part.refund = number != 0,
                (1..=4, _) => return Err(Odd),
                _ => {}
            }
        }
        part.entries_end = self.entries.len();
        Ok(part)
    }
}

/// Counts the descriptors and entries of a message, and stops at the first that is too many. prost makes room for each before anything
/// else can look: two bytes on the wire become a hundred in memory.
///
/// A message that is malformed passes. prost reads fields in the same order and fails at the same place, so it makes room for nothing
/// that was not counted here.
pub(super) fn check_bounds(message: &[u8]) -> Result<(), Refusal> {
    let (mut fields, mut count) = (Fields(message), 0);
    while let Some(field) = fields.next_outside_groups() {
        if let (2, Value::Bytes(descriptor)) = field {
            if count == DESCRIPTORS_MAX {
                return Err(Refusal::TooManyDescriptors { max: DESCRIPTORS_MAX });
            }
            check_entries(count, descriptor)?;
            count += 1;
        }
    }
    Ok(())
}

fn check_entries(index: usize, descriptor: &[u8]) -> Result<(), Refusal> {
    let (mut fields, mut count) = (Fields(descriptor), 0);
    while let Some(field) = fields.next_outside_groups() {
        if let (1, Value::Bytes(_)) = field {
            count += 1;
            if count > ENTRIES_MAX {
                return Err(Refusal::TooManyEntries { index, max: ENTRIES_MAX });
            }
        }
    }
    Ok(())
}

fn read_entry(message: &[u8]) -> Result<Entry<'_>, Odd> {
    let (mut key, mut value): (_, &[u8]) = ("", &[]);
    let mut fields = Fields(message);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(bytes)) => key = text(bytes)?,
            // Only the last one counts, so only that has to be text.
            (2, Value::Bytes(bytes)) => value = bytes,
            (1 | 2, _) => return Err(Odd),
            _ => {}
        }
    }
    Ok((key, text(value)?))
}

/// A message that is sent in two parts is one message: what the second does not say stays as the first said it.
fn read_override(mut limit: Override, message: &[u8]) -> Result<Override, Odd> {
    let mut fields = Fields(message);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Number(number)) => limit.requests_per_unit = low_half(number),
            (2, Value::Number(number)) => limit.unit = low_half(number).cast_signed(),
            (1 | 2, _) => return Err(Odd),
            _ => {}
        }
    }
    Ok(limit)
}

/// `google.protobuf.UInt64Value`: a message, so that zero and absent are not the same.
fn read_number(mut number: u64, message: &[u8]) -> Result<u64, Odd> {
    let mut fields = Fields(message);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Number(sent)) => number = sent,
            (1, _) => return Err(Odd),
            _ => {}
        }
    }
    Ok(number)
}

fn text(bytes: &[u8]) -> Result<&str, Odd> {
    str::from_utf8(bytes).map_err(|_| Odd)
}

/// Numbers of 32 bits that are sent with more lose what is above, as protobuf demands.
#[allow(clippy::cast_possible_truncation)]
fn low_half(number: u64) -> u32 {
    number as u32
}

/// Wire types of a group's first and last key.
const GROUP_START: u64 = 3;
const GROUP_END: u64 = 4;

/// The fields of a message.
struct Fields<'a>(&'a [u8]);

/// What a field holds.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes, which no known field has.
    Fixed,
}

impl<'a> Fields<'a> {
    /// The next field: its number and what it holds.
    #[inline]
    fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Odd> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = u32::try_from(self.varint()?).map_err(|_| Odd)?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.bytes(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.bytes(length)?)
            }
            5 => self.bytes(4).map(|_| Value::Fixed)?,
            _ => return Err(Odd),
        };
        match key >> 3 {
            0 => Err(Odd),
            number => Ok(Some((number, value))),
        }
    }

    /// The next field that is not part of a group. None at the end, and where the message is malformed.
    fn next_outside_groups(&mut self) -> Option<(u32, Value<'a>)> {
        let mut depth = 0_usize;
        loop {
            // The key of a group's start or end has no value, so it is read here.
            let mut rest = Fields(self.0);
            match rest.varint().ok()? & 7 {
                GROUP_START => depth += 1,
                GROUP_END => depth = depth.checked_sub(1)?,
                _ => match self.next().ok()?? {
                    field if depth == 0 => return Some(field),
                    _ => continue,
                },
            }
            self.0 = rest.0;
        }
    }

    #[inline]
    fn bytes(&mut self, length: u64) -> Result<&'a [u8], Odd> {
        let split = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
        let (bytes, rest) = split.ok_or(Odd)?;
        self.0 = rest;
        Ok(bytes)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Odd> {
        let (&byte, rest) = self.0.split_first().ok_or(Odd)?;
        if byte < 0x80 {
            self.0 = rest;
            return Ok(u64::from(byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, Odd> {
        let mut number = 0;
        for (at, &byte) in self.0.iter().enumerate() {
            // Nine bytes have 63 bits: of the tenth, one bit counts, and no byte may follow.
            if at == 9 && byte > 1 {
                return Err(Odd);
            }
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err(Odd)
    }
}
