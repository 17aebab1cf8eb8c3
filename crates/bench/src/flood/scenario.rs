//! One flood against one ledger, and what became of the keys that were there before.

use std::error::Error;
use std::io;

use indicatif::ProgressBar;
use tollgate_core::{Cost, Holder, Limit, Time};
use tollgate_store::{Charge, Key, Ledger, LedgerSettings, Stats};

use super::Flood;
use super::kinds::{ALGORITHMS, WINDOWS, callers_limits, limits};
use crate::keys::key_text;
use crate::resident::Growth;
use crate::timer::Stopwatch;
use crate::upkeep::while_tending;

/// It stands still.
const NOW: Time = Time::from_ticks(1_700_000_000_000_000_000);
/// Keys at their limit of each algorithm and window: 1,024 in all.
const KEYS_PER_KIND: u64 = 32;
/// Units of their limits.
const UNITS: u64 = 5;
/// Units of the limit of keys that are used once.
const LARGE_UNITS: u64 = 1_000;
/// The numbers of keys begin here, apart from those of the flood.
const HONEST_FIRST_ID: u64 = 1 << 40;
const NEW_FIRST_ID: u64 = 1 << 41;
/// New keys between two touches of an honest one.
const FLOOD_PER_TOUCH: u64 = 64;
/// How often memory is looked at.
const SAMPLES: u64 = 100;
/// One key of the flood in so many is asked once more at the end.
const ASKED_TWICE_EVERY: u64 = 1_000;

/// A key at its limit.
struct Honest {
    key: Key,
    limit: Limit,
    algorithm: usize,
    entitled: u64,
    over: u64,
    permits: Vec<Holder>,
}

pub(super) struct Scenario {
    flood: Flood,
    ledger: Ledger,
    limits: Vec<Limit>,
    honest: Vec<Honest>,
}

/// What a flood has done.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) keys_per_second: f64,
    pub(super) grown_bytes: u64,
    pub(super) stats: Stats,
    /// For each algorithm: units that its used-up keys got beyond their limits, and their limits.
    pub(super) by_algorithm: Vec<(u64, u64)>,
    pub(super) permits: u64,
    pub(super) permits_released: u64,
    /// Units that clients who came after the flood got at once, of those that they would have got without it, and units beyond.
    pub(super) new_clients_admitted: u64,
    pub(super) new_clients_entitled: u64,
    pub(super) new_clients_over: u64,
    /// Keys of the flood with a limit of one that were admitted twice, of those that were asked twice.
    pub(super) admitted_twice: u64,
}

impl Outcome {
    /// Units beyond the limits, and the limits, of all algorithms.
    pub(super) fn over_admission(&self) -> (u64, u64) {
        self.by_algorithm.iter().fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }
}

impl Scenario {
    /// A ledger with keys at their limits.
    pub(super) fn new(flood: Flood, window: usize, cap_bytes: usize) -> Result<Scenario, Box<dyn Error>> {
        let ledger = Ledger::new(LedgerSettings::with_cap(cap_bytes))?;
        let limits = match flood {
            // Holders are never used once: they hold.
            Flood::UsedOnce => limits(LARGE_UNITS, window)?.into_iter().take(ALGORITHMS.len() - 1).collect(),
            Flood::AtLimit => limits(1, window)?,
            Flood::Callers => callers_limits(window)?,
        };
        let mut honest = Vec::new();
        for (kind, (algorithm, limit)) in kinds()?.into_iter().enumerate() {
            for number in 0..KEYS_PER_KIND {
                let id = HONEST_FIRST_ID + kind as u64 * KEYS_PER_KIND + number;
                honest.push(Honest::used_up(&ledger, id, limit.clone(), algorithm));
            }
        }
        Ok(Scenario { flood, ledger, limits, honest })
    }

