//! The answer to a request: whether it passes, and what every limit that it met has said.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use smallvec::SmallVec;
use tollgate_core::{CalendarUnit, Decision, Holder, Outcome, Span, Tick, Time};
use tollgate_policy::{Period, Place, PlaceIndex, PlacedLimit, RuleId, Snapshot};
use tollgate_store::authority::Failure;

use crate::reservation::Charged;

/// Most requests meet at most so many limits; more cost an allocation.
const LIMITS_USUAL: usize = 2;

/// How long to wait for somebody else to finish, who may do so at any moment.
const BUSY_WAIT: Span = Span::from_ticks(1_000_000_000);

/// What clients are told a limit is called that a request brought along.
const OWN_LIMIT_TITLE: &str = "override";

/// A request's answer.
#[derive(Debug)]
pub struct Verdict {
    pub(crate) allowed: bool,
    pub(crate) decided_by: DecidedBy,
    pub(crate) now: Time,
    pub(crate) answer: Answer,
    pub(crate) snapshot: Guard<Option<Arc<Snapshot>>>,
}

/// What the limits that a request has met say.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) statuses: Usual<Status>,
    pub(crate) rulings: Usual<Ruling>,
    /// Who holds units now, by the index of the ruling that gave them.
    pub(crate) holders: SmallVec<[(usize, Holder); 1]>,
    /// Why an authority did not answer, where one was asked and did not.
    pub(crate) failure: Option<Failure>,
    /// What was taken, where that is to be remembered.
    pub(crate) charged: Vec<Charged>,
    /// Whether something is kept that an authority has not confirmed.
    pub(crate) is_pending: bool,
    /// Whether a counter has counted the request before, under its id.
    pub(crate) is_repeated: bool,
}

impl Answer {
    /// Whoever denied a request; or, of one that passes, whoever knew least.
    pub(crate) fn decided_by(&self, passes: bool) -> DecidedBy {
        let counts = |ruling: &&Ruling| if passes { !ruling.is_free() } else { ruling.denies() };
        let deciding = self.rulings.iter().filter(counts).map(|ruling| ruling.decided_by).max();
        deciding.unwrap_or_else(|| self.decided_here())
    }

    /// The same where this process alone decides.
    pub(crate) fn decided_here(&self) -> DecidedBy {
        if self.rulings.is_empty() && self.statuses.contains(&Status::SwitchedOff) {
            return DecidedBy::KillSwitch;
        }
        DecidedBy::Ledger
    }
}

/// A list of as many things as a request usually meets limits.
pub(crate) type Usual<T> = SmallVec<[T; LIMITS_USUAL]>;

/// Who has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecidedBy {
    /// Nobody: the request was denied before it came to that.
    Nobody,
    /// The counters of this process.
    Ledger,
    /// What this process has of the counters that the fleet shares.
    Lease,
    /// The counters that the fleet shares.
    Authority,
    /// The share of this process, because the authority was away.
    FailLocal,
    /// The rule, which lets everything pass while the authority is away.
    FailOpen,
    /// Nobody yet: the authority was away, and what was spent is kept until it can count it.
    Pending,
    /// The rule, which lets nothing pass while the authority is away.
    FailClosed,
    /// Nobody asked the counters: an operator has switched them off.
    KillSwitch,
    /// Nobody asked the counters: an operator has banned the key.
    Ban,
}

impl DecidedBy {
    /// In a word, for header fields, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            DecidedBy::Nobody => "nobody",
            DecidedBy::Ledger => "ledger",
            DecidedBy::Lease => "lease",
            DecidedBy::Authority => "authority",
            DecidedBy::FailLocal => "fail_local",
            DecidedBy::FailOpen => "fail_open",
            DecidedBy::Pending => "pending",
            DecidedBy::FailClosed => "fail_closed",
            DecidedBy::KillSwitch => "kill_switch",
            DecidedBy::Ban => "ban",
        }
    }
}

/// What became of one descriptor (or of the policy's key).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// There is no rule for it.
    Unmatched(Unmatched),
    /// The rule that applies, or its domain, is turned off in the rules or has no limit for it.
    NoLimit,
    /// An operator has switched off the rule that applies, or all that could.
    SwitchedOff,
    /// An operator has banned it.
    Banned {
        /// Until just before this moment.
        until: Time,
    },
    /// A rule lets everything through.
    Unlimited,
    /// Limits have answered: those of [`Verdict::rulings`] in this range.
    Limited(Range<usize>),
}

