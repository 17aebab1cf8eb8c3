//! Schedules, drawn from seeds.

use std::sync::Arc;

use tollgate_core::{
    FixedWindow, Limit, OldestCounts, Rate, SharedLimit, SlidingLog, SlidingWindow, Span, SubWindows, Tick,
    TokenBucket,
};

use super::extras::Extras;

/// Of shorter ones, a tenth would be less than it takes to be answered.
const CENSUS_LIFE_NS_MIN: u64 = 500 * MS;
/// Nanoseconds of a millisecond.
pub(super) const MS: u64 = 1_000_000;

/// Random numbers that a seed gives again (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below a number.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From one number to another, both included.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// One of a few.
    pub(super) fn one_of<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        choices[usize::try_from(self.below(N as u64)).unwrap()]
    }

    /// Whether something happens that does so many times in a thousand.
    pub(super) fn happens(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }
}

/// How a limit counts, as far as bounds go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bucket,
    FixedWindow,
    SlidingWindow,
    SubWindows,
    Log,
}

/// The numbers of a limit. Periods are milliseconds, so that a tick of the authority is a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) kind: Kind,
    pub(super) units: u64,
    pub(super) period_ms: u64,
    pub(super) burst: u64,
}

impl Numbers {
    fn draw(dice: &mut Dice) -> Numbers {
        let kind = match dice.below(8) {
            0..4 => Kind::Bucket,
            4 => Kind::FixedWindow,
            5 => Kind::SlidingWindow,
            6 => Kind::SubWindows,
            _ => Kind::Log,
        };
        let units = dice.one_of([1, 3, 10, 40, 200]) + dice.below(3);
        let period_ms = dice.one_of([50, 200, 1_000, 5_000]);
        let burst = units.div_ceil(dice.one_of([1, 1, 2, 4]));
        Numbers { kind, units, period_ms, burst }
    }

    /// Other numbers whose states mean the same: a unit takes as long to come back, or has the same windows. Not half as large or twice as large: nodes that
    /// know the new numbers would trim what those have counted who do not.
    fn changed(self, dice: &mut Dice) -> Numbers {
        let capacity = self.capacity();
        self.with_capacity(dice.between((capacity * 2).div_ceil(3), capacity * 3 / 2))
    }

    /// The same, where all nodes change at once: up to four times as large, or a quarter.
    fn changed_at_once(self, dice: &mut Dice) -> Numbers {
        let capacity = self.capacity();
        self.with_capacity(dice.between(capacity.div_ceil(4), capacity * 4))
    }

    fn with_capacity(self, other: u64) -> Numbers {
        match self.kind {
            Kind::Bucket => Numbers { burst: other, ..self },
            _ => Numbers { units: other, ..self },
        }
    }

    /// The limit at the tick of the authority.
    pub(super) fn limit(self) -> Limit {
        let rate = Rate::new(self.units, Span::from_ticks(self.period_ms * 1_000)).unwrap();
        match self.kind {
            Kind::Bucket => TokenBucket::new(rate, self.burst).unwrap().into(),
            Kind::FixedWindow => FixedWindow::new(rate).into(),
            Kind::SlidingWindow => SlidingWindow::new(rate).into(),
            Kind::SubWindows => SubWindows::new(rate, 5, OldestCounts::Whole).unwrap().into(),
            Kind::Log => SlidingLog::new(rate).unwrap().into(),
        }
    }

    /// The most units at once.
    pub(super) fn capacity(self) -> u64 {
        if self.kind == Kind::Bucket { self.burst } else { self.units }
    }
}

