//! The table against a plain map, its invariants, and its behaviour under contention and at its cap.
#![allow(clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use std::collections::{HashMap, HashSet};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64 as StdAtomicU64, Ordering as StdOrdering};
use std::thread;

use proptest::prelude::*;

use super::*;

/// A moment that lies behind every counter below: words count up from here and are not idle.
const NOW: u64 = 1 << 40;

fn table(lines_max: usize) -> Table {
    Table::new((lines_max + DISPLACEMENT_MAX) * Table::LINE_BYTES, 0).unwrap()
}

fn tag(number: u64) -> Tag {
    // A fixed permutation, so that tests repeat.
    let mut hash = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Tag::of(hash ^ (hash >> 31))
}

fn low(state: u64) -> Word {
    Word::new(state, Level::LOWEST)
}

fn count_one(table: &Table, key: u64) -> u64 {
    table.update(tag(key), NOW, |word| Some(low(word.max(NOW) + 1))).max(NOW) + 1 - NOW
}

fn counted(table: &Table, key: u64) -> u64 {
    table.update(tag(key), NOW, |_| None).saturating_sub(NOW)
}

/// What must hold whenever nobody is at work on the table.
fn check(table: &Table) {
    let geometry = table.geometry();
    let lines = geometry.lines_in_use() as usize + DISPLACEMENT_MAX;
    let mut seen = HashSet::new();
    let mut in_use = 0;
    for index in 0..lines {
        let line = table.arena.line(index);
        for slot in 0..SLOTS {
            in_use += usize::from(!line.is_empty(slot));
            let Some(tag) = line.tag(slot) else { continue };
            assert!(line.read(slot).is_some(), "a key without a state");
            assert!(seen.insert(tag.number()), "{tag:?} has two slots");
            let home = geometry.home(tag);
            assert!(home <= index && index <= home + DISPLACEMENT_MAX, "{tag:?} of {home} stands in {index}");
            let reachable = (home..index).all(|passed| !table.arena.line(passed).has_empty());
            assert!(reachable, "{tag:?} of {home} stands in {index}, behind an empty slot");
        }
    }
    assert_eq!(in_use, table.slots_in_use.sum(), "slots in use");
}

#[test]
fn counts_every_key_while_it_grows() {
    let table = table(1 << 20);
    let lines_before = table.stats().lines;
    for key in 0..200_000 {
        assert_eq!(count_one(&table, key), 1);
    }
    check(&table);
    assert!(table.stats().lines > 10 * lines_before, "the table has grown");
    for key in 0..200_000 {
        assert_eq!(count_one(&table, key), 2);
    }
    assert_eq!(table.stats().evicted, 0);
}

#[test]
fn is_nearly_two_thirds_full_at_any_size() {
    let table = table(1 << 20);
    for key in 0..400_000 {
        count_one(&table, key);
        if key > 100_000 && key.is_multiple_of(1_000) {
            let bytes_per_key = table.stats().bytes as u64 / key;
            assert!(bytes_per_key <= 26, "{bytes_per_key} bytes for each of {key} keys");
        }
    }
}

#[test]
fn forgets_idle_keys_instead_of_growing() {
    let table = table(1 << 20);
    // A thousand keys are in use at a time; each is idle a thousand keys later.
    for key in 0..1_000_000 {
        table.update(tag(key), NOW + key, |_| Some(low(NOW + key + 1_000)));
    }
    check(&table);
    assert_eq!(table.stats().lines, LINES_MIN as usize);
    assert_eq!(table.stats().evicted, 0);
    assert!(table.stats().reclaimed > 990_000);
}

#[test]
fn sweeps_before_it_grows() {
    let table = table(1 << 20);
    let fits = LINES_MIN as usize * SLOTS * 7 / 10;
    for key in 0..fits as u64 {
        table.update(tag(key), NOW, |_| Some(low(NOW + 1)));
    }
    // All of them are idle now, and as many again come.
    for key in 0..fits as u64 {
        table.update(tag(key + (1 << 32)), NOW + 1, |_| Some(low(NOW + 2)));
    }
    check(&table);
    assert_eq!(table.stats().lines, LINES_MIN as usize);
}

