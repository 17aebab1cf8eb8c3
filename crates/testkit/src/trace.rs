//! Made-up histories of questions, aimed at where limits are wrong: at edges, at promised moments, after idle
//! times, at the ends of the number line.
//!
//! A step does not say "at tick 4711, 3 units" but "one tick before the promised moment, as many as remain": what
//! that means is known only when the trace is played, and so every trace fits every limit.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tollgate_core::{Intent, Time};

use crate::timeline::Timeline;

/// A history to be played.
#[derive(Clone, Debug)]
pub struct Trace {
    /// When it begins.
    pub start: Time,
    /// When time stands still.
    pub end: Time,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One thing that happens to one of several keys.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Which key, by its number.
    pub key: usize,
    /// The time that passes before.
    pub gap: Gap,
    /// What happens then.
    pub act: Act,
}

/// How much time passes.
#[derive(Clone, Copy, Debug)]
pub enum Gap {
    /// None.
    Still,
    /// So many ticks.
    Ticks(u64),
    /// So many 64ths of what passes until something changes by itself.
    Beat(u64),
    /// Until the next multiple of that, or a tick to either side.
    Edge(i8),
    /// Until the reset that the last answer announced, or a tick to either side.
    Reset(i8),
    /// Until the moment that the last denial of this key promised, or a tick to either side.
    Promise(i8),
    /// Longer than anything is remembered, by so many ticks.
    Idle(u64),
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Somebody asks.
    Ask(Units, Intent),
    /// Somebody gives back units that were counted when the key was asked the given number of questions ago.
    GiveBack(Units, usize),
}

/// How many units.
#[derive(Clone, Copy, Debug)]
pub enum Units {
    /// So many.
    Plain(u64),
    /// So many 64ths of the most that one request can have, rounded up.
    Share(u64),
    /// The most that one request can have, and so many more.
    All(u64),
    /// What the last answer to this key said remains, and so many more.
    Remaining(u64),
    /// The largest number.
    Max,
}

impl Trace {
    /// Traces of up to `steps` steps.
    pub fn strategy(steps: usize) -> impl Strategy<Value = Trace> {
        Trace::strategy_on(Timeline::LEDGER, steps)
    }

    /// As [`Trace::strategy`], on any timeline.
    pub fn strategy_on(timeline: Timeline, steps: usize) -> impl Strategy<Value = Trace> {
        let (second, end) = (timeline.second(), timeline.end);
        let start = prop_oneof![
            Just(0),
            Just(1),
            0_u64..200,
            Just(1_700_000_000 * second),
            // An hour before the clocks of Berlin go forward, and go back.
            Just(1_743_292_800 * second),
            Just(1_761_436_800 * second),
            (0_u64..1_000).prop_map(move |before| end.ticks() - before),
            0..end.ticks(),
        ];
        let steps = proptest::collection::vec(step(), 1..=steps);
        (start, steps).prop_map(move |(start, steps)| Trace { start: Time::from_ticks(start), end, steps })
    }

    /// The trace of a seed.
    pub fn seeded(timeline: Timeline, seed: u64, steps: usize) -> Trace {
        draw(&Trace::strategy_on(timeline, steps), seed)
    }
}

/// The value of a strategy that belongs to a seed.
pub(crate) fn draw<S: Strategy>(strategy: &S, seed: u64) -> S::Value {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    strategy.new_tree(&mut runner).expect("these strategies reject nothing").current()
}

fn step() -> impl Strategy<Value = Step> {
    // Mostly one key, so that it gets somewhere, with others in between.
    let key = prop_oneof![4 => Just(0), 1 => Just(1), 1 => Just(2)];
    (key, gap(), act()).prop_map(|(key, gap, act)| Step { key, gap, act })
}

fn gap() -> impl Strategy<Value = Gap> {
    prop_oneof![
        6 => Just(Gap::Still),
        2 => (0_u64..=5).prop_map(Gap::Ticks),
        1 => (0_u64..=200).prop_map(Gap::Ticks),
        4 => (1_u64..=192).prop_map(Gap::Beat),
        3 => (-1_i8..=1).prop_map(Gap::Edge),
        2 => (-1_i8..=1).prop_map(Gap::Reset),
        3 => (-1_i8..=1).prop_map(Gap::Promise),
        1 => (0_u64..=1).prop_map(Gap::Idle),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let intent = select(vec![Intent::Take, Intent::Take, Intent::Take, Intent::Book, Intent::Peek]);
    prop_oneof![
        9 => (units(), intent).prop_map(|(units, intent)| Act::Ask(units, intent)),
        1 => (units(), 0_usize..4).prop_map(|(units, ago)| Act::GiveBack(units, ago)),
    ]
}

fn units() -> impl Strategy<Value = Units> {
    prop_oneof![
        2 => Just(Units::Plain(0)),
        6 => Just(Units::Plain(1)),
        3 => (2_u64..=9).prop_map(Units::Plain),
        4 => (1_u64..=63).prop_map(Units::Share),
        2 => (0_u64..=1).prop_map(Units::All),
        3 => (0_u64..=1).prop_map(Units::Remaining),
        1 => Just(Units::Max),
    ]
}
