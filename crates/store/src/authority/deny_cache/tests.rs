//! That the cache never denies what the limit would admit, and that it does deny.

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tollgate_core::{Ask, FixedWindow, Limit, Rate, Refund, State, TokenBucket};
use tollgate_testkit::Spec;

use super::*;

const MS: u64 = 1_000_000;
const NOW: Time = Time::from_ticks(1_700_000_000_000_000_000);
const KEY: SharedKey = SharedKey(0x1234_5678_9abc_def0 << 64 | 0x0fed_cba9_8765_4321);

fn later(ns: u64) -> Time {
    NOW.plus(Span::from_ticks(ns))
}

fn not_now(retry_after_ns: u64) -> Decision {
    let outcome = Outcome::NotNow { retry_after: Span::from_ticks(retry_after_ns) };
    Decision { outcome, limit: 100, remaining: 3, reset_after: Some(Span::from_ticks(2 * retry_after_ns)) }
}

fn denial(cost: u64, decision: Decision) -> Denial {
    Denial { cost: Cost::new(cost), sent_at: NOW, tick: Tick::NANOSECOND, decision }
}

fn denies(cache: &DenyCache, cost: u64, now: Time) -> bool {
    cache.look(KEY, Cost::new(cost), now).is_some()
}

#[test]
fn counts_down_to_the_promised_moment() {
    let mut cache = DenyCache::new(64);
    assert_eq!(cache.look(KEY, Cost::new(5), NOW), None);
    cache.note(KEY, &denial(5, not_now(30 * MS)));
    let decision = cache.look(KEY, Cost::new(5), later(10 * MS)).unwrap();
    assert_eq!(decision, Decision { reset_after: Some(Span::from_ticks(50 * MS)), ..not_now(20 * MS) });
    assert!(denies(&cache, 5, later(30 * MS - 1)));
    assert!(!denies(&cache, 5, later(30 * MS)));
}

#[test]
fn denies_only_the_cost_that_a_moment_was_computed_for() {
    let mut cache = DenyCache::new(64);
    cache.note(KEY, &denial(5, not_now(30 * MS)));
    for (cost, denied) in [(0, false), (4, false), (5, true), (6, false), (100, false), (101, false)] {
        assert_eq!(denies(&cache, cost, NOW), denied, "{cost}");
    }
}

#[test]
fn forgets_after_a_second_at_most() {
    let mut cache = DenyCache::new(64);
    cache.note(KEY, &denial(1, not_now(3_600_000 * MS)));
    let decision = cache.look(KEY, Cost::ONE, later(999 * MS)).unwrap();
    assert_eq!(decision.retry_after(), Some(Span::from_ticks(3_599_001 * MS)), "the promise is longer");
    assert!(!denies(&cache, 1, later(1_000 * MS)));
}

#[test]
fn a_coarse_tick_promises_less() {
    let mut cache = DenyCache::new(64);
    let denial = Denial { tick: Tick::MILLISECOND, ..denial(1, not_now(3 * MS)) };
    cache.note(KEY, &denial);
    assert!(denies(&cache, 1, later(2 * MS)));
    assert!(!denies(&cache, 1, later(2 * MS + 1)), "it may have been asked at the end of a tick");
}

#[test]
fn remembers_only_what_names_a_moment() {
    let mut cache = DenyCache::new(64);
    for outcome in [Outcome::ALLOWED, Outcome::Busy, Outcome::Never] {
        cache.note(KEY, &denial(1, Decision { outcome, ..not_now(30 * MS) }));
        assert!(!denies(&cache, 1, NOW), "{outcome:?}");
    }
}

#[test]
fn forgets_when_told() {
    let mut cache = DenyCache::new(64);
    let other = SharedKey(KEY.0 ^ 1 << 80);
    for key in [KEY, other] {
        cache.note(key, &denial(1, not_now(30 * MS)));
    }
    cache.forget(KEY);
    assert!(!denies(&cache, 1, NOW));
    assert!(cache.look(other, Cost::ONE, NOW).is_some());
    cache.clear();
    assert!(cache.look(other, Cost::ONE, NOW).is_none());
}