/// Everything about one run that is not drawn on the way.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// What it was drawn from.
    pub seed: u64,
    pub(super) first: Terms,
    /// What takes their place, if the rules change on the way.
    pub(super) changed: Terms,
    /// Who comes to know of it at once.
    learning: Learning,
    pub(super) nodes: u64,
    pub(super) life_ns: u64,
    pub(super) node_max: u64,
    pub(super) is_strict: bool,
    /// The time between two requests, on average, and how many of ten go to the first node.
    pub(super) gap_ns: u64,
    pub(super) skew: u64,
    pub(super) cost_max: u64,
    /// How many of a thousand requests do not pass in the end, because another limit denies them: what they have spent is put back.
    pub(super) puts_back: u64,
    /// How many requests come at one moment, after some time in which few come: what was saved up is spent at once.
    pub(super) rush: u64,
    /// Whether nodes count themselves, and come one after the other, or have always known how many they are.
    pub(super) has_census: bool,
    pub(super) ends_at: u64,
    pub(super) faults: Faults,
    pub(super) extras: Extras,
    /// Whether everything that happens is printed.
    pub is_told: bool,
}

/// Who knows of other rules at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Learning {
    OneByOne,
    All,
}

/// How often things go wrong, in a thousand, and how badly.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) loss: u64,
    pub(super) repeat: u64,
    /// The longest that a message is usually under way, and how many take up to fifty times as long.
    pub(super) latency_ns: u64,
    pub(super) late: u64,
    pub(super) crash: u64,
    pub(super) freeze: u64,
    pub(super) clock_step: u64,
    pub(super) change: u64,
    /// Clocks of nodes run faster or slower by so many millionths at most.
    pub(super) drift_ppm: u64,
}

impl Faults {
    /// Half of all schedules have none but latency: a bound that only holds when much is lost would not be noticed otherwise.
    fn draw(dice: &mut Dice) -> Faults {
        let latency_ns = dice.one_of([MS / 5, MS, 5 * MS, 40 * MS]);
        let calm = Faults { latency_ns, drift_ppm: dice.below(2) * 900, ..Faults::default() };
        if dice.happens(500) {
            return calm;
        }
        let mut at_times = |per_mille: u64| if dice.happens(400) { per_mille } else { 0 };
        Faults {
            loss: at_times(80),
            repeat: at_times(120),
            late: at_times(60),
            crash: at_times(8),
            freeze: at_times(12),
            clock_step: at_times(6),
            change: at_times(6),
            ..calm
        }
    }
}

impl Schedule {
    /// The schedule of a seed.
    pub fn draw(seed: u64) -> Schedule {
        let mut dice = Dice::new(seed);
        let numbers = Numbers::draw(&mut dice);
        let nodes = dice.between(1, 5);
        let life_ns = dice.one_of([100, 500, 2_000, 10_000]) * MS;
        let part = dice.one_of([1, 2, 2, 4]);
        let node_max = if dice.happens(300) { numbers.capacity() * dice.below(101) / 100 } else { u64::MAX };
        let is_strict = dice.happens(400);
        let mut changed = numbers.changed(&mut dice);
        // Dice of their own: schedules that were drawn before there was this stay as they were.
        let mut more_dice = Dice::new(seed ^ 0x6f6e_6365);
        let changes_at_once = more_dice.happens(300);
        if changes_at_once {
            changed = numbers.changed_at_once(&mut more_dice);
        }
        // From a fifth of what the limit allows to four times as much.
        let allowed_gap_ns = numbers.period_ms * MS / numbers.units;
        let gap_ns = (allowed_gap_ns * 5 / dice.between(1, 20)).max(1);
        let span_ns = gap_ns * dice.between(20, 120);
        let (first, changed) = (Terms::new(numbers, part, is_strict), Terms::new(changed, part, is_strict));
        let has_rush = numbers.capacity() < 60 && dice.happens(300);
        let largest = if changes_at_once && changed.numbers.capacity() > numbers.capacity() {
            &changed
        } else {
            &first
        };
        let rush = largest.numbers.capacity() + largest.budget;
        let has_census = dice.happens(250);
        let mut faults = Faults::draw(&mut dice);
        if has_census {
            // A clock that is set looks like an authority that was away, to nodes that were away themselves: one of both is tried at a time.
            faults.clock_step = 0;
        }
        let extras = Extras::draw(seed);
        if extras.resets > 0 {
            // By a clock that was set back, what was counted before a reset was counted after it.
            faults.clock_step = 0;
        }
        Schedule {
            seed,
            nodes,
            // Who joins leases nothing for one and a half lives.
            life_ns: if has_census {
                (span_ns / dice.between(3, 8)).max(CENSUS_LIFE_NS_MIN)
            } else {
                life_ns
            },
            node_max,
            is_strict,
            gap_ns,
            skew: dice.below(11),
            cost_max: dice.one_of([1, 1, 1, 3]),
            puts_back: dice.one_of([0, 0, 0, 150]),
            rush: if has_rush { rush } else { 0 },
            has_census,
            first,
            changed,
            learning: if changes_at_once { Learning::All } else { Learning::OneByOne },
            ends_at: START + span_ns,
            faults,
            extras,
            is_told: false,
        }
    }

