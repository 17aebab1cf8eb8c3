//! The counters of one thread.
//!
//! They are atomic because whoever scrapes reads them from another thread, and because there may be more threads than shards; but as
//! a rule nobody else writes to them, so that no cache line travels. All accesses are relaxed: each number stands for itself.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::core::{Span, Time};
use tollgate::policy::RuleId;
use tollgate::{DecidedBy, Unmatched, Verdict};

use super::Protocol;
use super::chunked::Chunked;

/// Upper ends of the histogram's buckets. Decisions take well under a microsecond; what takes longer is worth telling apart too.
pub(super) const BUCKET_ENDS_NS: [u64; 14] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    1_000_000,
    2_500_000,
    10_000_000,
    100_000_000,
];
/// The last has no end.
pub(super) const BUCKETS: usize = BUCKET_ENDS_NS.len() + 1;

#[derive(Debug)]
pub(super) struct Shard {
    rules: Chunked<RuleCounts>,
    specials: [RuleCounts; Special::ALL.len()],
    protocols: [ProtocolCounts; Protocol::ALL.len()],
    /// Requests that met no rule, by [`UNMATCHED`].
    unmatched: [AtomicU64; UNMATCHED.len()],
}

/// Why a request may have met no rule.
pub(super) const UNMATCHED: [(&str, Unmatched); 2] =
    [("domain", Unmatched::Domain), ("rule", Unmatched::Rule)];

/// What is counted like a rule and is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    /// Limits that requests brought along.
    Override,
    /// Callers that bring their numbers with every call.
    Throttle,
    /// Rules beyond those that are counted one by one.
    Other,
}

/// One rule's answer, as far as it is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) is_over: bool,
    /// Whether the answer had any bearing on the request.
    pub(super) counts: bool,
    pub(super) is_near: bool,
    pub(super) remaining: u64,
    pub(super) now: Time,
}

/// How many requests, decided together, may pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
}

impl Outcomes {
    #[inline]
    pub(crate) fn count(&mut self, allowed: bool) {
        *(if allowed { &mut self.allowed } else { &mut self.denied }) += 1;
    }
}

/// What one rule has answered to several requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Several {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) near: u64,
    /// After the last of them.
    pub(super) remaining: u64,
}

/// What one rule has answered. A cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct RuleCounts {
    allowed: AtomicU64,
    denied: AtomicU64,
    shadow_denied: AtomicU64,
    near_limit: AtomicU64,
    shadow_near_limit: AtomicU64,
    remaining: AtomicU64,
    /// When it was last met; zero: never.
    met_at: AtomicU64,
}

/// What came in by one protocol.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct ProtocolCounts {
    /// Requests by how long their decisions took: those that were denied, those that were allowed. Their sums are the numbers of
    /// requests, which therefore need no counters of their own.
    took: [[AtomicU64; BUCKETS]; 2],
    took_ns: AtomicU64,
    peeks: AtomicU64,
    bad_requests: AtomicU64,
    banned: AtomicU64,
    bypassed: AtomicU64,
}

/// [`RuleCounts`] of one moment, and of all threads when added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleTotals {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) shadow_denied: u64,
    pub(super) near_limit: u64,
    pub(super) shadow_near_limit: u64,
    pub(super) remaining: u64,
    met_at: u64,
}

/// [`ProtocolCounts`] of one moment, and of all threads when added up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProtocolTotals {
    pub(super) took: [[u64; BUCKETS]; 2],
    pub(super) took_ns: u64,
    pub(super) peeks: u64,
    pub(super) bad_requests: u64,
    pub(super) banned: u64,
    pub(super) bypassed: u64,
}

impl Special {
    pub(super) const ALL: [Special; 3] = [Special::Override, Special::Throttle, Special::Other];

    /// Where a rule has its path. In brackets, because a policy may well be called `other`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Special::Override => "(override)",
            Special::Throttle => "(cl.throttle)",
            Special::Other => "(other)",
        }
    }
}

impl Default for Shard {
    fn default() -> Shard {
        Shard {
            rules: Chunked::new(),
            specials: array::from_fn(|_| RuleCounts::default()),
            protocols: array::from_fn(|_| ProtocolCounts::default()),
            unmatched: Default::default(),
        }
    }
}