#[test]
fn each_cost_has_a_moment_of_its_own() {
    let mut cache = DenyCache::new(64);
    cache.note(KEY, &denial(2, not_now(30 * MS)));
    cache.note(KEY, &denial(5, not_now(90 * MS)));
    let retry_after =
        |cache: &DenyCache, cost| cache.look(KEY, Cost::new(cost), NOW).and_then(|told| told.retry_after());
    assert_eq!(retry_after(&cache, 2), Some(Span::from_ticks(30 * MS)));
    assert_eq!(retry_after(&cache, 5), Some(Span::from_ticks(90 * MS)));
    cache.note(KEY, &denial(2, not_now(40 * MS)));
    assert_eq!(retry_after(&cache, 2), Some(Span::from_ticks(40 * MS)));
    cache.forget(KEY);
    assert_eq!((retry_after(&cache, 2), retry_after(&cache, 5)), (None, None));
}

#[test]
fn a_full_set_loses_what_ends_first() {
    let mut cache = DenyCache::new(1);
    let key = |number: u64| SharedKey(u128::from(number) << 64);
    for (number, ms) in [(1, 40), (2, 10), (3, 30), (4, 20), (5, 50), (6, 60)] {
        cache.note(key(number), &denial(1, not_now(ms * MS)));
    }
    let kept: Vec<u64> =
        (1..=6).filter(|&number| cache.look(key(number), Cost::ONE, NOW).is_some()).collect();
    assert_eq!(kept, [1, 3, 5, 6]);
}

#[test]
fn has_room_for_as_many_as_it_says() {
    for (slots, room) in [(0, 4), (4_096, 4_096), (usize::MAX, SLOTS_MAX)] {
        assert_eq!(DenyCache::new(slots).sets.len() * WAYS, room);
    }
    assert_eq!(size_of::<Set>(), 256, "four lines of memory, the keys in the first");
}

#[test]
fn answers_as_the_limit_does_when_nobody_else_asks() {
    let rate = Rate::new(10, Span::from_ticks(500 * MS)).unwrap();
    for limit in [Limit::from(TokenBucket::new(rate, 10).unwrap()), Limit::from(FixedWindow::new(rate))] {
        let (mut cache, mut state) = (DenyCache::new(64), limit.fresh());
        assert!(limit.decide(&mut state, Ask::take(Cost::new(10), NOW)).is_allowed());
        let decision = limit.decide(&mut state, Ask::take(Cost::new(4), NOW));
        cache.note(KEY, &denial(4, decision));
        for ms in [0, 1, 17, 49] {
            let ask = Ask::peek(Cost::new(4), later(ms * MS));
            assert_eq!(cache.look(KEY, ask.cost, ask.now), Some(limit.decide(&mut state, ask)), "{ms}");
        }
        for cost in [5, 9, 10] {
            let told = cache.look(KEY, Cost::new(cost), NOW);
            assert!(
                told.is_none_or(|told| told == limit.decide(&mut state, Ask::peek(Cost::new(cost), NOW))),
                "{cost}"
            );
        }
    }
}

/// One thing that happens to a key, so much later.
#[derive(Clone, Copy, Debug)]
struct Step {
    gap: Gap,
    travels_ns: u64,
    event: Event,
    /// A cost, by its place between nothing and all there is.
    part: u64,
}

#[derive(Clone, Copy, Debug)]
enum Gap {
    None,
    Ns(u64),
    PartOfBeat(u64),
    /// To this long before the promised moment.
    BeforeRetry(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Take,
    Book,
    GiveBack,
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![
        Just(Gap::None),
        (0u64..3 * MS).prop_map(Gap::Ns),
        (1u64..8).prop_map(Gap::PartOfBeat),
        (0u64..3).prop_map(Gap::BeforeRetry),
    ];
    let event = prop_oneof![12 => Just(Event::Take), 2 => Just(Event::Book), 1 => Just(Event::GiveBack), 1 => Just(Event::Reset)];
    let travels_ns = prop_oneof![Just(0u64), 0u64..2 * MS];
    let step = (gap, travels_ns, event, 0u64..=8).prop_map(|(gap, travels_ns, event, part)| Step {
        gap,
        travels_ns,
        event,
        part,
    });
    vec(step, 1..120)
}

/// The authority: a limit at a tick, and the one counter of it.
struct Authority {
    limit: Limit,
    state: State,
    tick: Tick,
}

impl Authority {
    fn tick_ns(&self) -> u64 {
        u64::try_from(self.tick.duration(Span::from_ticks(1)).as_nanos()).unwrap()
    }

