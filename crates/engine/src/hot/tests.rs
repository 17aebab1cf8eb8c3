//! Samples that are handed in, and what becomes of those that are not.

use tollgate_store::hot::ShardId;

use super::*;

fn at(ms: u64) -> Time {
    Time::from_ticks((1_700_000_000_000 + ms) * 1_000_000)
}

fn see(hot: &Hot, number: u64, now: Time) {
    let sighting = Sighting { number, shard: ShardId::HERE, leasing: Leasing::WhenHot, weight: 1 };
    hot.see(sighting, now, KeyName::default);
}

#[test]
fn a_sample_that_finds_somebody_else_there_leaves_its_weight_to_the_next() {
    let hot = Hot::new(SwitchSettings::default());
    see(&hot, 1, at(0));
    let somebody = lock(&hot.watched);
    see(&hot, 1, at(0));
    see(&hot, 2, at(0));
    hot.judge(&Seen { index: 0, number: 1, weight: 1 }, true, at(0));
    drop(somebody);
    see(&hot, 1, at(0));
    let heaviest = hot.heaviest(10, at(1_000));
    assert_eq!(heaviest.len(), 1);
    // Of four in the first second a little has decayed since.
    assert!((3.8..4.0).contains(&heaviest[0].per_second), "{heaviest:?}");
    assert_eq!((heaviest[0].share, heaviest[0].denied_ratio), (1.0, 0.0));
}

#[test]
fn names_are_shown_up_to_a_length() {
    let long = "é".repeat(1_000);
    let (text, bytes) = (shown(&long), shown_bytes(long.as_bytes()));
    assert_eq!(text, bytes);
    assert_eq!(text.chars().count(), SHOWN_CHARS_MAX + 1);
    assert_eq!(&*shown_bytes(b"key \xff"), "key \u{fffd}");
    assert_eq!(&*shown(""), "");
}

#[test]
fn few_changes_are_kept_for_those_who_never_ask() {
    let hot = Hot::new(SwitchSettings { share: 0.001, per_second_min: 1.0 });
    for number in 0..100 {
        for _ in 0..100 {
            see(&hot, number, at(0));
        }
    }
    hot.tend(at(1_000));
    assert_eq!(
        (lock(&hot.turning).changes.len(), hot.stats(at(1_000))),
        (64, HotStats { hot: 100, leased: 100 })
    );
    assert!(hot.is_hot(99) && !hot.is_hot(100));
}