/// Why there is no rule for a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmatched {
    /// There is no such domain.
    Domain,
    /// No rule of the domain matches.
    Rule,
}

/// What one limit has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruling {
    pub(crate) place: Option<PlaceIndex>,
    pub(crate) limit_index: usize,
    pub(crate) counter: Option<RuleId>,
    /// The units per period, as the rule puts it.
    pub units: u64,
    /// The period, as the rule puts it.
    pub period: Period,
    /// How much was asked for.
    pub cost: u64,
    /// The answer.
    pub decision: Decision,
    /// Whose answer it is.
    pub decided_by: DecidedBy,
    /// When an authority decided, by its own clock, in nanoseconds since 1970: the beginning of the tick in which it counts. A denial
    /// that is still remembered has the moment at which it was remembered.
    pub decided_at: Option<Time>,
    /// How far the answer counts.
    pub force: Force,
}

/// How far a limit's answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// A denial denies the request.
    Enforced,
    /// Only if all quota rules of the request deny is it denied.
    Quota,
    /// Not: a quota rule that is over, while another one admits.
    Excused,
    /// Not: counted and reported only.
    Shadow,
    /// Not: units were given back.
    Refund,
}

impl Verdict {
    /// Whether the request may pass.
    pub fn allowed(&self) -> bool {
        self.allowed
    }

    /// Who has decided: of a denied request, whoever denied it; of one that passes, whoever knew least.
    pub fn decided_by(&self) -> DecidedBy {
        self.decided_by
    }

    /// Why an authority did not answer, where one was asked and did not.
    pub fn failure(&self) -> Option<Failure> {
        self.answer.failure
    }

    /// Whether an authority has not confirmed what was settled or booked: it is kept here and sent again until the authority has it.
    pub fn is_pending(&self) -> bool {
        self.answer.is_pending
    }

    /// Whether the request was counted before under its [id](crate::RequestId), and so was not charged again.
    pub fn is_repeated(&self) -> bool {
        self.answer.is_repeated
    }

    /// When it was decided.
    pub fn now(&self) -> Time {
        self.now
    }

    /// What became of each descriptor, in order.
    pub fn statuses(&self) -> &[Status] {
        &self.answer.statuses
    }

    /// What each limit has said, in the order of the descriptors.
    pub fn rulings(&self) -> &[Ruling] {
        &self.answer.rulings
    }

    /// The most restrictive ruling. Of those that deny, the one that never admits the request, else the one that keeps it waiting
    /// longest, where of the quota rules one is enough; else that with the least remaining.
    pub fn tightest(&self) -> Option<&Ruling> {
        let denying = |kind| move |ruling: &&Ruling| ruling.denies() && ruling.force == kind;
        let tightness = |ruling: &&Ruling| Reverse(ruling.looseness());
        let enforced = self.rulings().iter().filter(denying(Force::Enforced)).max_by_key(tightness);
        let quotas = self.statuses().iter().filter_map(|status| self.tightest_of(status));
        let quota = quotas.filter(denying(Force::Quota)).min_by_key(tightness);
        let tightest_denying = [enforced, quota].into_iter().flatten().max_by_key(tightness);
        tightest_denying.or_else(|| tightest(self.rulings()))
    }

    /// The most restrictive ruling on one descriptor.
    pub fn tightest_of(&self, status: &Status) -> Option<&Ruling> {
        match status {
            Status::Limited(range) => tightest(&self.answer.rulings[range.clone()]),
            _ => None,
        }
    }

    /// Until when a request is denied because an operator has banned one of its keys.
    pub fn banned_until(&self) -> Option<Time> {
        let until = |status: &Status| match status {
            Status::Banned { until } => Some(*until),
            _ => None,
        };
        let is_denied = !self.allowed && self.decided_by == DecidedBy::Ban;
        is_denied.then(|| self.statuses().iter().filter_map(until).max()).flatten()
    }

