//! loom walks through every interleaving of a few threads on a table of one or two lines.
//!
//! Each model is a race that the protocol of [`super::line`] claims to survive. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p tollgate-store --lib --release`.
#![allow(clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use loom::sync::Arc;
use loom::thread;

use super::*;

const NOW: u64 = 1 << 40;

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.max_branches = 50_000;
    builder.check(check);
}

fn table(lines_max: usize) -> Table {
    Table::new((lines_max + DISPLACEMENT_MAX) * Table::LINE_BYTES, 0).unwrap()
}

fn low(state: u64) -> Word {
    Word::new(state, Level::LOWEST)
}

fn count_one(table: &Table, tag: Tag) -> u64 {
    table.update(tag, NOW, |word| Some(low(word.max(NOW) + 1))).max(NOW) + 1 - NOW
}

fn counted(table: &Table, tag: Tag) -> u64 {
    table.update(tag, NOW, |_| None).saturating_sub(NOW)
}

/// Two tags of one line.
fn tags() -> (Tag, Tag) {
    (Tag::of(1 << 20), Tag::of(1 << 21))
}

#[test]
fn two_counts_of_a_known_key_are_two() {
    model(|| {
        let table = Arc::new(table(1));
        let (tag, _) = tags();
        count_one(&table, tag);
        let other = {
            let table = table.clone();
            thread::spawn(move || count_one(&table, tag))
        };
        count_one(&table, tag);
        other.join().unwrap();
        assert_eq!(counted(&table, tag), 3);
    });
}

#[test]
fn a_key_that_two_threads_bring_gets_one_slot() {
    model(|| {
        let table = Arc::new(table(1));
        let (tag, _) = tags();
        let other = {
            let table = table.clone();
            thread::spawn(move || count_one(&table, tag))
        };
        count_one(&table, tag);
        other.join().unwrap();
        assert_eq!(counted(&table, tag), 2);
        assert_eq!(table.stats().slots_in_use, 1);
    });
}

#[test]
fn an_idle_key_that_wakes_up_is_not_robbed() {
    model(|| {
        let table = Arc::new(table(1));
        let (idle, new) = tags();
        table.update(idle, 0, |_| Some(low(NOW)));
        let waking = {
            let table = table.clone();
            thread::spawn(move || count_one(&table, idle))
        };
        count_one(&table, new);
        waking.join().unwrap();
        assert_eq!((counted(&table, idle), counted(&table, new)), (1, 1));
    });
}

#[test]
fn a_count_is_not_lost_while_its_key_moves() {
    model(|| {
        let table = Arc::new(table(2));
        let (tag, _) = tags();
        let far = Tag::of(u64::MAX - 7);
        count_one(&table, tag);
        count_one(&table, far);
        let growing = {
            let table = table.clone();
            thread::spawn(move || table.grow(NOW))
        };
        count_one(&table, far);
        count_one(&table, tag);
        growing.join().unwrap();
        assert_eq!(table.geometry().lines, 2, "it has grown");
        assert_eq!((counted(&table, tag), counted(&table, far)), (2, 2));
    });
}

#[test]
fn a_key_that_comes_while_the_table_grows_gets_one_slot() {
    model(|| {
        let table = Arc::new(table(2));
        let far = Tag::of(u64::MAX - 7);
        let growing = {
            let table = table.clone();
            thread::spawn(move || {
                table.grow(NOW);
                count_one(&table, far)
            })
        };
        count_one(&table, far);
        growing.join().unwrap();
        assert_eq!(counted(&table, far), 2);
        assert_eq!(table.stats().slots_in_use, 1);
    });
}