#[test]
fn at_its_cap_the_least_used_make_room() {
    let table = table(LINES_MIN as usize);
    let hot = 0..500;
    for key in hot.clone() {
        for _ in 0..100 {
            count_one(&table, key);
        }
    }
    for key in 0..200_000 {
        count_one(&table, key + (1 << 32));
    }
    check(&table);
    assert_eq!(table.stats().lines, LINES_MIN as usize);
    assert!(table.stats().evicted > 190_000);
    let kept = hot.filter(|&key| counted(&table, key) == 100).count();
    assert_eq!(kept, 500, "hot keys that kept their count");
}

/// Gives a key a state at a level, and says whether it has a slot.
fn put(table: &Table, key: u64, state: u64, level: Level) -> bool {
    table.apply(tag(key), NOW, |_| Some(Word::new(state, level))).is_some()
}

fn level_of(table: &Table, key: u64) -> Option<Level> {
    let Place { line, slot } = table.locate(tag(key))?;
    Some(table.arena.line(line).read(slot)?.word.level())
}

#[test]
fn at_its_cap_keys_near_their_limits_stay_however_soon_they_are_idle() {
    let table = table(LINES_MIN as usize);
    let near = 0..500;
    near.clone().for_each(|key| assert!(put(&table, key, NOW + 1, Level::SPARED)));
    (0..200_000).for_each(|key| assert!(put(&table, key + (1 << 32), NOW + (1 << 30), Level::LOWEST)));
    check(&table);
    assert_eq!(table.stats().lines, LINES_MIN as usize);
    let kept = near.filter(|&key| counted(&table, key) == 1).count();
    assert_eq!(kept, 500, "keys near their limits that kept their words");
}

#[test]
fn a_new_key_gets_no_slot_where_all_are_near_their_limits() {
    let table = table(LINES_MIN as usize);
    let placed: Vec<u64> = (0..50_000).filter(|&key| put(&table, key, NOW + 10, Level::SPARED)).collect();
    check(&table);
    let slots = LINES_MIN as usize * SLOTS;
    assert!((slots * 8 / 10..slots).contains(&placed.len()), "{} keys in {slots} slots", placed.len());
    assert_eq!(table.stats().evicted, 0);
    assert!(placed.iter().all(|&key| counted(&table, key) == 10));
    assert!(!put(&table, 1 << 32, NOW + 10, Level::LOWEST));
    assert_eq!(counted(&table, 1 << 32), 0, "nothing was stored");

    // They become idle, and the table takes new keys again.
    let later = NOW + 10;
    let taken = (0..20_000_u64)
        .filter(|key| table.apply(tag(key | 1 << 40), later, |_| Some(low(later + 1))).is_some());
    assert!(taken.count() > 2_000);
    check(&table);
}

#[test]
fn a_level_stays_with_its_key_while_the_table_grows_and_sweeps() {
    let table = table(1 << 16);
    (0..100_000).for_each(|key| {
        let level = if key % 3 == 0 { Level::SPARED } else { Level::LOWEST };
        assert!(put(&table, key, NOW + 5, level));
    });
    (0..100_000).step_by(3).for_each(|key| assert_eq!(level_of(&table, key), Some(Level::SPARED)));
    (1..100_000).step_by(3).for_each(|key| assert_eq!(level_of(&table, key), Some(Level::LOWEST)));
    (1..100_000).step_by(3).for_each(|key| assert_eq!(table.remove(tag(key)), Some(NOW + 5)));
    (0..10_000).for_each(|_| table.sweep(table.geometry(), NOW));
    check(&table);
    (0..100_000).step_by(3).for_each(|key| assert_eq!(level_of(&table, key), Some(Level::SPARED)));
}

#[test]
fn a_key_stands_at_the_level_of_its_last_state() {
    let table = table(1 << 12);
    let seen =
        table.apply_unknown(tag(1), NOW, &|| NOW, &mut |state| Some(Word::new(state + 1, Level::SPARED)));
    assert!(seen.is_some_and(|seen| (seen.before, seen.after) == (NOW, NOW + 1)));
    assert_eq!(level_of(&table, 1), Some(Level::SPARED));
    assert!(put(&table, 1, NOW + 2, Level::LOWEST));
    assert_eq!((level_of(&table, 1), counted(&table, 1)), (Some(Level::LOWEST), 2));
}

