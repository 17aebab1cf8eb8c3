//! A rule: what a place in the policy asks of the requests that reach it.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Limit, SharedLimit};

use crate::counting::Counting;

/// What is asked of the requests that reach one place: a descriptor of a domain, or a named policy.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // The switches of the format, which are independent of each other.
pub struct Rule {
    /// Whether the rule is in force. One that is not is passed by, as if nothing matched.
    pub enabled: bool,
    /// Counts and reports, and never denies.
    pub shadow_mode: bool,
    /// Denies only if all rules of the request that say so are over their limits.
    pub quota_mode: bool,
    /// Whether the operator wants values in metrics. Kept for `explain`: labels never carry keys.
    pub detailed_metric: bool,
    /// What is returned to the proxy along with the answer.
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
    /// The limits, each with its own counters. Empty where the place lets everything through without counting.
    pub limits: Vec<RuleLimit>,
}

/// One of the limits of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleLimit {
    /// Its name: told to clients, and what `replaces` refers to.
    pub name: Option<String>,
    /// The names of limits that are dropped when this one applies to the same request.
    pub replaces: Vec<String>,
    /// How much, for whoever has no tier.
    pub allowance: Allowance,
    /// How much, for those who have.
    pub tiers: Vec<(String, Allowance)>,
    /// What happens to a charge beyond what is left.
    pub overshoot: Overshoot,
    /// For how many of a hundred keys the limit is enforced; the others are only counted.
    pub enforce_percent: u8,
    /// Who decides; `None` follows the store.
    pub consistency: Option<Consistency>,
    /// What happens when the authority is away.
    pub fail_mode: FailMode,
    /// The part of the limit that one node spends on its own when the authority is away, in percent; `None`
    /// follows the number of nodes.
    pub local_percent: Option<u8>,
    /// Whether leases take nothing beyond the limit.
    pub strict: bool,
    /// How other numbers would be counted: those of a tenant's own.
    pub counting: Counting,
}

/// How much a limit allows.
#[derive(Clone, Debug, PartialEq)]
pub enum Allowance {
    /// Any amount; nothing is counted.
    Unlimited,
    /// So much.
    Quota(Quota),
}

impl Allowance {
    /// Whether its numbers are too large for a count that is shared. What lets nothing pass needs no count.
    pub fn is_too_large_to_share(&self) -> bool {
        matches!(self, Allowance::Quota(quota) if quota.shared.is_none() && quota.units > 0)
    }
}

/// A limit, and the words in which its rule put it.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// What decides.
    pub limit: Limit,
    /// The units per period, as written.
    pub units: u64,
    /// The period, as written. A calendar month has none.
    pub period: Period,
    /// What decides where the count is shared. Numbers may be too large for that.
    pub shared: Option<Arc<SharedLimit>>,
    /// How units are leased, where they are.
    pub leased: Option<LeaseTerms>,
}

/// The part of a durable limit that one process has in hand at most, in percent: so much is lost to everybody until the window ends if the process is
/// killed.
const DURABLE_PERCENT: u8 = 1;

/// How many units may be out in leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// With all processes together.
    pub budget: u64,
    /// With one of them.
    pub node_max: u64,
    /// Only while the key is hot; it is exact otherwise.
    pub when_hot: bool,
}

impl Quota {
    /// A limit that was written as so many units per period.
    pub fn new(limit: Limit, units: u64, period: Period) -> Quota {
        let shared = SharedLimit::new(&limit).ok().map(Arc::new);
        Quota { limit, units, period, shared, leased: None }
    }

