//! What a shard has done, for metrics.

use tollgate_core::Span;
use tollgate_store::authority::Failure;
use tollgate_store::authority::breaker::State as BreakerState;

/// The longest round trips that are told apart end here: 2^20 microseconds, about a second.
const ROUND_TRIPS: usize = 21;

/// What one shard has done since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// The node, or the name of the master.
    pub name: String,
    /// Whether every thread that asks has a connection to it. A thread that has not asked yet is not counted, and nobody has one to a node
    /// that has left its Cluster.
    pub is_connected: bool,
    /// How many threads' breakers are open or half open.
    pub breakers_open: u64,
    /// How often breakers have opened.
    pub openings: u64,
    /// Questions that were let in.
    pub asks: u64,
    /// Pipelines that left.
    pub flights: u64,
    /// Scripts that were called.
    pub calls: u64,
    /// Grants that came too late and were given back.
    pub late_grants: u64,
    /// Bookings of which it is not known whether they were counted: the connection broke after they were sent.
    pub lost_bookings: u64,
    /// Times that a connection broke or could not be made.
    pub breaks: u64,
    /// What failed, by [`Failure`], in the order of its declaration.
    pub failures: [u64; FAILURES.len()],
    /// Round trips by their length: the number at n took less than 2^n microseconds.
    pub round_trips: [u64; ROUND_TRIPS],
    /// All round trips together, in nanoseconds.
    pub round_trip_ns: u64,
}

/// Every failure there is.
pub const FAILURES: [Failure; 7] = [
    Failure::TimedOut,
    Failure::Unreachable,
    Failure::NotAsked,
    Failure::Refused,
    Failure::Crowded,
    Failure::NotNow,
    Failure::Lost,
];

/// The same while it is counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) asks: u64,
    pub(super) flights: u64,
    pub(super) calls: u64,
    pub(super) late_grants: u64,
    pub(super) lost_bookings: u64,
    pub(super) breaks: u64,
    pub(super) openings: u64,
    failures: [u64; FAILURES.len()],
    round_trips: [u64; ROUND_TRIPS],
    round_trip_ns: u64,
}

impl Tally {
    pub(super) fn failed(&mut self, failure: Failure) {
        if let Some(index) = FAILURES.iter().position(|other| *other == failure) {
            self.failures[index] += 1;
        }
    }

    pub(super) fn round_trip(&mut self, took: Span) {
        let us = took.ticks() / 1_000;
        let bits = (u64::BITS - us.leading_zeros()) as usize;
        self.round_trips[bits.min(ROUND_TRIPS - 1)] += 1;
        self.round_trip_ns = self.round_trip_ns.saturating_add(took.ticks());
    }

    pub(super) fn stats(&self, name: &str, breaker: BreakerState, is_connected: bool) -> ShardStats {
        ShardStats {
            name: name.to_owned(),
            is_connected,
            breakers_open: u64::from(breaker != BreakerState::Closed),
            openings: self.openings,
            asks: self.asks,
            flights: self.flights,
            calls: self.calls,
            late_grants: self.late_grants,
            lost_bookings: self.lost_bookings,
            breaks: self.breaks,
            failures: self.failures,
            round_trips: self.round_trips,
            round_trip_ns: self.round_trip_ns,
        }
    }
}

impl ShardStats {
    /// Adds what another thread has done with the same shard.
    pub(crate) fn add(&mut self, other: &ShardStats) {
        self.is_connected &= other.is_connected;
        self.breakers_open += other.breakers_open;
        self.add_past(other);
    }

    /// Adds what was done with the same shard by somebody who does not use it any more.
    pub(crate) fn add_past(&mut self, other: &ShardStats) {
        self.openings += other.openings;
        self.asks += other.asks;
        self.flights += other.flights;
        self.calls += other.calls;
        self.late_grants += other.late_grants;
        self.lost_bookings += other.lost_bookings;
        self.breaks += other.breaks;
        for (sum, count) in self.failures.iter_mut().zip(other.failures) {
            *sum += count;
        }
        for (sum, count) in self.round_trips.iter_mut().zip(other.round_trips) {
            *sum += count;
        }
        self.round_trip_ns = self.round_trip_ns.saturating_add(other.round_trip_ns);
    }
}
