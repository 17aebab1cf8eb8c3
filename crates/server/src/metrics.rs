//! What has been decided, counted from verdicts and from nothing else.
//!
//! Every decision is counted, so counting must cost next to nothing: each thread adds to counters of its own, found by the number of
//! the rule without a lock and without looking up a label. Whoever scrapes pays: only then are the counters of all threads summed up
//! and named. Labels name rules, never keys.

mod admin;
mod chunked;
mod classic;
mod clock;
mod exposition;
mod shard;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tollgate::core::{Decision, Span, Time};
use tollgate::policy::{Place, RuleId};
use tollgate::{DecidedBy, Force, Ruling, Status, Unmatched, Verdict};

use crate::admin::Role;
use crate::tls::Expiries;
pub(crate) use admin::AdminOutcome;
use admin::AdminRequests;
use chunked::Chunked;
pub(crate) use classic::classic;
use clock::ClockMetrics;
use exposition::Exposition;
pub(crate) use exposition::{ConnectionStats, EngineStats, StoreStats};
pub(crate) use shard::Outcomes;
use shard::{Answer, Several, Shard, Special};

/// Counters of so many threads are apart; further threads share.
const SHARDS_MAX: usize = 64;

/// How a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Rls,
    Http,
    Resp,
}

/// Counters of all threads.
pub(crate) struct Metrics {
    shards: Box<[OnceLock<Box<Shard>>]>,
    /// What the rules that were met are called, by their numbers.
    names: Chunked<OnceLock<RuleName>>,
    /// From how many millionths of a limit on a key counts as near it.
    near_limit_ppm: u64,
    reloads: Reloads,
    config: ConfigVersions,
    /// Requests without the token that they need, by protocol.
    unauthorized: [AtomicU64; Protocol::ALL.len()],
    admin: AdminRequests,
    clock: ClockMetrics,
    /// Decisions on limits that are shared, by [`SHARED_BY`].
    shared: [AtomicU64; SHARED_BY.len()],
    /// When certificates end.
    certificates: OnceLock<Arc<Expiries>>,
}

/// Who may have decided on a limit that is shared.
const SHARED_BY: [DecidedBy; 6] = [
    DecidedBy::Lease,
    DecidedBy::Authority,
    DecidedBy::FailLocal,
    DecidedBy::FailOpen,
    DecidedBy::FailClosed,
    DecidedBy::Pending,
];

/// What a rule is called in labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RuleName {
    domain: Box<str>,
    rule: Box<str>,
    /// Empty for those without one.
    tier: Box<str>,
}

/// What operators decide at run time: versions, and how often nothing could be learned.
#[derive(Debug, Default)]
struct ConfigVersions {
    applied: AtomicU64,
    saved: AtomicU64,
    failures: AtomicU64,
    unheld: AtomicU64,
}

#[derive(Debug, Default)]
struct Reloads {
    good: AtomicU64,
    bad: AtomicU64,
    /// 1 if the last one was good.
    last_good: AtomicU64,
}

impl Protocol {
    const ALL: [Protocol; 3] = [Protocol::Rls, Protocol::Http, Protocol::Resp];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Rls => "rls",
            Protocol::Http => "http",
            Protocol::Resp => "resp",
        }
    }
}