#[test]
fn a_key_removed_while_it_counts_is_gone_or_new() {
    model(|| {
        let table = Arc::new(table(1));
        let (tag, neighbour) = tags();
        count_one(&table, tag);
        count_one(&table, neighbour);
        let removing = {
            let table = table.clone();
            thread::spawn(move || table.remove(tag).is_some())
        };
        let count = count_one(&table, tag);
        assert!(removing.join().unwrap());
        let left = counted(&table, tag);
        assert!((count, left) == (2, 0) || (count, left) == (1, 1), "counted {count}, left {left}");
        assert_eq!(counted(&table, neighbour), 1);
    });
}

#[test]
fn an_equal_state_of_the_next_owner_is_not_mistaken() {
    model(|| {
        let table = Arc::new(table(1));
        let (idle, new) = tags();
        table.update(idle, 0, |_| Some(low(NOW)));
        let waking = {
            let table = table.clone();
            thread::spawn(move || count_one(&table, idle))
        };
        // Takes over the idle key's slot with the very state that the other thread may have read there.
        table.update(new, NOW, |_| Some(low(NOW)));
        waking.join().unwrap();
        assert_eq!(counted(&table, idle), 1);
    });
}

#[test]
fn a_key_that_wakes_up_is_not_swept_out() {
    model(|| {
        let table = Arc::new(table(1));
        let (idle, neighbour) = tags();
        table.update(idle, 0, |_| Some(low(NOW)));
        count_one(&table, neighbour);
        let waking = {
            let table = table.clone();
            thread::spawn(move || count_one(&table, idle))
        };
        table.sweep(table.geometry(), NOW);
        waking.join().unwrap();
        assert_eq!((counted(&table, idle), counted(&table, neighbour)), (1, 1));
    });
}

/// A key comes near its limit while a new key looks for a slot: its level is its own, and no count is lost.
#[test]
fn a_level_never_reaches_another_key() {
    model(|| {
        let table = Arc::new(table(1));
        let (idle, new) = tags();
        table.update(idle, 0, |_| Some(low(NOW)));
        let spared = {
            let table = table.clone();
            thread::spawn(move || {
                table.update(idle, NOW, |state| Some(Word::new(state.max(NOW) + 1, Level::SPARED)));
            })
        };
        count_one(&table, new);
        spared.join().unwrap();
        assert_eq!((counted(&table, idle), counted(&table, new)), (1, 1));
        let level = |tag| {
            let Place { line, slot } = table.locate(tag).unwrap();
            table.arena.line(line).read(slot).unwrap().word.level()
        };
        assert_eq!((level(idle), level(new)), (Level::SPARED, Level::LOWEST));
    });
}

/// At the cap, one key counts while another is evicted for a new one: no count is lost, and the key near its limit stays.
#[test]
fn a_key_near_its_limit_is_not_evicted_while_others_count() {
    model(|| {
        let table = Arc::new(table(1));
        let (near, other) = tags();
        for tag in [near, other] {
            let level = if tag == near { Level::SPARED } else { Level::LOWEST };
            table.update(tag, NOW, |_| Some(Word::new(NOW + 1, level)));
        }
        let counting = {
            let table = table.clone();
            thread::spawn(move || {
                table.update(near, NOW, |state| Some(Word::new(state + 1, Level::SPARED)));
            })
        };
        let mut held = table.locks.hold(0);
        assert!(table.evict_near(0, NOW, &mut held));
        assert!(!table.evict_near(0, NOW, &mut held));
        drop(held);
        counting.join().unwrap();
        assert_eq!((counted(&table, near), counted(&table, other)), (2, 0));
    });
}

#[test]
fn a_key_pulled_home_while_it_counts_keeps_its_count() {
    model(|| {
        let table = Arc::new(table(1));
        // Four of one line, and one that has to stand behind it.
        let tags = [1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24].map(Tag::of);
        for tag in tags {
            count_one(&table, tag);
        }
        assert!(table.remove(tags[0]).is_some());
        let counting = {
            let table = table.clone();
            thread::spawn(move || count_one(&table, tags[4]))
        };
        table.sweep(table.geometry(), NOW);
        counting.join().unwrap();
        assert_eq!(counted(&table, tags[4]), 2);
    });
}