#[test]
fn removed_keys_are_gone_and_others_stay() {
    let table = table(1 << 16);
    (0..50_000).for_each(|key| assert_eq!(count_one(&table, key), 1));
    (0..50_000).step_by(2).for_each(|key| assert_eq!(table.remove(tag(key)), Some(NOW + 1)));
    assert_eq!(table.remove(tag(0)), None);
    check(&table);
    (0..50_000).for_each(|key| assert_eq!(counted(&table, key), key % 2));
}

#[test]
fn shows_every_key_once_when_nobody_is_at_work() {
    let table = table(1 << 16);
    (0..30_000).for_each(|key| assert_eq!(count_one(&table, key), 1));
    let mut seen = HashMap::new();
    table.for_each(|tag, state| *seen.entry(tag.number()).or_insert(0) += state - NOW);
    assert_eq!(seen.len(), 30_000);
    assert!(seen.values().all(|&count| count == 1));
}

#[test]
fn a_table_sized_beforehand_does_not_grow() {
    let bytes = (1 << 20) * Table::LINE_BYTES;
    let table = Table::new(bytes, 100_000).unwrap();
    let lines = table.stats().lines;
    (0..100_000).for_each(|key| assert_eq!(count_one(&table, key), 1));
    assert_eq!(table.stats().lines, lines);
}

#[test]
fn a_cap_too_small_is_refused() {
    assert!(matches!(Table::new(1_000, 0), Err(LedgerError::CapTooSmall { bytes: 1_000, .. })));
}

#[test]
fn a_peek_leaves_nothing_behind() {
    let table = table(1 << 12);
    (0..10_000).for_each(|key| assert_eq!(counted(&table, key), 0));
    assert_eq!(table.stats().slots_in_use, 0);
}

/// Two threads race for the same few keys. The step gives the other thread every chance to come in between, and the
/// test goes on until it has.
#[test]
fn exactly_the_units_there_are_get_granted_under_contention() {
    const UNITS: u64 = 20_000;
    let (mut collisions, mut rounds) = (0, 0);
    while collisions < 1_000 {
        rounds += 1;
        assert!(rounds < 100, "only {collisions} collisions in {rounds} rounds: nothing was shown");
        let table = table(1 << 12);
        let (granted, calls, barrier) = (StdAtomicU64::new(0), StdAtomicU64::new(0), Barrier::new(2));
        let spend = || {
            barrier.wait();
            let asks = UNITS * 3 / 4;
            for _ in 0..asks {
                let word = table.update(tag(7), NOW, |word| {
                    if calls.fetch_add(1, StdOrdering::Relaxed).is_multiple_of(16) {
                        thread::yield_now();
                    }
                    (word < NOW + UNITS).then(|| low(word.max(NOW) + 1))
                });
                granted.fetch_add(u64::from(word < NOW + UNITS), StdOrdering::Relaxed);
            }
        };
        thread::scope(|scope| {
            scope.spawn(spend);
            scope.spawn(spend);
        });
        assert_eq!(granted.load(StdOrdering::Relaxed), UNITS);
        collisions += calls.load(StdOrdering::Relaxed) - 2 * (UNITS * 3 / 4);
    }
}

/// Threads count the same keys while the table grows under them, sweeps, and gives slots to new keys.
#[test]
fn no_count_is_lost_while_keys_move() {
    const KEYS: u64 = 60_000;
    const THREADS: u64 = 4;
    let table = table(1 << 18);
    let barrier = Barrier::new(usize::try_from(THREADS).unwrap() + 1);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (table, barrier) = (&table, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..4 {
                    for key in 0..KEYS {
                        // Each thread has an order of its own.
                        count_one(table, (key * (2 * thread + 1) + round * 977) % KEYS);
                    }
                }
            });
        }
        scope.spawn(|| {
            barrier.wait();
            // Keys that are idle at once, and make others move over.
            for key in 0..4 * KEYS {
                table.update(tag(key | 1 << 40), NOW, |_| Some(low(NOW)));
                table.tend();
            }
        });
    });
    check(&table);
    let total: u64 = (0..KEYS).map(|key| counted(&table, key)).sum();
    assert_eq!(total, KEYS * 4 * THREADS);
    assert_eq!(table.stats().evicted, 0);
}

