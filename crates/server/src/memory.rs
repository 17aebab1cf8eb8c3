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
    // Relaxed everywhere: the numbers guard no other memory. Two charges at the same moment may both be
    // refused where one would have fit, never both admitted where one would not.
    held: [AtomicUsize; Class::ALL.len()],
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
        let (held, shed) = Default::default();
        MemoryAccount { requests_max_bytes, connections_max_bytes, held, shed }
    }

    pub(crate) fn max_bytes(&self) -> usize {
        self.requests_max_bytes.saturating_add(self.connections_max_bytes)
    }

    /// Charges bytes that are held already. They stay charged where that is refused: the caller gives
    /// them back by [`MemoryAccount::release`] when it has dropped them.
    pub(crate) fn charge(&self, class: Class, bytes: usize) -> Result<(), AccountFull> {
        self.held[class as usize].fetch_add(bytes, Ordering::Relaxed);
        let fits = match class {
            Class::Call => self.requests_bytes() <= self.calls_max_bytes(),
            Class::Request => self.requests_bytes() <= self.requests_max_bytes,
            Class::Connection => self.held_bytes(Class::Connection) <= self.connections_max_bytes,
        };
        if fits { Ok(()) } else { self.shed(class) }
    }

    /// Charges the fixed cost of a new connection. It stays charged where that is refused.
    pub(crate) fn charge_connection(&self, bytes: usize) -> Result<(), AccountFull> {
        let held = self.held[Class::Connection as usize].fetch_add(bytes, Ordering::Relaxed);
        let fits = held.saturating_add(bytes) <= self.new_connections_max_bytes();
        if fits { Ok(()) } else { self.shed(Class::Connection) }
    }

    fn shed(&self, class: Class) -> Result<(), AccountFull> {
        self.shed[class as usize].fetch_add(1, Ordering::Relaxed);
        Err(AccountFull)
    }

    pub(crate) fn release(&self, class: Class, bytes: usize) {
        self.held[class as usize].fetch_sub(bytes, Ordering::Relaxed);
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
        self.requests_bytes() > self.calls_max_bytes()
            || self.held_bytes(Class::Connection) > three_quarters(self.new_connections_max_bytes())
    }

    pub(crate) fn held_bytes(&self, class: Class) -> usize {
        self.held[class as usize].load(Ordering::Relaxed)
    }

    /// How often this class was refused.
    pub(crate) fn shed_count(&self, class: Class) -> u64 {
        self.shed[class as usize].load(Ordering::Relaxed)
    }

    fn requests_bytes(&self) -> usize {
        self.held_bytes(Class::Call).saturating_add(self.held_bytes(Class::Request))
    }
}

fn three_quarters(bytes: usize) -> usize {
    bytes - bytes / 4
}
