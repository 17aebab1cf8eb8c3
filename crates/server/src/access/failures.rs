//! Failed authentication: counted by address, logged, and answered with the end of the connection.
//!
//! A client that guesses tokens must not be able to try millions of them a second. A client with a valid token must not be delayed,
//! even where it shares its address with one that guesses. Both hold because nothing is ever delayed and no address is ever locked out:
//! an address with [`FAILURES_MAX`] failures in a minute only loses the connection on which it fails again. So each connection may be
//! wrong once from then on, and the first token of a new connection is always looked at.
//!
//! The table of addresses is bounded. It is an array of small sets; an address has its place in one of them, by a keyed hash, and takes
//! the place of the one there that failed first, if the set is full.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tollgate::core::{Span, Time};

use super::Refused;
use crate::metrics::Protocol;

/// From so many failures of an address in a minute on, a connection on which it fails is closed.
pub(crate) const FAILURES_MAX: u32 = 10;
/// How long failures of an address are added up.
const INTERVAL: Span = Span::from_ticks(60_000_000_000);
/// The most addresses.
const ADDRESSES_MAX: usize = SETS * SET_PLACES;
const SETS: usize = 512;
const SET_PLACES: usize = 8;
/// The most lines in the log of all addresses together, in each [`INTERVAL`].
const LINES_MAX: u32 = 60;
/// IPv6 clients are told apart by so many leading bits: each has a whole network.
const IPV6_BITS: u32 = 64;

/// The failures of all addresses.
#[derive(Default)]
pub(crate) struct Failures {
    hasher: RandomState,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// None before the first failure, then [`ADDRESSES_MAX`].
    places: Vec<Option<Place>>,
    lines: Lines,
}

/// An address, and what it did in its current interval.
#[derive(Clone, Copy, Debug)]
struct Place {
    address: IpAddr,
    since: Time,
    /// Wrong and expired tokens.
    failures: u32,
    /// Whether the log has a line about the interval.
    is_logged: bool,
    /// Requests that were refused since the last line about this address.
    suppressed: u64,
}

/// What may still be logged.
#[derive(Debug, Default)]
struct Lines {
    since: Time,
    count: u32,
}

/// A request that was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) protocol: Protocol,
    pub(crate) address: IpAddr,
    pub(crate) reason: Refused,
}

impl Failures {
    /// Counts a failure and logs it, unless its address was logged within the interval. True if its connection is to be closed.
    pub(crate) fn record(&self, failure: Failure, now: Time) -> bool {
        let address = network(failure.address);
        let set = usize::try_from(self.hasher.hash_one(address)).unwrap_or_default() % SETS;
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let Table { places, lines } = &mut *table;
        places.resize(ADDRESSES_MAX, None);
        let Some(places) = places.get_mut(set * SET_PLACES..(set + 1) * SET_PLACES) else { return false };
        let Some(place) = Place::find(places, address, now) else { return false };
        place.begin(now);
        let is_guess = failure.reason != Refused::Missing;
        place.failures = place.failures.saturating_add(u32::from(is_guess));
        let is_closed = is_guess && place.failures >= FAILURES_MAX;
        let is_first_closed = is_closed && place.failures == FAILURES_MAX;
        if place.is_logged && !is_first_closed || !lines.take(now) {
            place.suppressed += 1;
            return is_closed;
        }
        place.is_logged = true;
        let suppressed = std::mem::take(&mut place.suppressed);
        let failures = place.failures;
        drop(table);
        let Failure { protocol, address, reason } = failure;
        let (protocol, reason) = (protocol.name(), reason.name());
        tracing::warn!(protocol, %address, reason, failures, suppressed, closed = is_closed, "authentication failed");
        is_closed
    }
}

impl Place {
    /// The place of an address in its set: its own, a free one, or that of the address whose interval is the oldest.
    fn find(places: &mut [Option<Place>], address: IpAddr, now: Time) -> Option<&mut Place> {
        let own = places.iter().position(|place| place.is_some_and(|place| place.address == address));
        let at = own.or_else(|| {
            let since = |at: &usize| places[*at].map(|place| place.since);
            (0..places.len()).min_by_key(since)
        })?;
        let fresh = Place { address, since: now, failures: 0, is_logged: false, suppressed: 0 };
        let place = places.get_mut(at)?;
        if own.is_none() {
            *place = None;
        }
        Some(place.get_or_insert(fresh))
    }

    /// Begins a new interval, if the last one is over.
    fn begin(&mut self, now: Time) {
        if now.since(self.since) >= INTERVAL {
            (self.since, self.failures, self.is_logged) = (now, 0, false);
        }
    }
}

impl Lines {
    fn take(&mut self, now: Time) -> bool {
        if now.since(self.since) >= INTERVAL {
            *self = Lines { since: now, count: 0 };
        }
        self.count += 1;
        self.count <= LINES_MAX
    }
}

