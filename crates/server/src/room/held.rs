//! What one connection holds beyond its fixed cost, charged to the memory account.
//!
//! Its first buffers are charged with the connections, once, and stay charged until the connection ends:
//! short requests do not touch the account that all threads share, and are served when long ones are
//! refused. What goes beyond that is charged with the requests, for as long as it is held.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Room;
use crate::memory::{AccountFull, Class};

/// A part of what a connection holds, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Held>,
    bytes: usize,
}

impl Share {
    /// Nothing yet.
    pub(crate) fn new(of: &Arc<Held>) -> Share {
        Share { of: Arc::clone(of), bytes: 0 }
    }

    /// Another part of what the same connection holds, unless that is refused.
    pub(crate) fn another(&self, bytes: usize) -> Result<Share, AccountFull> {
        let mut share = Share::new(&self.of);
        share.grow(bytes).map(|_| share)
    }

    /// Adds to it, and returns what the whole connection holds. What is refused stays charged until this
    /// is dropped.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<usize, AccountFull> {
        self.bytes += bytes;
        self.of.grow(bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.shrink(self.bytes);
    }
}

/// What one connection holds.
#[derive(Debug)]
pub(crate) struct Held {
    room: Arc<Room>,
    class: Class,
    /// So much is charged with the connections.
    first_bytes_max: usize,
    /// The most that was held of it so far, which stays charged.
    first_bytes: AtomicUsize,
    bytes: AtomicUsize,
}

impl Held {
    /// Nothing yet, for requests of a connection whose first buffers have so many bytes.
    pub(crate) fn new(room: Arc<Room>, first_bytes_max: usize) -> Held {
        Held::of_class(room, Class::Request, first_bytes_max)
    }

    /// The same for memory that is of another class beyond the first buffers.
    pub(crate) fn of_class(room: Arc<Room>, class: Class, first_bytes_max: usize) -> Held {
        let (first_bytes, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Held { room, class, first_bytes_max, first_bytes, bytes }
    }

    // Relaxed everywhere here: the numbers guard no other memory. Each change is charged by where it began
    // and where it ended, so changes add up in whatever order they are charged.

    /// Sets what is held. Where that is refused, it stays charged until less is held.
    pub(crate) fn set(&self, bytes: usize) -> Result<(), AccountFull> {
        // Mostly nothing has changed, and a load costs less than a swap.
        if self.bytes.load(Ordering::Relaxed) == bytes {
            return Ok(());
        }
        self.changed(self.bytes.swap(bytes, Ordering::Relaxed), bytes)
    }

    /// Adds to what is held, and returns the sum. Where that is refused, it stays charged until it is
    /// given back.
    pub(crate) fn grow(&self, bytes: usize) -> Result<usize, AccountFull> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.changed(before, before + bytes).map(|()| before + bytes)
    }

    /// Adds to what is held without asking, for what the server owes a client. It is charged like all else,
    /// and what is asked for later is refused sooner.
    pub(crate) fn hold(&self, bytes: usize) {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let beyond = |bytes: usize| bytes.saturating_sub(self.first_bytes_max);
        let _ = self.charge_first((before + bytes).min(self.first_bytes_max));
        self.room.hold(self.class, beyond(before + bytes) - beyond(before));
    }

    /// What is held now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Gives back a part of what is held.
    pub(crate) fn shrink(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let _ = self.changed(before, before - bytes); // Less is never refused.
    }

    fn changed(&self, before: usize, after: usize) -> Result<(), AccountFull> {
        let first = self.charge_first(after.min(self.first_bytes_max));
        let beyond = |bytes: usize| bytes.saturating_sub(self.first_bytes_max);
        let (before, after) = (beyond(before), beyond(after));
        if after > before {
            return self.room.charge(self.class, after - before).and(first);
        }
        self.room.release(self.class, before - after);
        first
    }

    /// Charges the first buffers, if they were never as large.
    fn charge_first(&self, bytes: usize) -> Result<(), AccountFull> {
        if bytes <= self.first_bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let before = self.first_bytes.fetch_max(bytes, Ordering::Relaxed);
        if bytes <= before { Ok(()) } else { self.room.charge(Class::Connection, bytes - before) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.set(0);
        self.room.release(Class::Connection, self.first_bytes.load(Ordering::Relaxed));
    }
}
