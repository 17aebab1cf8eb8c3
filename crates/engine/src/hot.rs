//! The keys that take most of this process's decisions, and which of them are so hot that their units are leased: see [`tollgate_store::hot`].
//!
//! Decisions hand in samples and never wait to: one that finds somebody else at the sketch leaves its weight to the next. Whoever tends the engine looks now
//! and then which keys are hot, and all that decisions see of that is a small set, empty as a rule.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arc_swap::ArcSwap;
use tollgate_core::{Span, Time};
use tollgate_store::hot::{
    Heavy, Leasing, Pace, Sampler, Sighting, Sketch, SketchSettings, Switch, SwitchSettings,
};

use crate::engine::Engine;

/// How often it is looked which keys are hot.
const LOOK_INTERVAL: Span = Span::from_ticks(250_000_000);
/// The most changes that are kept for whoever wants to tell of them.
const CHANGES_MAX: usize = 64;
/// The most that a sample may weigh besides its own.
const OWED_MAX: u32 = 10_000;
/// So much of a name is kept: keys may be as long as whoever asks likes.
const SHOWN_CHARS_MAX: usize = 128;

thread_local! {
    /// Counts down to the next decision of this thread that is looked at.
    pub(crate) static SAMPLER: Sampler = const { Sampler::new() };
}

/// What a key is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyName {
    /// The domain of its rule. Empty for a named policy.
    pub domain: Box<str>,
    /// Where in its domain the rule stands, or the name of the policy.
    pub rule: Box<str>,
    /// Which of the rule's limits.
    pub limit: Box<str>,
    /// Whose counter: what the caller said, or the entries of its descriptor that tell counters apart. May be a secret.
    pub key: Box<str>,
}

/// A key that takes many of this process's decisions.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// A number of its own while it is among the heaviest, which tells nothing about it.
    pub id: u64,
    /// What it is called.
    pub name: Arc<KeyName>,
    /// Its decisions a second, of late.
    pub per_second: f64,
    /// By how much that may be too high.
    pub per_second_error: f64,
    /// Its part of the decisions of the shard that keeps it, or of those on limits of this process alone.
    pub share: f64,
    /// The part of its decisions that denied.
    pub denied_ratio: f64,
    /// Whether it takes so much that its units would be leased, if its rule allows.
    pub is_hot: bool,
    /// Whether its units are leased at present.
    pub is_leased: bool,
}

/// How many keys are hot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotStats {
    /// All of them.
    pub hot: usize,
    /// Those whose units are leased because of it.
    pub leased: usize,
}

/// A sample that was handed in, of which it is not yet known whether it denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Which ruling it is about.
    pub(crate) index: usize,
    pub(crate) number: u64,
    pub(crate) weight: u32,
}

/// Which keys are hot.
#[derive(Debug)]
pub(crate) struct Hot {
    watched: Mutex<Watched>,
    /// How far samples are apart, as [`Pace`] has it.
    gap_bits: AtomicU32,
    /// What samples weighed that found somebody else at the sketch.
    owed: AtomicU32,
    turning: Mutex<Turning>,
    /// Whether any key is hot, and which.
    any: AtomicBool,
    numbers: ArcSwap<BTreeSet<u64>>,
}

#[derive(Debug)]
struct Watched {
    sketch: Sketch<Arc<KeyName>>,
    pace: Pace,
}

#[derive(Debug)]
struct Turning {
    switch: Switch,
    looked_at: Time,
    changes: Vec<HotKey>,
}

impl Hot {
    pub(crate) fn new(settings: SwitchSettings) -> Hot {
        let turning =
            Turning { switch: Switch::new(settings), looked_at: Time::default(), changes: Vec::new() };
        let watched = Watched { sketch: Sketch::new(SketchSettings::default()), pace: Pace::default() };
        Hot {
            watched: Mutex::new(watched),
            gap_bits: AtomicU32::new(0),
            owed: AtomicU32::new(0),
            turning: Mutex::new(turning),
            any: AtomicBool::new(false),
            numbers: ArcSwap::default(),
        }
    }

    /// How far samples are apart: two to the power of this, on average.
    pub(crate) fn gap_bits(&self) -> u32 {
        self.gap_bits.load(Ordering::Relaxed) // orders nothing else, as nothing here does
    }

