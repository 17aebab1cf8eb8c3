//! Each name has its own bucket, and wrong tokens have one together.
#![allow(clippy::unwrap_used)]

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn rates_have_a_unit_and_may_have_a_burst() {
    let rate = |text: &str| text.parse::<AdminRate>();
    assert_eq!(rate("50/s:200"), Ok(AdminRate::default()));
    assert_eq!(rate("5/s"), Ok(AdminRate { per_second: 5, burst: 20 }));
    for text in ["", "50", "0/s", "5/s:0", "5/m", "5/s:", "-1/s", "1000001/s", "5/s:x"] {
        assert_eq!(rate(text), Err(()), "{text}");
    }
}

#[test]
fn each_name_has_a_bucket_of_its_own() {
    let rates = Rates::new(Some(AdminRate { per_second: 2, burst: 3 })).unwrap();
    let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
    let at = |ns| Time::from_ticks(1_800_000_000 * SECOND_NS + ns);
    for _ in 0..3 {
        assert_eq!(rates.ask(&ann, at(0)), Ok(()));
    }
    assert_eq!(rates.ask(&ann, at(0)), Err(Span::from_ticks(SECOND_NS / 2)));
    assert_eq!(rates.ask(&bob, at(0)), Ok(()));
    assert_eq!(rates.ask(&ann, at(SECOND_NS / 2)), Ok(()));
    let free = Rates::new(None).unwrap();
    assert!((0..10_000).all(|_| free.ask(&ann, at(0)).is_ok()));
}

#[test]
fn names_that_are_gone_make_room() {
    let rates = Rates::new(Some(AdminRate { per_second: 1, burst: 1 })).unwrap();
    for number in 0..3 * NAMES_MAX as u64 {
        let now = Time::from_ticks(SECOND_NS * (1_800_000_000 + 2 * number));
        assert_eq!(rates.ask(&number.to_string().into(), now), Ok(()));
    }
    assert!(rates.by_name.lock().unwrap().len() <= NAMES_MAX);
}

#[test]
fn wrong_tokens_are_slowed_down_all_together() {
    let rates = Rates::new(None).unwrap();
    let now = Time::from_ticks(1_800_000_000 * SECOND_NS);
    assert_eq!((0..100).filter(|_| rates.ask_wrongly(now).is_ok()).count(), 20);
}