/// The address as clients are told apart.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let host_bits = u128::MAX >> IPV6_BITS;
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !host_bits))
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// The client of tests.
#[cfg(any(test, fuzzing))]
pub(crate) const TEST_CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// The attempts of one connection to authenticate.
#[derive(Debug)]
pub(crate) struct Attempts {
    address: IpAddr,
    is_over: AtomicBool,
    over: Notify,
}

impl Attempts {
    pub(crate) fn new(address: IpAddr) -> Attempts {
        Attempts { address, is_over: AtomicBool::new(false), over: Notify::new() }
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether no token is looked at any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) // orders nothing else
    }

    /// Ends them, and has the connection closed.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed); // orders nothing else
        self.over.notify_one();
    }

    /// Comes back when they are over. For the one task that closes the connection.
    pub(crate) async fn ended(&self) {
        self.over.notified().await;
    }
}

#[cfg(test)]
mod tests {
    //! Which connections are closed, and how much is remembered.
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SECOND_TICKS: u64 = 1_000_000_000;

    fn at(second: u64) -> Time {
        Time::from_ticks((1_000_000 + second) * SECOND_TICKS)
    }

    fn wrong(failures: &Failures, address: &str, second: u64) -> bool {
        let failure =
            Failure { protocol: Protocol::Resp, address: address.parse().unwrap(), reason: Refused::Wrong };
        failures.record(failure, at(second))
    }

    #[test]
    fn the_tenth_failure_in_a_minute_closes_its_connection() {
        let failures = Failures::default();
        for second in 0..9 {
            assert!(!wrong(&failures, "192.0.2.1", second));
        }
        assert!(wrong(&failures, "192.0.2.1", 9));
        assert!(wrong(&failures, "192.0.2.1", 59), "each later one does too");
        assert!(!wrong(&failures, "192.0.2.2", 10), "another address");
        assert!(!wrong(&failures, "192.0.2.1", 60), "the next minute");
    }

    #[test]
    fn a_missing_token_is_not_a_guess() {
        let failures = Failures::default();
        let address = "192.0.2.1".parse().unwrap();
        let missing = Failure { protocol: Protocol::Http, address, reason: Refused::Missing };
        assert!((0..100).all(|_| !failures.record(missing, at(0))));
        assert_eq!(failures.table.lock().unwrap().lines.count, 1, "one line for all of them");
        assert!(!wrong(&failures, "192.0.2.1", 1));
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let failures = Failures::default();
        for host in 1..10 {
            assert!(!wrong(&failures, &format!("2001:db8:1:2::{host}"), 0));
        }
        assert!(!wrong(&failures, "2001:db8:1:3::1", 0));
        assert!(wrong(&failures, "2001:db8:1:2:ffff::1", 0));
        for _ in 0..9 {
            wrong(&failures, "192.0.2.1", 0);
        }
        assert!(wrong(&failures, "::ffff:192.0.2.1", 0), "one address, written as IPv6");
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_make_room() {
        let failures = Failures::default();
        // So many that each set has certainly been filled anew since the fourth second, wherever the hash puts them.
        for number in 0..u32::try_from(16 * ADDRESSES_MAX).unwrap() {
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).to_string();
            wrong(&failures, &address, u64::from(number) / 4_000);
        }
        let table = failures.table.lock().unwrap();
        assert_eq!(table.places.len(), ADDRESSES_MAX);
        let oldest = table.places.iter().flatten().map(|place| place.since).min().unwrap();
        assert!(oldest > at(4), "those that came first are gone");
        drop(table);
        for _ in 0..9 {
            wrong(&failures, "192.0.2.1", 20);
        }
        assert!(wrong(&failures, "192.0.2.1", 20), "a full table still counts an address that guesses");
    }

    #[test]
    fn lines_in_the_log_are_bounded() {
        let mut lines = Lines::default();
        let taken = |lines: &mut Lines, second| (0..1_000).filter(|_| lines.take(at(second))).count();
        assert_eq!(taken(&mut lines, 0), usize::try_from(LINES_MAX).unwrap());
        assert_eq!(taken(&mut lines, 59), 0);
        assert_eq!(taken(&mut lines, 60), usize::try_from(LINES_MAX).unwrap());
    }

    #[test]
    fn failures_beyond_the_lines_of_the_log_are_counted_as_suppressed() {
        let failures = Failures::default();
        for host in 1..=LINES_MAX + 1 {
            wrong(&failures, &format!("192.0.2.{host}"), 0);
        }
        let table = failures.table.lock().unwrap();
        let suppressed: u64 = table.places.iter().flatten().map(|place| place.suppressed).sum();
        let logged = table.places.iter().flatten().filter(|place| place.is_logged).count();
        assert_eq!((suppressed, logged), (1, usize::try_from(LINES_MAX).unwrap()));
    }
}
