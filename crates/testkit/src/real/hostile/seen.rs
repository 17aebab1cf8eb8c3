//! What attackers get to see, counted.

use std::collections::BTreeMap;
use std::fmt;

/// So many mistakes are told in full.
const TOLD_MAX: usize = 8;
/// So much of an answer is told.
const TOLD_CHARS_MAX: usize = 48;

/// What became of one connection or one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It was answered as if nothing were wrong.
    Answer(String),
    /// It was told that something is wrong, in the protocol's own form.
    Refusal(String),
    /// The connection was closed.
    Closed,
    /// Nothing came for longer than any time-out of the server.
    Silent,
    /// The server took no more bytes.
    Stalled,
}

/// What an attack allows to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Told or closed, but not answered.
    Refused,
    /// Told just this: the beginning of a refusal.
    Told(&'static str),
    /// Told one or the other.
    ToldEither(&'static str, &'static str),
    /// Closed without an answer.
    Closed,
    /// Answered: it looked worse than it was.
    Answered,
    /// Anything but silence.
    Spoken,
    /// The server takes no more, or has an end with it.
    HeldBack,
}

/// What became of an attack: what was seen how often, and what should not have been.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    seen: BTreeMap<String, u64>,
    wrong: Vec<String>,
}

impl Want {
    fn allows(self, seen: &Seen) -> bool {
        match (self, seen) {
            (Want::Told(what), Seen::Refusal(text)) => text.starts_with(what),
            (Want::ToldEither(one, other), Seen::Refusal(text)) => {
                text.starts_with(one) || text.starts_with(other)
            }
            (Want::Refused, Seen::Refusal(_) | Seen::Closed)
            | (Want::Closed, Seen::Closed)
            | (Want::Answered, Seen::Answer(_))
            | (Want::Spoken, Seen::Answer(_) | Seen::Refusal(_) | Seen::Closed)
            | (Want::HeldBack, Seen::Refusal(_) | Seen::Closed | Seen::Stalled) => true,
            _ => false,
        }
    }
}

impl Tally {
    /// Counts what was seen of one thing that was sent.
    pub(super) fn see(&mut self, what: &str, seen: &Seen, want: Want) {
        *self.seen.entry(seen.to_string()).or_default() += 1;
        if !want.allows(seen) {
            self.blame(format!("{what}: {seen}, but wanted {want:?}"));
        }
    }

    /// Counts something that is neither right nor wrong.
    pub(super) fn note(&mut self, what: &str, count: u64) {
        *self.seen.entry(what.to_owned()).or_default() += count;
    }

    /// Writes down something that should not have been.
    pub(super) fn blame(&mut self, what: String) {
        if self.wrong.len() < TOLD_MAX {
            self.wrong.push(what);
        }
    }

    /// What should not have been seen, and was.
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Answer(text) | Seen::Refusal(text) => {
                f.write_str(&text.chars().take(TOLD_CHARS_MAX).collect::<String>())
            }
            Seen::Closed => f.write_str("closed"),
            Seen::Silent => f.write_str("silence"),
            Seen::Stalled => f.write_str("held back"),
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (what, count)) in self.seen.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            match count {
                1 => write!(f, "{separator}{what}")?,
                _ => write!(f, "{separator}{what} x{count}")?,
            }
        }
        Ok(())
    }
}
