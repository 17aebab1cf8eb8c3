//! The heaviest keys of a stream, in a fixed number of slots: Space-Saving, with counts that decay.
//!
//! A key that has a slot is counted there. One that has none takes the slot of the lightest, and its count too: what it inherits is how much its count may be
//! too high. So no count is too low, none is too high by more than the lightest weighs, and that is at most what all decisions weigh, divided by the number of
//! slots. Whoever takes more than that part of all decisions is certainly there.
//!
//! A decision at time t weighs `2^(-(now - t) / half_life)`. Since that is `2^(t / half_life)` times a factor that is the same for all, a sample is added
//! with the former and the factor is applied when somebody looks (forward decay): time changes nobody's place, and costs nothing. A key that is asked
//! r times a second comes to weigh `r * half_life / ln 2`, which is how weights become rates.

use std::collections::HashMap;

use tollgate_core::{Span, Time};

use super::heap::Heap;
use super::switch::Heat;

/// Weights are scaled down when they have grown by so many half-lives: long before a float overflows.
const RESCALE_HALVES: f64 = 64.0;
/// The most shards whose decisions are counted apart.
const SHARDS_MAX: usize = 2_048;
/// A rate is not told of less time than this.
const AGE_MIN_S: f64 = 1.0;

/// How large a sketch is, and how fast it forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SketchSettings {
    /// How many keys have a slot.
    pub slots: usize,
    /// After so long, a decision counts half.
    pub half_life: Span,
}

impl Default for SketchSettings {
    /// Enough slots that the first hundred are right in traffic where the n-th key has an n-th of the first one's. After a minute a decision counts a 64th.
    fn default() -> SketchSettings {
        SketchSettings { slots: 2_048, half_life: Span::from_ticks(10_000_000_000) }
    }
}

/// Who keeps a key: a number by which those who do can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShardId(pub u64);

impl ShardId {
    /// This process itself.
    pub const HERE: ShardId = ShardId(0);
}

/// Whether units of a key may be leased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leasing {
    /// Its rule does not allow it.
    #[default]
    Never,
    /// While it is hot.
    WhenHot,
    /// Its rule wants it.
    Always,
}

/// A decision that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Which key, under which limit.
    pub number: u64,
    /// Who keeps it.
    pub shard: ShardId,
    /// Whether units of it may be leased.
    pub leasing: Leasing,
    /// For how many decisions it stands.
    pub weight: u32,
}

/// The heaviest keys. `N` is what a key is called, which is made only for those that get a slot.
#[derive(Debug)]
pub struct Sketch<N> {
    settings: SketchSettings,
    slots: Vec<Slot<N>>,
    by_number: HashMap<u64, usize>,
    /// The weights of the slots.
    heap: Heap,
    shards: HashMap<ShardId, f64>,
    /// When the first decision was seen, and since when weights grow. Both are set by it.
    began: Option<Time>,
    landmark: Time,
    /// How many keys have had a slot.
    entered: u64,
}

#[derive(Debug)]
struct Slot<N> {
    number: u64,
    id: u64,
    shard: ShardId,
    leasing: Leasing,
    name: N,
    /// By how much its weight may be too high.
    error: f64,
    /// What is known to be denied, of what is known to be one or the other.
    denied: f64,
    judged: f64,
}

/// A key that has a slot.
#[derive(Clone, Copy, Debug)]
pub struct Heavy<'a, N> {
    /// Which key, under which limit.
    pub number: u64,
    /// A number of its own for as long as it has a slot, which tells nothing about it.
    pub id: u64,
    /// What it is called.
    pub name: &'a N,
    /// Whether units of it may be leased.
    pub leasing: Leasing,
    /// Its decisions a second.
    pub per_second: f64,
    /// By how much that may be too high.
    pub per_second_error: f64,
    /// Its part of the decisions of its shard.
    pub share: f64,
    /// The part of its decisions that denied.
    pub denied_ratio: f64,
}

impl<N> Sketch<N> {
    /// Nothing seen yet.
    pub fn new(settings: SketchSettings) -> Sketch<N> {
        let slots = settings.slots.max(1);
        let half_life = settings.half_life.max(Span::from_ticks(1));
        Sketch {
            settings: SketchSettings { slots, half_life },
            slots: Vec::with_capacity(slots),
            by_number: HashMap::with_capacity(slots),
            heap: Heap::with_capacity(slots),
            shards: HashMap::new(),
            began: None,
            landmark: Time::default(),
            entered: 0,
        }
    }

    /// Counts a decision.
    pub fn see(&mut self, sighting: &Sighting, now: Time, name: impl FnOnce() -> N) {
        let Sighting { number, shard, leasing, weight } = *sighting;
        let weight = f64::from(weight) * self.growth(now);
        if self.shards.len() < SHARDS_MAX || self.shards.contains_key(&shard) {
            *self.shards.entry(shard).or_default() += weight;
        }
        match self.by_number.get(&number) {
            Some(&slot) => {
                self.heap.add(slot, weight);
                (self.slots[slot].shard, self.slots[slot].leasing) = (shard, leasing);
            }
            None => self.enter(sighting, weight, name()),
        }
    }