    /// Hands in a sample, if nobody else is at it.
    pub(crate) fn see(&self, sighting: Sighting, now: Time, name: impl FnOnce() -> KeyName) {
        let Some(mut watched) = try_lock(&self.watched) else {
            // Not without end: one key would be given it all.
            if self.owed.load(Ordering::Relaxed) < OWED_MAX {
                self.owed.fetch_add(sighting.weight, Ordering::Relaxed);
            }
            return;
        };
        let weight = sighting.weight.saturating_add(self.owed.swap(0, Ordering::Relaxed));
        watched.sketch.see(&Sighting { weight, ..sighting }, now, || Arc::new(name()));
        self.gap_bits.store(watched.pace.sampled(now), Ordering::Relaxed);
    }

    /// Whether a key has a name already, as far as can be said without waiting.
    pub(crate) fn knows(&self, number: u64) -> bool {
        try_lock(&self.watched).is_some_and(|watched| watched.sketch.has(number))
    }

    /// Says what became of a sample, if nobody else is at it.
    pub(crate) fn judge(&self, seen: &Seen, is_denied: bool, now: Time) {
        if let Some(mut watched) = try_lock(&self.watched) {
            watched.sketch.judge(seen.number, seen.weight, is_denied, now);
        }
    }

    pub(crate) fn is_hot(&self, number: u64) -> bool {
        // What a moment ago was hot or was not is as good.
        self.any.load(Ordering::Relaxed) && self.numbers.load().contains(&number)
    }

    /// Looks which keys are hot, if it is time to.
    pub(crate) fn tend(&self, now: Time) {
        let mut turning = lock(&self.turning);
        if now.since(turning.looked_at) < LOOK_INTERVAL {
            return;
        }
        let Turning { switch, looked_at, changes } = &mut *turning;
        *looked_at = now;
        let watched = lock(&self.watched);
        let mut has_changed = false;
        switch.look(watched.sketch.heat(now), |number, is_hot| {
            has_changed = true;
            let heavy = watched.sketch.find(number, now).filter(|_| changes.len() < CHANGES_MAX);
            changes.extend(heavy.map(|heavy| HotKey::new(&heavy, is_hot)));
        });
        if has_changed {
            self.numbers.store(Arc::new(switch.hot().clone()));
            self.any.store(!switch.hot().is_empty(), Ordering::Relaxed);
        }
    }

    fn heaviest(&self, max: usize, now: Time) -> Vec<HotKey> {
        let (hot, watched) = (self.numbers.load(), lock(&self.watched));
        let heaviest = watched.sketch.heaviest(max, now);
        heaviest.iter().map(|heavy| HotKey::new(heavy, hot.contains(&heavy.number))).collect()
    }

    fn stats(&self, now: Time) -> HotStats {
        let (hot, watched) = (self.numbers.load(), lock(&self.watched));
        let is_leased = |number: &&u64| {
            watched.sketch.find(**number, now).is_some_and(|heavy| heavy.leasing == Leasing::WhenHot)
        };
        HotStats { hot: hot.len(), leased: hot.iter().filter(is_leased).count() }
    }
}

impl HotKey {
    fn new(heavy: &Heavy<'_, Arc<KeyName>>, is_hot: bool) -> HotKey {
        let Heavy { id, name, leasing, per_second, per_second_error, share, denied_ratio, .. } = *heavy;
        let is_leased = leasing == Leasing::Always || leasing == Leasing::WhenHot && is_hot;
        let name = Arc::clone(name);
        HotKey { id, name, per_second, per_second_error, share, denied_ratio, is_hot, is_leased }
    }
}

impl Engine {
    /// The keys that take most of this process's decisions of late, the heaviest first, at most so many.
    pub fn hot_keys(&self, max: usize, now: Time) -> Vec<HotKey> {
        self.hot.heaviest(max, now)
    }

    /// Keys that have become hot or ceased to be since this was last asked; not all, if they were many. Whoever calls [`Engine::tend`] finds out.
    pub fn take_hot_changes(&self) -> Vec<HotKey> {
        std::mem::take(&mut lock(&self.hot.turning).changes)
    }

    /// How many keys are hot, for metrics.
    pub fn hot_stats(&self, now: Time) -> HotStats {
        self.hot.stats(now)
    }
}

/// As much of a text as is kept.
pub(crate) fn shown(text: &str) -> Box<str> {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// As much of a key as is kept. It need not be text.
pub(crate) fn shown_bytes(key: &[u8]) -> Box<str> {
    // No character has more than four bytes.
    shown(&String::from_utf8_lossy(&key[..key.len().min(4 * SHOWN_CHARS_MAX + 4)]))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