/// Somebody takes the slot of an idle key that wakes up in the meantime: its charge must not be lost.
#[test]
fn a_key_that_wakes_up_keeps_its_slot() {
    let table = table(1 << 12);
    let (idle, new) = (Tag::of(1 << 20), Tag::of(1 << 21));
    table.update(idle, 0, |_| Some(low(NOW)));
    let mut has_woken = false;
    table.update(new, NOW, |_| {
        if !std::mem::replace(&mut has_woken, true) {
            table.update(idle, NOW, |word| Some(low(word.max(NOW) + 1)));
        }
        Some(low(NOW + 5))
    });
    check(&table);
    assert_eq!(table.update(idle, NOW, |_| None), NOW + 1);
}

/// Whoever looks at all keys while owners change sees states that were somebody's.
#[test]
fn shows_no_states_that_nobody_had() {
    let table = table(1 << 12);
    let done = StdAtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..1_000_000 {
                // All at home in one line, and idle at once.
                table.update(Tag::of((1 << 20) + ((number % 1024) << 3)), NOW, |_| Some(low(NOW)));
            }
            done.store(1, StdOrdering::Relaxed);
        });
        while done.load(StdOrdering::Relaxed) == 0 {
            let line = table.arena.line(0);
            let occupants = (0..SLOTS).filter_map(|slot| line.read(slot));
            occupants.for_each(|occupant| assert_eq!(occupant.word.state(), NOW));
        }
    });
}

#[test]
fn threads_at_the_cap_keep_the_table_in_order() {
    for lines_more in [0, 300, 900] {
        let table = table(LINES_MIN as usize + lines_more);
        thread::scope(|scope| {
            for thread in 0..4_u64 {
                let table = &table;
                scope.spawn(move || {
                    for i in 0..100_000 {
                        let draw = tag(i * 4 + thread).number();
                        let (key, now) = (draw % 12_000, NOW + i / 64);
                        match (draw >> 40) % 20 {
                            0 => {
                                table.remove(tag(key));
                            }
                            1 => table.tend(),
                            _ => {
                                table.update(tag(key), now, |word| Some(low(word.max(now) + 1 + draw % 100)));
                            }
                        }
                    }
                });
            }
        });
        check(&table);
    }
}

/// A run of full lines as long as a key may be displaced: the next key finds no room, and at the cap somebody goes.
#[test]
fn a_way_without_room_makes_some() {
    let at_cap = table(LINES_MIN as usize);
    let crowd = (DISPLACEMENT_MAX + 1) * SLOTS;
    // All at home in the first line.
    for number in 0..crowd as u64 {
        at_cap.update(Tag::of((number + 2) << 3), NOW, |_| Some(low(NOW + 9 + number)));
    }
    let new = Tag::of(1 << 20);
    at_cap.update(new, NOW, |_| Some(low(NOW + 5_000)));
    assert_eq!(at_cap.update(new, NOW, |_| None), NOW + 5_000);
    assert_eq!(at_cap.stats().evicted, 1);
    assert_eq!(at_cap.update(Tag::of(2 << 3), NOW, |_| None), 0, "the least used has gone");
    check(&at_cap);
}

#[derive(Clone, Debug)]
enum Step {
    Count(u64),
    Remove(u64),
    Pass(u64),
    Tend,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0..12_000_u64).prop_map(Step::Count),
        2 => (0..12_000_u64).prop_map(Step::Remove),
        1 => (0..40_u64).prop_map(Step::Pass),
        1 => Just(Step::Tend),
    ];
    prop::collection::vec(step, 1..20_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Words expire as time passes; the model forgets exactly those, and both agree on all others.
    #[test]
    fn agrees_with_a_plain_map(steps in steps(), life in 1..60_u64) {
        let table = table(1 << 14);
        let mut model: HashMap<u64, u64> = HashMap::new();
        let mut now = NOW;
        for step in steps {
            match step {
                Step::Count(key) => {
                    let count = |word: u64| word.max(now) + life;
                    let got = count(table.update(tag(key), now, |word| Some(low(count(word)))));
                    let known = model.get(&key).copied().unwrap_or(0);
                    prop_assert_eq!(got, count(known));
                    model.insert(key, got);
                }
                Step::Remove(key) => {
                    table.remove(tag(key));
                    model.remove(&key);
                }
                Step::Pass(ticks) => now += ticks,
                Step::Tend => table.tend(),
            }
        }
        check(&table);
        prop_assert_eq!(table.stats().evicted, 0);
        for (&key, &state) in model.iter().filter(|(_, state)| **state > now) {
            prop_assert_eq!(table.update(tag(key), now, |_| None), state);
        }
    }
}
