//! The limits of the fleet, as rules and as numbers, and what is published about each.

use tollgate_testkit::Spec;

/// The limit of every key: so much on average, whatever the algorithm.
pub(super) const UNITS: u64 = 200;
pub(super) const PERIOD_S: u64 = 5;
pub(super) const PERIOD_US: u64 = PERIOD_S * 1_000_000;
/// The time in which a bucket gets one unit back.
pub(super) const INTERVAL_US: u64 = PERIOD_US / UNITS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    TokenBucket,
    SlidingWindow,
    FixedWindow,
    SlidingLog,
}

impl Algorithm {
    const ALL: [Algorithm; 4] =
        [Algorithm::TokenBucket, Algorithm::SlidingWindow, Algorithm::FixedWindow, Algorithm::SlidingLog];

    pub(super) fn name(self) -> &'static str {
        match self {
            Algorithm::TokenBucket => "token_bucket",
            Algorithm::SlidingWindow => "sliding_window",
            Algorithm::FixedWindow => "fixed_window",
            Algorithm::SlidingLog => "sliding_log",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consistency {
    Exact,
    Leased,
    Strict,
}

impl Consistency {
    const ALL: [Consistency; 3] = [Consistency::Exact, Consistency::Leased, Consistency::Strict];

    pub(super) fn name(self) -> &'static str {
        match self {
            Consistency::Exact => "exact",
            Consistency::Leased => "leased",
            Consistency::Strict => "strict",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Consistency::Exact => "exact",
            Consistency::Leased => "leased",
            Consistency::Strict => "leased, strict: true",
        }
    }
}

/// A policy of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) algorithm: Algorithm,
    pub(super) consistency: Consistency,
}

impl Policy {
    pub(super) fn all() -> impl Iterator<Item = Policy> {
        let of_algorithm =
            |algorithm| Consistency::ALL.map(|consistency| Policy { algorithm, consistency }).into_iter();
        Algorithm::ALL.into_iter().flat_map(of_algorithm)
    }

    pub(super) fn name(self) -> String {
        format!("{}-{}", self.algorithm.name(), self.consistency.name())
    }

    pub(super) fn is_strict(self) -> bool {
        self.consistency == Consistency::Strict
    }

    pub(super) fn is_leased(self) -> bool {
        self.consistency != Consistency::Exact
    }

    /// The numbers of its limit, in microseconds.
    pub(super) fn spec(self) -> Spec {
        let (units, period_ticks) = (UNITS, PERIOD_US);
        match self.algorithm {
            Algorithm::TokenBucket => Spec::TokenBucket { units, period_ticks, burst: UNITS },
            Algorithm::SlidingWindow => Spec::SlidingWindow { units, period_ticks },
            Algorithm::FixedWindow => Spec::FixedWindow { units, period_ticks },
            Algorithm::SlidingLog => Spec::SlidingLog { units, period_ticks },
        }
    }

    /// The most that is published: of a bucket, its burst and what leases add to it; of the others, what is admitted in any time of the
    /// period's length.
    pub(super) fn bound(self) -> u64 {
        let is_lax = self.consistency == Consistency::Leased;
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::SlidingLog if is_lax => UNITS + UNITS / 2,
            Algorithm::TokenBucket | Algorithm::SlidingLog => UNITS,
            // Around a boundary, leases or not.
            Algorithm::SlidingWindow | Algorithm::FixedWindow => 2 * UNITS,
        }
    }
}

/// The policies, as rules.
pub(super) fn rules() -> String {
    let rule = |policy: Policy| {
        let algorithm = policy.algorithm.name();
        let burst = if policy.algorithm == Algorithm::TokenBucket {
            format!(", burst: {UNITS}")
        } else {
            String::new()
        };
        format!(
            "  {}: {{requests: {UNITS}, period: {PERIOD_S}s{burst}, algorithm: {algorithm}, fail_mode: closed, consistency: {}}}\n",
            policy.name(),
            policy.consistency.words()
        )
    };
    format!("policies:\n{}", Policy::all().map(rule).collect::<String>())
}
