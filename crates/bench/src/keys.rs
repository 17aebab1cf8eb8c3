//! Keys as they come out of a socket buffer: one after the other, in the order in which they are asked for.
//!
//! Making a key costs as much as deciding about it, and looking up its text is a cache miss of its own, so both
//! are done before anything is timed, and all contenders read the same stream from front to back.

use std::fmt::Write;

use tollgate_load::{Random, Zipf};

/// The length of every key: `user:` and 19 digits.
pub(crate) const KEY_BYTES: usize = 24;

/// Which keys a load asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    /// Every key as often as every other.
    Uniform,
    /// Zipf's law with exponent 1.
    Zipf,
}

/// Keys in the order of access, as text and as numbers.
#[derive(Default)]
pub(crate) struct KeyStream {
    text: String,
    ids: Vec<u64>,
}

/// A part of a stream: what one thread works through.
#[derive(Clone, Copy)]
pub(crate) struct Segment<'a> {
    text: &'a str,
    ids: &'a [u64],
}

impl KeyStream {
    /// The keys with these numbers, in this order.
    pub(crate) fn of(ids: impl Iterator<Item = u64>) -> KeyStream {
        let mut stream = KeyStream::default();
        for id in ids {
            // Writing to a String cannot fail.
            let _ = write!(stream.text, "user:{id:019}");
            stream.ids.push(id);
        }
        stream
    }

    /// `count` keys, drawn from `keys` different ones.
    pub(crate) fn draw(draw: Draw, keys: u64, count: usize, seed: u64) -> KeyStream {
        let mut random = Random::new(seed);
        let zipf = Zipf::new(keys, 1.0);
        KeyStream::of((0..count).map(|_| match draw {
            Draw::Uniform => random.below(keys),
            Draw::Zipf => zipf.rank(&mut random),
        }))
    }

    /// The key at this place, counted round and round.
    #[inline]
    pub(crate) fn text(&self, at: usize) -> &str {
        let at = at % self.ids.len();
        &self.text[at * KEY_BYTES..(at + 1) * KEY_BYTES]
    }

    /// All of it.
    pub(crate) fn whole(&self) -> Segment<'_> {
        Segment { text: &self.text, ids: &self.ids }
    }

    /// The `index`-th of `parts` equal parts.
    pub(crate) fn part(&self, index: usize, parts: usize) -> Segment<'_> {
        let length = self.ids.len() / parts;
        let ids = index * length..(index + 1) * length;
        Segment { text: &self.text[ids.start * KEY_BYTES..ids.end * KEY_BYTES], ids: &self.ids[ids] }
    }
}

impl<'a> Segment<'a> {
    /// How many keys it asks for.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The keys as text.
    #[inline]
    pub(crate) fn texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let text = self.text;
        (0..self.ids.len()).map(move |at| &text[at * KEY_BYTES..(at + 1) * KEY_BYTES])
    }

    /// The keys as bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> std::slice::ChunksExact<'a, u8> {
        self.text.as_bytes().chunks_exact(KEY_BYTES)
    }

    /// The bytes of `keys` keys at a time; the last run may have fewer.
    #[inline]
    pub(crate) fn byte_runs(&self, keys: usize) -> std::slice::Chunks<'a, u8> {
        self.text.as_bytes().chunks(keys * KEY_BYTES)
    }

    /// The keys as numbers.
    pub(crate) fn ids(&self) -> &'a [u64] {
        self.ids
    }
}

/// The text of one key, where there is no stream: 19 digits hold every number that is counted up to.
#[inline]
pub(crate) fn key_text(id: u64) -> [u8; KEY_BYTES] {
    let mut text = *b"user:0000000000000000000";
    let mut rest = id;
    for digit in text[5..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests;
