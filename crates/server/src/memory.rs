//! One account of the memory that clients can make the server hold, for all connections of all listeners.
//!
//! Every request, header block and stream has a bound of its own, but bounds multiply: many streams on
//! many connections, each at its bound, add up to more than the machine has. So whatever a client makes
//! the server keep is charged here first. Half of the account is for connections, half for what their
//! requests need beyond the first buffers. When it fills up, the server sheds load in a fixed order: calls
//! off the fast path first (health, reflection, subscriptions), then long requests, and new connections.
//! A part of the connections' half is kept for the first buffers of connections that are open already, so
//! that short requests on them are served while new connections are refused.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use thiserror::Error;

/// The fixed cost of an open connection: its task, its timers and the smallest buffers.
pub(crate) const CONNECTION_BYTES: usize = 8 << 10;
/// What TLS adds to it: keys, and one record in each direction.
pub(crate) const TLS_BYTES: usize = 32 << 10;

/// What memory is used for. The order is the order of shedding: the first is refused first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Calls that do not decide anything: health, reflection, subscriptions.
    Call,
    /// What requests need beyond the first buffers of their connection: header blocks, bodies, streams,
    /// responses.
    Request,
    /// Open connections: their fixed cost and their first buffers.
    Connection,
}

impl Class {
    pub(crate) const ALL: [Class; 3] = [Class::Call, Class::Request, Class::Connection];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Class::Call => "calls",
            Class::Request => "requests",
            Class::Connection => "connections",
        }
    }
}

/// The account has no room left for this class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many long requests are under way: try again in a moment, or ask about less at once")]
pub(crate) struct AccountFull;

/// What clients make the server hold, by class.
#[derive(Debug)]
pub(crate) struct MemoryAccount {
    requests_max_bytes: usize,
    connections_max_bytes: usize,
    // Relaxed everywhere: the numbers guard no other memory. Each cap is compared with one counter, whose
    // changes have one order. So two charges at the same moment are never both admitted where only one fits.
    // What was refused stays charged until it is released, and may have others refused meanwhile.
    /// Calls and requests together.
    requests_held: AtomicUsize,
    /// The calls in it.
    calls_held: AtomicUsize,
    connections_held: AtomicUsize,
    shed: [AtomicU64; Class::ALL.len()],
}

impl MemoryAccount {
    pub(crate) fn new(max_bytes: usize) -> MemoryAccount {
        MemoryAccount::with_halves(max_bytes / 2, max_bytes / 2)
    }

    /// An account that bounds requests alone.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn for_requests(max_bytes: usize) -> MemoryAccount {
        MemoryAccount::with_halves(max_bytes, usize::MAX)
    }

    fn with_halves(requests_max_bytes: usize, connections_max_bytes: usize) -> MemoryAccount {
        MemoryAccount {
            requests_max_bytes,
            connections_max_bytes,
            requests_held: AtomicUsize::new(0),
            calls_held: AtomicUsize::new(0),
            connections_held: AtomicUsize::new(0),
            shed: Default::default(),
        }
    }

    pub(crate) fn max_bytes(&self) -> usize {
        self.requests_max_bytes.saturating_add(self.connections_max_bytes)
    }

    /// Charges bytes that are held already. They stay charged where that is refused: the caller gives
    /// them back by [`MemoryAccount::release`] when it has dropped them.
    pub(crate) fn charge(&self, class: Class, bytes: usize) -> Result<(), AccountFull> {
        let max_bytes = match class {
            Class::Call => self.calls_max_bytes(),
            Class::Request => self.requests_max_bytes,
            Class::Connection => self.connections_max_bytes,
        };
        if self.hold(class, bytes) <= max_bytes { Ok(()) } else { self.shed(class) }
    }

    /// Charges bytes that must not be refused, whatever the cap. Returns what is compared with the cap.
    pub(crate) fn hold(&self, class: Class, bytes: usize) -> usize {
        if class == Class::Call {
            self.calls_held.fetch_add(bytes, Ordering::Relaxed);
        }
        self.counter(class).fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Charges the fixed cost of a new connection. It stays charged where that is refused.
    pub(crate) fn charge_connection(&self, bytes: usize) -> Result<(), AccountFull> {
        let fits = self.hold(Class::Connection, bytes) <= self.new_connections_max_bytes();
        if fits { Ok(()) } else { self.shed(Class::Connection) }
    }

    /// Counts a refusal.
    pub(crate) fn shed(&self, class: Class) -> Result<(), AccountFull> {
        self.shed[class as usize].fetch_add(1, Ordering::Relaxed);
        Err(AccountFull)
    }

    pub(crate) fn release(&self, class: Class, bytes: usize) {
        self.counter(class).fetch_sub(bytes, Ordering::Relaxed);
        if class == Class::Call {
            self.calls_held.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// What is compared with the cap of a class.
    fn counter(&self, class: Class) -> &AtomicUsize {
        match class {
            Class::Call | Class::Request => &self.requests_held,
            Class::Connection => &self.connections_held,
        }
    }

    /// Calls off the fast path are refused above this, where requests are still served.
    fn calls_max_bytes(&self) -> usize {
        three_quarters(self.requests_max_bytes)
    }

    /// New connections are refused above this. What is left is for the first buffers of open ones.
    pub(crate) fn new_connections_max_bytes(&self) -> usize {
        three_quarters(self.connections_max_bytes)
    }

    /// What one client takes at most of a class: half of what all take.
    pub(crate) fn client_max_bytes(&self, class: Class) -> usize {
        match class {
            Class::Call | Class::Request => self.requests_max_bytes / 2,
            Class::Connection => self.connections_max_bytes / 2,
        }
    }

    /// Whether so little is left that idle connections are worth closing.
    pub(crate) fn is_under_pressure(&self) -> bool {
        self.requests_held.load(Ordering::Relaxed) > self.calls_max_bytes()
            || self.held_bytes(Class::Connection) > three_quarters(self.new_connections_max_bytes())
    }

    pub(crate) fn held_bytes(&self, class: Class) -> usize {
        let held_bytes = self.counter(class).load(Ordering::Relaxed);
        let calls_bytes = self.calls_held.load(Ordering::Relaxed);
        match class {
            Class::Call => calls_bytes,
            // The two are read one after the other.
            Class::Request => held_bytes.saturating_sub(calls_bytes),
            Class::Connection => held_bytes,
        }
    }

    /// How often this class was refused.
    pub(crate) fn shed_count(&self, class: Class) -> u64 {
        self.shed[class as usize].load(Ordering::Relaxed)
    }
}

fn three_quarters(bytes: usize) -> usize {
    bytes - bytes / 4
}