    /// Why there is no rule for the request: for none of its descriptors.
    pub fn unmatched(&self) -> Option<Unmatched> {
        let unmatched = |status: &Status| match status {
            Status::Unmatched(unmatched) => Some(*unmatched),
            _ => None,
        };
        let mut statuses = self.statuses().iter();
        let first = unmatched(statuses.next()?)?;
        statuses.all(|status| unmatched(status).is_some()).then_some(first)
    }

    /// How long a denied request has to wait, where that is known: until the last of the limits that deny it admits it, or
    /// until a ban ends.
    pub fn retry_after(&self) -> Option<Span> {
        if let Some(until) = self.banned_until() {
            return Some(until.since(self.now));
        }
        self.tightest().filter(|_| !self.allowed).and_then(|ruling| ruling.decision.retry_after())
    }

    /// How long an allowed request is to be held back: what the slowest queue asks.
    pub fn wait(&self) -> Span {
        self.answer
            .rulings
            .iter()
            .filter(|ruling| matches!(ruling.force, Force::Enforced | Force::Quota))
            .map(|ruling| ruling.decision.wait())
            .max()
            .unwrap_or(Span::ZERO)
    }

    /// The place of the rule that a ruling comes from. A limit that the request brought along has none.
    pub fn place(&self, ruling: &Ruling) -> Option<&Place> {
        let snapshot = self.snapshot.as_ref()?;
        Some(snapshot.place(ruling.place?))
    }

    /// The limit that a ruling comes from.
    pub fn limit(&self, ruling: &Ruling) -> Option<&PlacedLimit> {
        self.place(ruling)?.limits().get(ruling.limit_index)
    }

    /// What clients are told the limit is called.
    pub fn title(&self, ruling: &Ruling) -> &str {
        self.limit(ruling).map_or(OWN_LIMIT_TITLE, PlacedLimit::title)
    }
}

impl Ruling {
    /// The number under which it is counted in metrics, if it comes from a rule: that of the rule, or of one of its tiers.
    pub fn counter(&self) -> Option<RuleId> {
        self.counter
    }

    /// Whether the request passes whatever the limit says.
    fn is_free(&self) -> bool {
        !matches!(self.force, Force::Enforced | Force::Quota)
    }

    /// Whether the limit denies.
    pub fn is_over(&self) -> bool {
        !self.decision.is_allowed()
    }

    /// Whether the limit denies, and that counts.
    pub fn denies(&self) -> bool {
        self.is_over() && !self.is_free()
    }

    /// How long whoever is denied is told to wait. Where the limit itself cannot say: for somebody to finish, a second; and where the
    /// cost is larger than the limit can ever admit, at least until the limit is as good as unused.
    pub fn told_wait(&self) -> Option<Span> {
        match self.decision.outcome {
            Outcome::Allowed { .. } => None,
            Outcome::NotNow { retry_after } => Some(retry_after),
            Outcome::Busy => Some(BUSY_WAIT),
            Outcome::Never => Some(self.decision.reset_after.unwrap_or(Span::ZERO).max(self.period_span())),
        }
    }

    /// The period of the limit; that of a calendar as it usually is.
    fn period_span(&self) -> Span {
        const DAY: Duration = Duration::from_hours(24);
        let length = match self.period {
            Period::Calendar(CalendarUnit::Day) => DAY,
            Period::Calendar(CalendarUnit::Week) => 7 * DAY,
            Period::Calendar(CalendarUnit::Month) => 30 * DAY,
            other => other.length().unwrap_or(DAY),
        };
        Tick::NANOSECOND.span(length).unwrap_or(Span::MAX)
    }

    /// Orders rulings: enforced before reported ones, denials before the rest, `Never` before a wait,
    /// then who waits longest or has least left.
    fn looseness(&self) -> (u8, bool, bool, u64) {
        let left = self.told_wait().map_or(self.decision.remaining, |wait| u64::MAX - wait.ticks());
        let rank = match self.force {
            Force::Enforced | Force::Quota => 0,
            Force::Excused | Force::Refund => 1,
            Force::Shadow => 2,
        };
        (rank, !self.is_over(), self.decision.outcome != Outcome::Never, left)
    }
}

fn tightest(rulings: &[Ruling]) -> Option<&Ruling> {
    rulings.iter().min_by_key(|ruling| ruling.looseness())
}