    fn ask(&mut self, ask: Ask) -> Decision {
        let tick_ns = self.tick_ns();
        let now = Time::from_ticks(ask.now.ticks() / tick_ns);
        let in_ns = |span: Span| Span::from_ticks(span.ticks().saturating_mul(tick_ns));
        let mut decision = self.limit.decide(&mut self.state, Ask { now, ..ask });
        decision.reset_after = decision.reset_after.map(in_ns);
        if let Outcome::NotNow { retry_after } = &mut decision.outcome {
            *retry_after = in_ns(*retry_after);
        }
        decision
    }
}

/// Plays the steps; returns how often the cache denied, or where it was wrong.
fn play(spec: &Spec, tick: Tick, steps: &[Step]) -> Result<u64, TestCaseError> {
    let mut authority = Authority { limit: spec.limit(), state: spec.limit().fresh(), tick };
    let (mut cache, mut now, mut retry_at, mut hits) = (DenyCache::new(8), NOW, NOW, 0);
    let mut smallest_denied = u64::MAX;
    for step in steps {
        now = match step.gap {
            Gap::None => now,
            Gap::Ns(ns) => now.plus(Span::from_ticks(ns)),
            Gap::PartOfBeat(part) => {
                let beat_ns = spec.beat().saturating_mul(authority.tick_ns());
                now.plus(Span::from_ticks((beat_ns / part).min(2_000 * MS)))
            }
            Gap::BeforeRetry(ns) => now.max(Time::from_ticks(retry_at.ticks() - ns)),
        };
        let cost = Cost::new(u64::try_from(u128::from(spec.cost_max()) * u128::from(step.part) / 8).unwrap());
        if step.event == Event::Take
            && let Some(decision) = cache.look(KEY, cost, now)
        {
            hits += 1;
            let truth = authority.ask(Ask::peek(cost, now));
            prop_assert!(!truth.is_allowed(), "{:?} is wrong: {:?}", decision, truth);
            prop_assert!(decision.retry_after().is_some_and(|span| span > Span::ZERO));
            prop_assert!(cost.units() >= smallest_denied, "{} were never denied", cost.units());
            continue;
        }
        let sent_at = now;
        now = now.plus(Span::from_ticks(step.travels_ns));
        match step.event {
            Event::Take => {
                let decision = authority.ask(Ask::take(cost, now));
                if let Some(retry_after) = decision.retry_after() {
                    retry_at = sent_at.plus(retry_after.min(LIFE_MAX));
                    smallest_denied = smallest_denied.min(cost.units());
                }
                cache.note(KEY, &Denial { cost, sent_at, tick, decision });
            }
            Event::Book => drop(authority.ask(Ask::book(cost, now))),
            Event::GiveBack => {
                let at = Time::from_ticks(now.ticks() / authority.tick_ns());
                authority.limit.give_back(&mut authority.state, Refund::at_once(cost.units(), at));
            }
            Event::Reset => authority.state = authority.limit.fresh(),
        }
        if matches!(step.event, Event::GiveBack | Event::Reset) {
            cache.forget(KEY);
            smallest_denied = u64::MAX;
        }
    }
    Ok(hits)
}

#[test]
fn never_denies_what_the_limit_admits() {
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    for kind in Spec::kinds() {
        for tick in [Tick::NANOSECOND, Tick::MICROSECOND, Tick::MILLISECOND] {
            let (hits, names_moments) = (Cell::new(0), Cell::new(false));
            let played = TestRunner::new(config.clone()).run(&(kind.clone(), steps()), |(spec, steps)| {
                names_moments.set(!matches!(spec, Spec::Concurrency { .. } | Spec::Blocked));
                hits.set(hits.get() + play(&spec, tick, &steps)?);
                Ok(())
            });
            played.unwrap();
            assert_eq!(hits.get() > 100, names_moments.get(), "{} hits", hits.get());
        }
    }
}
