//! How much was admitted, beside what may be.
//!
//! Of a request that was admitted of a lease, nobody outside knows when: somewhere between its question and its answer. So all are taken so, by one
//! clock, and towards an interval count those that lie inside it as a whole. What is found is never too much, and too little by what was on its way at
//! the ends of the interval.

use tollgate_core::{Ask, Cost, Time};
use tollgate_testkit::{Admission, Admissions};

use super::limits::{Algorithm, INTERVAL_US, PERIOD_US, Policy};
use super::load::{Asked, Demand, Outcome};

/// By how much the clock of Redis and ours may differ: they are of one machine.
const CLOCKS_APART_US: u64 = 2_000;

/// What became of the requests under one policy: the worst of its keys, and the sums of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) asked: u64,
    pub(super) by_lease: u64,
    pub(super) by_fail_mode: u64,
    pub(super) unanswered: u64,
    pub(super) admitted: u64,
    /// What one exact limiter admits.
    pub(super) oracle: u64,
    pub(super) worst: u64,
    /// How many units are beyond the bound.
    pub(super) beyond: u64,
}

/// Judges one policy by all that was asked, in the order in which it was sent. An error where the clocks cannot be compared.
pub(super) fn row(policy: Policy, asked: &[Asked]) -> Result<Row, String> {
    let of_policy: Vec<Asked> = asked.iter().filter(|asked| asked.policy == policy).copied().collect();
    let count =
        |is_one: fn(&Outcome) -> bool| of_policy.iter().filter(|asked| is_one(&asked.outcome)).count() as u64;
    let mut row = Row {
        asked: of_policy.len() as u64,
        by_lease: count(|outcome| *outcome == Outcome::Leased),
        by_fail_mode: count(|outcome| *outcome == Outcome::FailMode),
        unanswered: count(|outcome| *outcome == Outcome::Unanswered),
        admitted: count(|outcome| outcome.is_admitted()),
        ..Row::default()
    };
    if let Some(asked) = of_policy.iter().find(|asked| !is_of_one_clock(asked)) {
        return Err(format!(
            "Redis has decided at a moment that was not between question and answer: {asked:?}"
        ));
    }
    for demand in Demand::ALL {
        let of_key: Vec<Asked> = of_policy.iter().filter(|asked| asked.demand == demand).copied().collect();
        row.oracle += oracle_admits(policy, &of_key);
        let admissions: Admissions = of_key.iter().filter_map(admission).collect();
        let worst = worst(policy.algorithm, &admissions);
        let over_windows = over_admissions(policy, &admissions);
        row.worst = row.worst.max(worst);
        row.beyond = row.beyond.max(worst.saturating_sub(policy.bound())).max(over_windows);
    }
    Ok(row)
}

fn is_of_one_clock(asked: &Asked) -> bool {
    match asked.outcome {
        Outcome::Decided { at_us, .. } => {
            let from_us = asked.sent_us - CLOCKS_APART_US;
            (from_us..=asked.answered_us + CLOCKS_APART_US).contains(&at_us)
        }
        _ => true,
    }
}

fn admission(asked: &Asked) -> Option<Admission> {
    let admission = Admission { from_us: asked.sent_us, to_us: asked.answered_us, units: 1 };
    asked.outcome.is_admitted().then_some(admission)
}

/// Over every interval: of a bucket, the smallest burst that admits it all; of others, the most in a time of the period's length.
fn worst(algorithm: Algorithm, admissions: &Admissions) -> u64 {
    match algorithm {
        Algorithm::TokenBucket => admissions.least_burst(INTERVAL_US),
        _ => admissions.most_within(PERIOD_US),
    }
}

/// How many of the admissions an oracle refuses, where leases add nothing to what the algorithm allows: windows.
///
/// A lease is spent in the window that counted it, but later, and later in a window no less is admitted. So the oracle is shown each when it was
/// known. Those of which it is not certain in which window they were are passed over.
fn over_admissions(policy: Policy, admissions: &Admissions) -> u64 {
    if !matches!(policy.algorithm, Algorithm::FixedWindow | Algorithm::SlidingWindow) {
        return 0;
    }
    let window = |at_us: u64| at_us / PERIOD_US;
    let is_certain = |admission: &Admission| {
        window(admission.from_us - CLOCKS_APART_US) == window(admission.to_us + CLOCKS_APART_US)
    };
    let mut oracle = policy.spec().oracle();
    let mut is_refused = |admission: &Admission| {
        let at = Time::from_ticks(admission.to_us + CLOCKS_APART_US);
        !oracle.decide(Ask::take(Cost::new(admission.units), at)).is_allowed()
    };
    admissions.iter().filter(is_certain).filter(|admission| is_refused(admission)).count() as u64
}

/// How many of these requests one exact limiter admits.
fn oracle_admits(policy: Policy, asked: &[Asked]) -> u64 {
    let mut oracle = policy.spec().oracle();
    let mut is_admitted =
        |asked: &&Asked| oracle.decide(Ask::take(Cost::ONE, Time::from_ticks(asked.sent_us))).is_allowed();
    asked.iter().filter(|asked| is_admitted(asked)).count() as u64
}

#[cfg(test)]
mod tests;
