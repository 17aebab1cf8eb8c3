//! Traffic made to show where algorithms differ: steady overload, bursts, and an attacker at the boundary.

use std::time::Duration;

use tollgate_core::{Cost, LimitError, Rate, Tick, Time};

use tollgate_load::Random;

/// The units of every made-up limit.
const UNITS: u64 = 100;
/// The period of every limit.
const PERIOD: Duration = Duration::from_mins(1);
/// Arrivals of the made-up traffic, about.
const ARRIVALS: usize = 120_000;
/// Where the made-up timelines begin: a boundary of windows, well after the epoch.
const START_NS: u64 = 60_000_000_000 * 1_000_000;

/// One question in a traffic.
pub(super) struct Arrival {
    /// The key, as a number.
    pub(super) key: usize,
    /// The moment of asking.
    pub(super) at: Time,
    /// The units asked for.
    pub(super) cost: Cost,
}

/// Arrivals in the order of time, and the rate they are held to.
pub(super) struct Traffic {
    /// What the table calls it.
    pub(super) name: &'static str,
    /// N per W for every key.
    pub(super) rate: Rate,
    /// How many keys there are.
    pub(super) keys: usize,
    /// The arrivals.
    pub(super) arrivals: Vec<Arrival>,
}

impl Traffic {
    /// Puts arrivals of any order into the order of time.
    pub(super) fn new(name: &'static str, rate: Rate, keys: usize, mut arrivals: Vec<Arrival>) -> Traffic {
        arrivals.sort_by_key(|arrival| arrival.at);
        Traffic { name, rate, keys, arrivals }
    }
}

/// `units` per minute.
pub(super) fn per_minute(units: u64) -> Result<Rate, LimitError> {
    Rate::new(units, Tick::NANOSECOND.span(PERIOD)?)
}

/// The made-up traffics.
pub(super) fn made_up(seed: u64) -> Result<[Traffic; 3], LimitError> {
    let rate = per_minute(UNITS)?;
    Ok([
        single_key("Poisson 1.2 x", rate, poisson(rate, 1.2, seed)),
        single_key("on/off bursts", rate, on_off(rate, seed)),
        single_key("boundary attacker", rate, boundary_attacker(rate)),
    ])
}

fn single_key(name: &'static str, rate: Rate, moments_ns: Vec<u64>) -> Traffic {
    let arrival = |at_ns| Arrival { key: 0, at: Time::from_ticks(START_NS + at_ns), cost: Cost::ONE };
    Traffic::new(name, rate, 1, moments_ns.into_iter().map(arrival).collect())
}

/// The mean gap between arrivals at `load` times the rate.
fn gap_ns(rate: Rate, load: f64) -> f64 {
    rate.period().ticks() as f64 / (rate.units() as f64 * load)
}

/// Independent arrivals at `load` times the limit.
fn poisson(rate: Rate, load: f64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut at_ns = 0.0;
    let mut arrive = || {
        at_ns += random.exponential(gap_ns(rate, load));
        at_ns as u64
    };
    (0..ARRIVALS).map(|_| arrive()).collect()
}

/// Silence for a period on average, then eight times the limit for a quarter of one, again and again; both vary, so
/// that bursts meet windows at every phase.
fn on_off(rate: Rate, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let period_ns = rate.period().ticks() as f64;
    let (mut moments, mut at_ns) = (Vec::with_capacity(ARRIVALS), 0.0);
    while moments.len() < ARRIVALS {
        at_ns += random.exponential(period_ns);
        let burst_end_ns = at_ns + random.exponential(period_ns / 4.0);
        while at_ns < burst_end_ns {
            moments.push(at_ns as u64);
            at_ns += random.exponential(gap_ns(rate, 8.0));
        }
    }
    moments
}

/// One who knows where windows begin: a whole limit just before a boundary, then twice the limit evenly over the
/// next window (while that limit still counts), then a window of silence, so that all is forgotten.
fn boundary_attacker(rate: Rate) -> Vec<u64> {
    let (period_ns, units) = (rate.period().ticks(), rate.units());
    let mut moments = Vec::with_capacity(ARRIVALS);
    for cycle in 0..ARRIVALS as u64 / (3 * units) {
        let boundary_ns = cycle * 3 * period_ns + period_ns;
        moments.extend((1..=units).rev().map(|before_ns| boundary_ns - before_ns));
        moments.extend((1..=2 * units).map(|step| boundary_ns + step * period_ns / (2 * units) - 2 * units));
    }
    moments
}