impl Shard {
    /// The counters of a rule, unless there are too many rules.
    #[inline]
    pub(super) fn rule(&self, id: RuleId) -> Option<&RuleCounts> {
        self.rules.at(id.index())
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = (usize, RuleTotals)> {
        self.rules
            .iter()
            .filter(|(_, counts)| !counts.is_unused())
            .map(|(index, counts)| (index, counts.read()))
    }

    #[inline]
    pub(super) fn special(&self, special: Special) -> &RuleCounts {
        &self.specials[special as usize]
    }

    /// Counts a request that no limit has decided: why it met none.
    #[cold]
    pub(super) fn observe_unlimited(&self, verdict: &Verdict, protocol: Protocol) {
        let counts = self.protocol(protocol);
        match verdict.decided_by() {
            DecidedBy::Ban if !verdict.allowed() => add(&counts.banned, 1),
            DecidedBy::KillSwitch => add(&counts.bypassed, 1),
            _ => {
                if let Some(reason) = verdict.unmatched() {
                    self.observe_unmatched(reason);
                }
            }
        }
    }

    /// Counts a request that met no rule.
    pub(super) fn observe_unmatched(&self, reason: Unmatched) {
        let named = UNMATCHED.iter().zip(&self.unmatched).find(|((_, unmatched), _)| *unmatched == reason);
        if let Some((_, counter)) = named {
            add(counter, 1);
        }
    }

    /// How many requests met no rule, by [`UNMATCHED`].
    pub(super) fn unmatched(&self) -> [u64; UNMATCHED.len()] {
        array::from_fn(|index| self.unmatched[index].load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn protocol(&self, protocol: Protocol) -> &ProtocolCounts {
        &self.protocols[protocol as usize]
    }
}

/// Adding costs more than looking whether there is anything to add.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

impl RuleCounts {
    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.met_at.load(Ordering::Relaxed) == 0
    }

    #[inline]
    pub(super) fn observe(&self, answer: Answer) {
        let outcome = match (answer.is_over, answer.counts) {
            (false, _) => &self.allowed,
            (true, true) => &self.denied,
            (true, false) => &self.shadow_denied,
        };
        outcome.fetch_add(1, Ordering::Relaxed);
        if answer.is_near && !answer.is_over {
            let near = if answer.counts { &self.near_limit } else { &self.shadow_near_limit };
            near.fetch_add(1, Ordering::Relaxed);
        }
        self.remaining.store(answer.remaining, Ordering::Relaxed);
        self.met_at.store(answer.now.ticks().max(1), Ordering::Relaxed);
    }

    /// Counts several answers that all count, none of which was over and near at once.
    #[inline]
    pub(super) fn observe_several(&self, several: Several, now: Time) {
        add(&self.allowed, several.allowed);
        add(&self.denied, several.denied);
        add(&self.near_limit, several.near);
        self.remaining.store(several.remaining, Ordering::Relaxed);
        self.met_at.store(now.ticks().max(1), Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> RuleTotals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RuleTotals {
            allowed: read(&self.allowed),
            denied: read(&self.denied),
            shadow_denied: read(&self.shadow_denied),
            near_limit: read(&self.near_limit),
            shadow_near_limit: read(&self.shadow_near_limit),
            remaining: read(&self.remaining),
            met_at: read(&self.met_at),
        }
    }
}

impl RuleTotals {
    pub(super) fn is_unused(&self) -> bool {
        self.met_at == 0
    }

    /// Adds what another thread has counted. Of what remains, the newest counts.
    pub(super) fn add(&mut self, other: &RuleTotals) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.shadow_denied += other.shadow_denied;
        self.near_limit += other.near_limit;
        self.shadow_near_limit += other.shadow_near_limit;
        if other.met_at >= self.met_at {
            (self.remaining, self.met_at) = (other.remaining, other.met_at);
        }
    }
}

impl ProtocolCounts {
    /// Counts requests that were decided together, in this time for all of them.
    #[inline]
    pub(super) fn observe(&self, outcomes: Outcomes, took: Span) {
        let Outcomes { allowed, denied } = outcomes;
        let took_each_ns = took.ticks() / (allowed + denied).max(1);
        let bucket = BUCKET_ENDS_NS.partition_point(|end_ns| *end_ns < took_each_ns);
        add(&self.took[0][bucket], denied);
        add(&self.took[1][bucket], allowed);
        add(&self.took_ns, took.ticks());
    }

    pub(super) fn observe_peek(&self) {
        self.peeks.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn observe_bad_request(&self) {
        self.bad_requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_to(&self, totals: &mut ProtocolTotals) {
        let add = |total: &mut u64, counter: &AtomicU64| *total += counter.load(Ordering::Relaxed);
        for (totals, counters) in totals.took.iter_mut().flatten().zip(self.took.iter().flatten()) {
            add(totals, counters);
        }
        add(&mut totals.took_ns, &self.took_ns);
        add(&mut totals.peeks, &self.peeks);
        add(&mut totals.bad_requests, &self.bad_requests);
        add(&mut totals.banned, &self.banned);
        add(&mut totals.bypassed, &self.bypassed);
    }
}