    /// Lets units be leased: half of what there is at once, and of that each process its part, or so many hundredths of the whole at most. Where the limit must hold to
    /// the unit, it is a quarter, which is reserved: the shared count admits so much less at once. Limits too small for that, and those that cannot be leased, stay exact.
    pub fn lease(&mut self, is_strict: bool, local_percent: Option<u8>) {
        let capacity = self.limit.capacity();
        let budget = capacity / if is_strict { 4 } else { 2 };
        let part = |percent: u8| u128::from(capacity) * u128::from(percent) / 100;
        let node_max =
            local_percent.map_or(u64::MAX, |percent| u64::try_from(part(percent)).unwrap_or(u64::MAX));
        if !self.limit.is_leasable() || self.shared.is_none() || budget == 0 || node_max == 0 {
            return;
        }
        if is_strict {
            let reserved = self.limit.with_reserve(budget).and_then(|limit| SharedLimit::new(&limit).ok());
            let Some(reserved) = reserved else { return };
            self.shared = Some(Arc::new(reserved));
        }
        self.leased = Some(LeaseTerms { budget, node_max, when_hot: false });
    }
}

impl Quota {
    /// Lets units of a count that is kept in the database be had in blocks. They count from the moment at which they are granted, so nothing is ever admitted beyond the
    /// limit; of a few units, and where a process may have none, each is asked for.
    pub(crate) fn lease_durably(&mut self, local_percent: Option<u8>) {
        let capacity = self.limit.capacity();
        let percent = local_percent.unwrap_or(DURABLE_PERCENT);
        let part = u128::from(capacity) * u128::from(percent) / 100;
        let node_max = u64::try_from(part).unwrap_or(u64::MAX);
        if self.shared.is_some() && node_max > 0 {
            self.leased = Some(LeaseTerms { budget: capacity, node_max, when_hot: false });
        }
    }
}

/// The period of a quota, as its rule puts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// One of the units of the format.
    Unit(Unit),
    /// Any length.
    Length(Duration),
    /// A day, week or month of the calendar.
    Calendar(tollgate_core::CalendarUnit),
}

/// The units of time of the format. A month has 30 days and a year 365.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// What happens to a charge beyond what is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overshoot {
    /// A cost that its descriptor carries is booked, any other denied.
    #[default]
    ByCaller,
    /// It is denied and nothing is taken.
    Deny,
    /// It is denied and booked: the key is in debt until that is paid off.
    Book,
}

/// Who decides on a limit's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// This process alone.
    Local,
    /// A shared count that is never exceeded.
    Exact,
    /// Blocks of a shared count, spent locally.
    Leased,
    /// Blocks of a count that is kept in the database, spent locally.
    Durable,
}

/// What happens when the authority is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// Everything passes.
    Open,
    /// Nothing passes.
    Closed,
    /// The ledger alone decides, at the node's share of the limit.
    #[default]
    Local,
}

/// The algorithm of a limit that does not name one and has no burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultAlgorithm {
    /// Two counters, weighted.
    #[default]
    SlidingWindow,
    /// One counter per window, as envoyproxy/ratelimit counts.
    FixedWindow,
}

impl Unit {
    /// All units, shortest first.
    pub const ALL: [Unit; 7] =
        [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Year];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Second => "second",
            Unit::Minute => "minute",
            Unit::Hour => "hour",
            Unit::Day => "day",
            Unit::Week => "week",
            Unit::Month => "month",
            Unit::Year => "year",
        }
    }

    /// How many seconds it has.
    pub const fn seconds(self) -> u64 {
        match self {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3_600,
            Unit::Day => 86_400,
            Unit::Week => 604_800,
            Unit::Month => 2_592_000,
            Unit::Year => 31_536_000,
        }
    }
}

impl Period {
    /// Its length. That of a calendar's day, week or month varies: none is given.
    pub fn length(self) -> Option<Duration> {
        match self {
            Period::Unit(unit) => Some(Duration::from_secs(unit.seconds())),
            Period::Length(length) => Some(length),
            Period::Calendar(_) => None,
        }
    }

    /// The unit of the format that has this length, if there is one.
    pub fn unit(self) -> Option<Unit> {
        match self {
            Period::Unit(unit) => Some(unit),
            _ => {
                Unit::ALL.into_iter().find(|unit| Some(Duration::from_secs(unit.seconds())) == self.length())
            }
        }
    }
}