    /// Sends the flood.
    pub(super) fn run(mut self, keys: u64, progress: &ProgressBar) -> Result<Outcome, Box<dyn Error>> {
        let mut growth = Growth::start()?;
        let stopwatch = Stopwatch::start();
        let Scenario { flood, ledger, limits, honest } = &mut self;
        let send_all = || {
            for id in 0..keys {
                take(ledger, flood_key(ledger, *flood, id), limit_of(limits, id));
                if id.is_multiple_of(FLOOD_PER_TOUCH) {
                    let at = id / FLOOD_PER_TOUCH % honest.len() as u64;
                    honest[at as usize].ask_again(ledger);
                }
                if id.is_multiple_of(keys / SAMPLES) {
                    growth.sample()?;
                    progress.inc(keys / SAMPLES);
                }
            }
            io::Result::Ok(())
        };
        while_tending(|| ledger.tend(NOW), send_all)?;
        growth.sample()?;
        let mut outcome = Outcome {
            keys_per_second: keys as f64 / stopwatch.elapsed_secs(),
            grown_bytes: growth.most_bytes(),
            stats: self.ledger.stats(),
            by_algorithm: vec![(0, 0); ALGORITHMS.len()],
            ..Outcome::default()
        };
        self.look_again(&mut outcome);
        self.ask_new_clients(&mut outcome)?;
        if self.flood != Flood::UsedOnce {
            let sampled = (0..keys).step_by(usize::try_from(ASKED_TWICE_EVERY)?);
            outcome.admitted_twice = sampled.filter(|&id| self.is_admitted_twice(id)).count() as u64;
        }
        Ok(outcome)
    }

    /// Asks every used-up key once more, then releases all permits.
    fn look_again(&mut self, outcome: &mut Outcome) {
        for honest in &mut self.honest {
            honest.ask_again(&self.ledger);
            let (over, entitled) = &mut outcome.by_algorithm[honest.algorithm];
            *over += honest.over;
            *entitled += honest.entitled;
            outcome.permits += honest.permits.len() as u64;
            let release = |holder: &&Holder| self.ledger.release(honest.key, &honest.limit, **holder, NOW);
            outcome.permits_released += honest.permits.iter().filter(release).count() as u64;
        }
    }

    /// Lets new clients of every kind ask for all of their limit, and once more.
    fn ask_new_clients(&self, outcome: &mut Outcome) -> Result<(), Box<dyn Error>> {
        for (kind, (_, limit)) in kinds()?.into_iter().enumerate() {
            for number in 0..KEYS_PER_KIND {
                let id = NEW_FIRST_ID + kind as u64 * KEYS_PER_KIND + number;
                let key = self.ledger.key(&key_text(id));
                let admitted = (0..=UNITS).filter(|_| take(&self.ledger, key, &limit)).count() as u64;
                outcome.new_clients_entitled += UNITS;
                outcome.new_clients_admitted += admitted.min(UNITS);
                outcome.new_clients_over += admitted.saturating_sub(UNITS);
            }
        }
        Ok(())
    }

    /// Asks twice for a key of the flood, which was asked for before: it must not be admitted now if it was then, and at most once
    /// if it was not.
    fn is_admitted_twice(&self, id: u64) -> bool {
        let (key, limit) = (flood_key(&self.ledger, self.flood, id), limit_of(&self.limits, id));
        let was_admitted = self.ledger.used(key, limit, NOW) > 0;
        let admitted = (0..2).filter(|_| take(&self.ledger, key, limit)).count();
        admitted + usize::from(was_admitted) > 1
    }
}

impl Honest {
    fn used_up(ledger: &Ledger, id: u64, limit: Limit, algorithm: usize) -> Honest {
        let key = ledger.key(&key_text(id));
        let (mut entitled, mut permits) = (0, Vec::new());
        loop {
            let (decision, holder) = ledger.acquire(key, &limit, Cost::ONE, NOW);
            if !decision.is_allowed() {
                return Honest { key, limit, algorithm, entitled, over: 0, permits };
            }
            entitled += 1;
            permits.extend(holder);
        }
    }

    /// Asks for one unit more than there is.
    fn ask_again(&mut self, ledger: &Ledger) {
        self.over += u64::from(take(ledger, self.key, &self.limit));
    }
}

/// Every algorithm with every window: its number, and its limit.
fn kinds() -> Result<Vec<(usize, Limit)>, Box<dyn Error>> {
    let mut kinds = Vec::new();
    for window in 0..WINDOWS.len() {
        kinds.extend(limits(UNITS, window)?.into_iter().enumerate());
    }
    Ok(kinds)
}

fn flood_key(ledger: &Ledger, flood: Flood, id: u64) -> Key {
    match flood {
        Flood::Callers => ledger.key_of_caller(&key_text(id)),
        Flood::UsedOnce | Flood::AtLimit => ledger.key(&key_text(id)),
    }
}

fn limit_of(limits: &[Limit], id: u64) -> &Limit {
    &limits[id as usize % limits.len()]
}

fn take(ledger: &Ledger, key: Key, limit: &Limit) -> bool {
    ledger.decide(&Charge::take(key, limit, Cost::ONE), NOW).is_allowed()
}
