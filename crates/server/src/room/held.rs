//! What the connections of a listener hold of long requests, all together.
//!
//! Every request has a bound, but there are many connections: without a bound for all of them, as many clients as there are places could
//! each have the server hold the longest request there is. So what a connection holds beyond a little is counted with its listener,
//! and whoever wants more when all of it is lent out is refused. Short requests are never counted, and so never refused.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error;

use super::Room;

/// The listener has no memory left for long requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many long requests are under way: try again in a moment, or ask about less at once")]
pub(crate) struct AllHeld;

/// What one connection holds.
#[derive(Debug)]
pub(crate) struct Held {
    room: Arc<Room>,
    /// So much of it is not counted with the listener.
    free_bytes: usize,
    bytes: AtomicUsize,
}

impl Held {
    /// Nothing yet, for a connection that may hold so much without being counted.
    pub(crate) fn new(room: Arc<Room>, free_bytes: usize) -> Held {
        Held { room, free_bytes, bytes: AtomicUsize::new(0) }
    }

    // Relaxed, everywhere here: the numbers protect no memory. Each change of a connection's number is counted with the listener by where it
    // began and where it ended, so that changes add up in whatever order they are counted.

    /// Says that so much is held from now on. An error if that is more than there is: it counts all the same, until less is held.
    pub(crate) fn set(&self, bytes: usize) -> Result<(), AllHeld> {
        // Mostly nothing has changed, and looking costs less than writing.
        if self.bytes.load(Ordering::Relaxed) == bytes {
            return Ok(());
        }
        self.changed(self.bytes.swap(bytes, Ordering::Relaxed), bytes)
    }

    /// Says that so much more is held, and returns how much that makes. An error if that is more than there is: it counts all the
    /// same, until it is given back.
    pub(crate) fn grow(&self, bytes: usize) -> Result<usize, AllHeld> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.changed(before, before + bytes).map(|()| before + bytes)
    }

    /// Gives back so much of what was held.
    pub(crate) fn shrink(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let _ = self.changed(before, before - bytes); // Less is never refused.
    }

    fn changed(&self, before: usize, after: usize) -> Result<(), AllHeld> {
        let counted = |bytes: usize| bytes.saturating_sub(self.free_bytes);
        let (before, after) = (counted(before), counted(after));
        if after > before {
            self.room.lend(after - before)
        } else {
            self.room.take_back(before - after);
            Ok(())
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.set(0);
    }
}
