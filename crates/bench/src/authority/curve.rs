//! What leases save the nearer demand comes to the limit: each key has a limit in proportion to how often it is asked for, and the same requests
//! meet limits that are far away, near, reached, and exceeded.

use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::drive::{Pace, drive_at, once};
use super::leases::Contest;
use super::ours::{Emptied, Ours, Policies};
use super::{KEYS, Turn, report};
use crate::keys::KeyStream;
use crate::table::Table;

/// Demand, as a part of the limit.
const DEMANDS: [f64; 7] = [0.5, 0.7, 0.9, 1.0, 1.1, 1.5, 2.0];
const DEMANDS_QUICK: [f64; 3] = [0.5, 1.0, 1.5];
/// A bucket holds what comes back in so long.
const BURST_SECONDS: f64 = 10.0;
/// Two keys have the same limit if one is asked for less than this much more often than the other.
const CLASS_STEP: f64 = 1.1;
/// Runs before each turn.
const WARM_UP: Duration = Duration::from_secs(12);
/// Requests come at this part of the rate at which they can be decided.
const PART_OF_CAPACITY: f64 = 0.5;

/// One demand, with and without leases.
pub(super) struct Point {
    pub(super) demand: f64,
    pub(super) exact: Paced,
    pub(super) leased: Paced,
}

/// What came of requests that were to come at a rate.
pub(super) struct Paced {
    pub(super) turn: Turn,
    planned_rate: f64,
}

impl Paced {
    /// Of what comes back to all buckets, the part that was admitted. Who cannot ask as quickly as planned is still measured by that.
    fn admitted_part(&self, demand: f64) -> f64 {
        let admitted_rate = self.turn.tally.admitted as f64 / self.turn.tally.seconds;
        admitted_rate / (self.planned_rate / demand)
    }
}

/// How many requests a second to send, by whether they are decided by leases.
pub(super) struct Rates {
    pub(super) exact: f64,
    pub(super) leased: f64,
}

/// Measures all points.
pub(super) fn measure(
    contest: &Contest<'_>,
    capacity: &Rates,
    is_quick: bool,
) -> Result<Vec<Point>, Box<dyn Error>> {
    let demands: &[f64] = if is_quick { &DEMANDS_QUICK } else { &DEMANDS };
    let counts = counts(&contest.keys);
    let mut points = Vec::new();
    for &demand in demands {
        let turn = |rate: f64, is_leased: bool| turn(contest, &counts, demand, rate, is_leased);
        let exact = turn(capacity.exact * PART_OF_CAPACITY, false)?;
        let leased = turn(capacity.leased * PART_OF_CAPACITY, true)?;
        contest.progress.inc(1);
        points.push(Point { demand, exact, leased });
    }
    Ok(points)
}

/// Leases where each key may have twice of what it asks for itself, asked as fast as can be decided.
pub(super) fn at_full_pace(contest: &Contest<'_>, capacity: &Rates) -> Result<Turn, Box<dyn Error>> {
    let paced = turn(contest, &counts(&contest.keys), DEMANDS[0], capacity.leased, true)?;
    contest.progress.inc(1);
    Ok(paced.turn)
}

pub(super) fn steps(is_quick: bool) -> u64 {
    (if is_quick { DEMANDS_QUICK.len() } else { DEMANDS.len() }) as u64
}

fn turn(
    contest: &Contest<'_>,
    counts: &[u32],
    demand: f64,
    rate: f64,
    is_leased: bool,
) -> Result<Paced, Box<dyn Error>> {
    contest.node.flush();
    let policies = policies(counts, rate / contest.keys.whole().len() as f64 / demand, is_leased);
    let ours = Arc::new(contest.runtime.block_on(Ours::with_policies(contest.node.address(), policies))?);
    let running = contest.runtime.spawn(Arc::clone(&ours).run_errands());
    let pace = Pace::PerSecond(rate);
    // Buckets are full at first. Where they will not be, somebody takes all that is in them.
    if demand >= 1.0 {
        let everybody = Arc::new(KeyStream::of(0..KEYS));
        contest.runtime.block_on(once(&Arc::new(Emptied(Arc::clone(&ours))), &everybody))?;
    }
    contest.runtime.block_on(drive_at(&ours, &contest.keys, WARM_UP.min(contest.warm_up), pace))?;
    let before = contest.node.begin()?;
    let tally = contest.runtime.block_on(drive_at(&ours, &contest.keys, contest.turn, pace))?;
    let spent = contest.node.spent_since(&before)?;
    running.abort();
    Ok(Paced { turn: Turn { tally, spent }, planned_rate: rate })
}

/// How often each key is asked for in one round of the stream.
fn counts(keys: &KeyStream) -> Vec<u32> {
    let mut counts = vec![0; usize::try_from(KEYS).unwrap_or(0)];
    for &id in keys.whole().ids() {
        if let Some(count) = usize::try_from(id).ok().and_then(|id| counts.get_mut(id)) {
            *count += 1;
        }
    }
    counts
}

/// A policy for each class of keys that are asked for about as often. `per_count` is how many units a second a key may have for each time
/// that it is asked for in a round.
fn policies(counts: &[u32], per_count: f64, is_leased: bool) -> Policies {
    let class = |count: u32| (f64::from(count.max(1)).ln() / CLASS_STEP.ln()) as u16;
    let consistency = if is_leased { "leased" } else { "exact" };
    let (mut rules, mut bursts) = ("policies:\n".to_owned(), Vec::new());
    for number in 0..=counts.iter().map(|&count| class(count)).max().unwrap_or(0) {
        // The middle of its class.
        let rate = CLASS_STEP.powf(f64::from(number) + 0.5) * per_count;
        let (hourly, burst) = ((rate * 3_600.0).round().max(1.0), (rate * BURST_SECONDS).round().max(1.0));
        bursts.push(burst as u64);
        // Writing to a String cannot fail.
        let _ = writeln!(
            rules,
            "  class-{number}: {{requests: {hourly}, period: 1h, burst: {burst}, algorithm: token_bucket, \
             fail_mode: closed, consistency: {consistency}}}"
        );
    }
    Policies { rules, classes: counts.iter().map(|&count| class(count)).collect(), bursts }
}

/// The points as a table.
pub(super) fn print(points: &[Point]) {
    println!("Each key with a limit of its own, in proportion to how often it is asked for:\n");
    let mut table = Table::new([
        "demand / limit",
        "",
        "decisions/s",
        "commands/decision",
        "Redis CPU us",
        "p50 us",
        "p99 us",
        "admitted",
        "of what comes back",
    ]);
    for point in points {
        for (name, paced) in [("exact", &point.exact), ("leased", &point.leased)] {
            let turn = &paced.turn;
            let latency = |quantile: f64| turn.tally.latencies_ns.value_at_quantile(quantile) as f64 / 1e3;
            let asked = turn.tally.decisions() as f64;
            table.add_row(vec![
                format!("{:.1}", point.demand),
                name.to_owned(),
                format!("{:.0}", turn.tally.rate()),
                format!("{:.4}", report::commands(turn)),
                format!("{:.2}", turn.spent.cpu_ns / 1e3 / asked),
                format!("{:.1}", latency(0.5)),
                format!("{:.1}", latency(0.99)),
                format!("{:.1} %", 100.0 * turn.tally.admitted as f64 / asked),
                format!("{:.1} %", 100.0 * paced.admitted_part(point.demand)),
            ]);
        }
    }
    println!("{table}\n");
}