thread_local! {
    /// Which counters are this thread's.
    static SHARD: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Metrics {
    pub(crate) fn new(near_limit_ratio: f64) -> Metrics {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and a million
        let near_limit_ppm = (near_limit_ratio.clamp(0.0, 1.0) * 1e6).round() as u64;
        Metrics {
            shards: (0..SHARDS_MAX).map(|_| OnceLock::new()).collect(),
            names: Chunked::new(),
            near_limit_ppm,
            reloads: Reloads::default(),
            config: ConfigVersions::default(),
            unauthorized: Default::default(),
            admin: AdminRequests::default(),
            clock: ClockMetrics::default(),
            shared: Default::default(),
            certificates: OnceLock::new(),
        }
    }

    pub(crate) fn clock(&self) -> &ClockMetrics {
        &self.clock
    }

    /// Has the ends of these certificates shown.
    pub(crate) fn set_certificates(&self, certificates: Arc<Expiries>) {
        self.certificates.get_or_init(|| certificates);
    }

    /// When certificates end, if there are any.
    pub(crate) fn certificates(&self) -> Option<&Expiries> {
        self.certificates.get().map(|certificates| &**certificates)
    }

    /// Counts requests that were decided together, in this time for all of them. What their rules have said is counted apart, by
    /// [`Metrics::observe_rules`].
    pub(crate) fn observe(&self, protocol: Protocol, outcomes: Outcomes, took: Span) {
        if outcomes != Outcomes::default() {
            self.shard().protocol(protocol).observe(outcomes, took);
        }
    }

    /// Counts what the rules of a verdict have said.
    pub(crate) fn observe_rules(&self, verdict: &Verdict, protocol: Protocol) {
        let shard = self.shard();
        if verdict.rulings().is_empty() {
            return shard.observe_unlimited(verdict, protocol);
        }
        // Each by itself: what is shared may have been asked whoever decides about the request.
        verdict.rulings().iter().for_each(|ruling| self.observe_shared(ruling.decided_by));
        for status in verdict.statuses() {
            // One decision of a rule, however many limits it has. What was given back is none.
            let Some(ruling) = verdict.tightest_of(status).filter(|ruling| ruling.force != Force::Refund)
            else {
                continue;
            };
            let answer = self.answer(verdict, status, ruling);
            let (Some(place), Some(counter)) = (verdict.place(ruling), ruling.counter()) else {
                shard.special(Special::Override).observe(answer);
                continue;
            };
            match shard.rule(counter) {
                Some(counts) => {
                    if counts.is_unused() {
                        self.remember(place, counter);
                    }
                    counts.observe(answer);
                }
                None => shard.special(Special::Other).observe(answer),
            }
        }
    }

    /// Counts a decision on a limit that is shared.
    pub(crate) fn observe_shared(&self, decided_by: DecidedBy) {
        if let Some(at) = SHARED_BY.iter().position(|by| *by == decided_by) {
            self.shared[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts decisions for callers that bring their own limits, made together in this time for all of them.
    pub(crate) fn observe_throttles<'a>(&self, decisions: impl Iterator<Item = &'a Decision>, took: Span) {
        let mut several = Several::default();
        for decision in decisions {
            several.remaining = decision.remaining;
            if decision.is_allowed() {
                several.allowed += 1;
                several.near += u64::from(self.is_near(decision));
            } else {
                several.denied += 1;
            }
        }
        let outcomes = Outcomes { allowed: several.allowed, denied: several.denied };
        if outcomes == Outcomes::default() {
            return;
        }
        self.observe(Protocol::Resp, outcomes, took);
        // A decision does not say when: of several threads, any one's is as good as another's.
        self.shard().special(Special::Throttle).observe_several(several, Time::from_ticks(1));
    }

    /// Counts a request that met no rule, because no descriptor could be made of it.
    pub(crate) fn observe_unmatched(&self, reason: Unmatched) {
        self.shard().observe_unmatched(reason);
    }

    /// Counts a question that took nothing. What it was told is not counted: nothing was decided.
    pub(crate) fn observe_peek(&self, protocol: Protocol) {
        self.shard().protocol(protocol).observe_peek();
    }

    /// Counts a request without an answer.
    pub(crate) fn observe_bad_request(&self, protocol: Protocol) {
        self.shard().protocol(protocol).observe_bad_request();
    }

    /// Counts a request without the token that it needs.
    pub(crate) fn observe_unauthorized(&self, protocol: Protocol) {
        self.unauthorized[protocol as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request to the admin API, of a caller with this role or without a valid token.
    pub(crate) fn observe_admin(&self, role: Option<Role>, outcome: AdminOutcome) {
        self.admin.observe(role, outcome);
    }

    /// Which version of what operators have decided is in force here.
    pub(crate) fn observe_config(&self, version: u64) {
        self.config.applied.store(version, Ordering::Relaxed);
    }

    /// Which version of it would be, if the server started without its database.
    pub(crate) fn observe_saved_config(&self, version: u64) {
        self.config.saved.store(version, Ordering::Relaxed);
    }

    /// Counts what could not be learned from the database.
    pub(crate) fn observe_config_failure(&self) {
        self.config.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what the database has and this server has no room for.
    pub(crate) fn observe_config_unheld(&self, count: u64) {
        self.config.unheld.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a reload of the rules.
    pub(crate) fn observe_reload(&self, good: bool) {
        let Reloads { good: goods, bad, last_good } = &self.reloads;
        // Relaxed, here and wherever counters are read: each number stands for itself.
        (if good { goods } else { bad }).fetch_add(1, Ordering::Relaxed);
        last_good.store(u64::from(good), Ordering::Relaxed);
    }

    /// All of it as text, in the format of `OpenMetrics`.
    pub(crate) fn encode(
        &self,
        engine: EngineStats,
        store: StoreStats,
        connections: ConnectionStats,
    ) -> Result<String, fmt::Error> {
        Exposition::of(self, engine, store, connections).encode()
    }

    fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().filter_map(OnceLock::get).map(Box::as_ref)
    }

    fn shard(&self) -> &Shard {
        static GIVEN: AtomicUsize = AtomicUsize::new(0);
        let index = SHARD.get().unwrap_or_else(|| {
            let index = GIVEN.fetch_add(1, Ordering::Relaxed) % SHARDS_MAX;
            SHARD.set(Some(index));
            index
        });
        self.shards[index].get_or_init(Box::default)
    }

    /// What a rule has answered to a descriptor, of which `ruling` is the tightest.
    fn answer(&self, verdict: &Verdict, status: &Status, ruling: &Ruling) -> Answer {
        let now = verdict.now();
        let Decision { remaining, .. } = ruling.decision;
        if ruling.is_over() {
            // A denial does not count, where the whole server is in shadow mode.
            let counts = ruling.denies() && !verdict.allowed();
            return Answer { is_over: true, counts, is_near: false, remaining, now };
        }
        // A limit that counts comes before one that does not, so that another one may be over nevertheless.
        let rulings = match status {
            Status::Limited(range) => &verdict.rulings()[range.clone()],
            _ => &[],
        };
        let is_over = rulings.len() > 1 && rulings.iter().any(Ruling::is_over);
        let counts = !is_over && matches!(ruling.force, Force::Enforced | Force::Quota);
        Answer { is_over, counts, is_near: self.is_near(&ruling.decision), remaining, now }
    }

    fn is_near(&self, decision: &Decision) -> bool {
        let used = decision.limit.saturating_sub(decision.remaining);
        u128::from(used) * 1_000_000 > u128::from(decision.limit) * u128::from(self.near_limit_ppm)
    }

    #[cold]
    fn remember(&self, place: &Place, counter: RuleId) {
        let tier = place.tier(counter).unwrap_or_default();
        let name =
            || RuleName { domain: place.domain().into(), rule: place.path().into(), tier: tier.into() };
        if let Some(slot) = self.names.at(counter.index()) {
            slot.get_or_init(name);
        }
    }
}