    /// Says whether decisions that were counted have denied. Of a key that has no slot any more nothing is known.
    pub fn judge(&mut self, number: u64, weight: u32, is_denied: bool, now: Time) {
        let weight = f64::from(weight) * self.growth(now);
        if let Some(&slot) = self.by_number.get(&number) {
            let slot = &mut self.slots[slot];
            slot.judged += weight;
            slot.denied += if is_denied { weight } else { 0.0 };
        }
    }

    /// The heaviest, in order, at most so many.
    pub fn heaviest(&self, max: usize, now: Time) -> Vec<Heavy<'_, N>> {
        let mut order: Vec<(f64, usize)> =
            (0..self.slots.len()).map(|slot| (self.sure(slot), slot)).collect();
        order.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
        order.truncate(max);
        order.into_iter().map(|(_, slot)| self.heavy(slot, now)).collect()
    }

    /// Whether the key of this number has a slot.
    pub fn has(&self, number: u64) -> bool {
        self.by_number.contains_key(&number)
    }

    /// The key of this number, if it has a slot.
    pub fn find(&self, number: u64, now: Time) -> Option<Heavy<'_, N>> {
        self.by_number.get(&number).map(|&slot| self.heavy(slot, now))
    }

    /// How hot each key is at least.
    pub fn heat(&self, now: Time) -> impl Iterator<Item = Heat> {
        let per_second = self.per_second(now);
        (0..self.slots.len()).map(move |slot| Heat {
            number: self.slots[slot].number,
            per_second: self.sure(slot) * per_second,
            share: self.share(slot),
        })
    }

    /// How many keys have a slot.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Gives a key a slot: a free one, or that of the lightest.
    fn enter(&mut self, sighting: &Sighting, weight: f64, name: N) {
        let Sighting { number, shard, leasing, .. } = *sighting;
        self.entered += 1;
        let fresh =
            Slot { number, id: self.entered, shard, leasing, name, error: 0.0, denied: 0.0, judged: 0.0 };
        if self.slots.len() < self.settings.slots {
            self.by_number.insert(number, self.slots.len());
            self.slots.push(fresh);
            self.heap.push(weight);
        } else if let Some(lightest) = self.heap.lightest() {
            let error = self.heap.weight(lightest);
            self.by_number.remove(&self.slots[lightest].number);
            self.by_number.insert(number, lightest);
            self.slots[lightest] = Slot { error, ..fresh };
            self.heap.add(lightest, weight);
        }
    }

    fn heavy(&self, slot: usize, now: Time) -> Heavy<'_, N> {
        let per_second = self.per_second(now);
        let Slot { number, id, ref name, leasing, error, denied, judged, .. } = self.slots[slot];
        Heavy {
            number,
            id,
            name,
            leasing,
            per_second: self.heap.weight(slot) * per_second,
            per_second_error: error * per_second,
            share: self.share(slot),
            denied_ratio: if judged > 0.0 { denied / judged } else { 0.0 },
        }
    }

    /// What a slot's key weighs at least.
    fn sure(&self, slot: usize) -> f64 {
        self.heap.weight(slot) - self.slots[slot].error
    }

    /// The least part that a key has of the decisions of its shard.
    fn share(&self, slot: usize) -> f64 {
        let all = self.shards.get(&self.slots[slot].shard).copied().unwrap_or_default();
        if all > 0.0 { self.sure(slot) / all } else { 0.0 }
    }

    /// What a decision weighs now that weighed one at the landmark. Moves the landmark, if it lies too far back.
    fn growth(&mut self, now: Time) -> f64 {
        if self.began.is_none() {
            (self.began, self.landmark) = (Some(now), now);
        }
        let halves = self.halves(now);
        if halves <= RESCALE_HALVES {
            return halves.exp2();
        }
        // Whole half-lives, so that weights are multiplied by a power of two, and none changes its place.
        let whole = halves.floor();
        let factor = (-whole).exp2();
        self.heap.scale(factor);
        for slot in &mut self.slots {
            for weight in [&mut slot.error, &mut slot.denied, &mut slot.judged] {
                *weight *= factor;
            }
        }
        self.shards.retain(|_, weight| {
            *weight *= factor;
            *weight > 0.0
        });
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // Not below 64, and a number of half-lives that has passed.
        let passed = self.settings.half_life.ticks().saturating_mul(whole as u64);
        self.landmark = self.landmark.plus(Span::from_ticks(passed));
        self.halves(now).exp2()
    }

    /// What turns weights into decisions a second.
    fn per_second(&self, now: Time) -> f64 {
        let half_life_s = seconds(self.settings.half_life);
        let age_s = self.began.map_or(0.0, |began| seconds(now.since(began))).max(AGE_MIN_S);
        let full_s = half_life_s / std::f64::consts::LN_2;
        (-self.halves(now)).exp2() / (full_s * (1.0 - (-age_s / half_life_s).exp2()))
    }

    fn halves(&self, now: Time) -> f64 {
        seconds(now.since(self.landmark)) / seconds(self.settings.half_life)
    }
}

#[allow(clippy::cast_precision_loss)] // Some parts in 2^53 are lost.
fn seconds(span: Span) -> f64 {
    span.ticks() as f64 / 1e9
}