    /// The most units that all nodes together may have.
    pub(super) fn units_max(&self) -> u64 {
        if self.has_census {
            self.budget_max().min(self.nodes.saturating_mul(self.node_max))
        } else {
            self.nodes * self.node_units_max()
        }
    }

    /// How often a node tells that it is there.
    pub(super) fn beat_ns(&self) -> u64 {
        self.life_ns / 10
    }

    /// Whether nothing is ever lost: messages are quick, nobody crashes, and nodes look after their leases in time. Leases of windows die with them.
    pub(super) fn loses_nothing(&self) -> bool {
        let Faults { loss, repeat, latency_ns, late, crash, freeze, clock_step, change, .. } = self.faults;
        let has_faults = loss + repeat + late + crash + freeze + clock_step + change > 0;
        let is_quick = latency_ns <= 5 * MS && self.life_ns >= 500 * MS;
        !has_faults && is_quick && !self.has_windows()
    }

    /// The most units that a node may have. Where the rules change, by the more generous ones.
    pub(super) fn node_units_max(&self) -> u64 {
        (self.budget_max() / self.nodes).min(self.node_max)
    }

    /// Whether all nodes know of other rules at the same moment.
    pub(super) fn changes_at_once(&self) -> bool {
        self.learning == Learning::All
    }

    fn budget_max(&self) -> u64 {
        if self.changes() { self.first.budget.max(self.changed.budget) } else { self.first.budget }
    }

    /// The numbers by which it is judged: where the rules change, the more generous ones throughout.
    pub(super) fn largest_numbers(&self) -> Numbers {
        let (first, changed) = (self.first.numbers, self.changed.numbers);
        if self.changes() && changed.capacity() > first.capacity() { changed } else { first }
    }

    pub(super) fn has_windows(&self) -> bool {
        !matches!(self.first.numbers.kind, Kind::Bucket | Kind::Log)
    }

    pub(super) fn changes(&self) -> bool {
        self.faults.change > 0
    }
}

/// When every run begins.
pub(super) const START: u64 = 1_700_000_000_000 * MS;

/// What the rules say of the limit.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) numbers: Numbers,
    /// The limit that the authority counts by.
    pub(super) shared: Arc<SharedLimit>,
    /// The most units that all nodes together may have.
    pub(super) budget: u64,
}

impl Terms {
    fn new(numbers: Numbers, part: u64, is_strict: bool) -> Terms {
        let (whole, budget) = (numbers.limit(), numbers.capacity() / part);
        let (limit, budget) = match whole.with_reserve(budget).filter(|_| is_strict) {
            Some(reserved) => (reserved, budget),
            // Where a reserve leaves nothing, there are no blocks.
            None => (whole, if is_strict { 0 } else { budget }),
        };
        let shared = SharedLimit::in_ticks(limit, Tick::MICROSECOND).unwrap().into();
        Terms { numbers, shared, budget }
    }
}
