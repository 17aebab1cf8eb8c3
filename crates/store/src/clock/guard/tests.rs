//! Jumps of made-up clocks.

use super::*;

const START_S: i64 = 1_800_000_000;
const DAY_S: i64 = 86_400;

/// A guard that is asked once a second, and what it was told so far.
struct Watched {
    guard: ClockGuard,
    second: i64,
    /// How far wall time is from what it should be.
    wrong_s: i64,
    /// The same of another clock, if there is one.
    reference_s: Option<i64>,
}

impl Watched {
    fn new() -> Watched {
        Watched { guard: ClockGuard::new(0), second: 0, wrong_s: 0, reference_s: None }
    }

    /// Lets seconds pass, and says what happened in them.
    fn pass(&mut self, seconds: i64) -> Vec<ClockEvent> {
        (0..seconds).filter_map(|_| self.look()).collect()
    }

    fn look(&mut self) -> Option<ClockEvent> {
        self.second += 1;
        let at = |second: i64| Time::from_ticks((second * 1_000_000_000).cast_unsigned());
        let steady = at(START_S + self.second);
        let reference = self.reference_s.map(|wrong_s| Reference {
            ahead_ns: wrong_s * 1_000_000_000,
            asked_at: steady.minus(Span::from_ticks(2 * SECOND)),
        });
        let wall = at(START_S + self.second + self.wrong_s);
        self.guard.observe(&Reading { steady, wall, reference })
    }

    /// How far the timeline is from what it should be.
    fn ahead_s(&self) -> i64 {
        self.guard.ahead_ns() / 1_000_000_000
    }
}

fn ns(seconds: i64) -> i64 {
    seconds * 1_000_000_000
}

#[test]
fn a_glitch_moves_nothing_and_is_noticed() {
    for wrong_s in [2, 45 * DAY_S, -2, -45 * DAY_S] {
        for lasts in [1, 2, 59] {
            let mut watched = Watched { wrong_s, ..Watched::new() };
            assert_eq!(watched.pass(lasts), [ClockEvent::Jumped { by_ns: ns(wrong_s) }]);
            assert_eq!((watched.ahead_s(), watched.guard.unconfirmed_ns()), (0, ns(wrong_s)));
            watched.wrong_s = 0;
            assert_eq!(watched.pass(100), [ClockEvent::CameBack]);
            assert_eq!((watched.ahead_s(), watched.guard.unconfirmed_ns()), (0, 0));
        }
    }
}

#[test]
fn an_operator_says_how_long_a_jump_has_to_last() {
    let mut watched = Watched { wrong_s: 3_600, ..Watched::new() };
    watched.guard = ClockGuard::new(0).agreement(Span::from_ticks(3 * SECOND));
    assert_eq!(watched.pass(3), [ClockEvent::Jumped { by_ns: ns(3_600) }]);
    assert_eq!(watched.pass(1), [ClockEvent::Followed { by_ns: ns(3_600) }]);
}

#[test]
fn without_another_clock_a_jump_is_followed_after_a_minute_and_back_after_another() {
    for wrong_s in [25 * DAY_S, -3_600] {
        let mut watched = Watched { wrong_s, ..Watched::new() };
        assert_eq!(watched.pass(60), [ClockEvent::Jumped { by_ns: ns(wrong_s) }]);
        assert_eq!(watched.pass(1), [ClockEvent::Followed { by_ns: ns(wrong_s) }]);
        assert_eq!(watched.ahead_s(), wrong_s);
        watched.wrong_s = 0;
        assert_eq!(
            watched.pass(100),
            [ClockEvent::Jumped { by_ns: ns(-wrong_s) }, ClockEvent::Followed { by_ns: ns(-wrong_s) }]
        );
        assert_eq!(watched.ahead_s(), 0);
    }
}

#[test]
fn wall_time_that_keeps_jumping_is_not_followed() {
    let mut watched = Watched::new();
    for jump in 1..20 {
        watched.wrong_s = jump * DAY_S;
        watched.pass(30);
        assert_eq!(watched.ahead_s(), 0);
    }
}

#[test]
fn another_clock_confirms_a_jump_at_once() {
    let mut watched = Watched { wrong_s: 3_600, reference_s: Some(3_601), ..Watched::new() };
    assert_eq!(watched.pass(1), [ClockEvent::Followed { by_ns: ns(3_600) }]);
    assert_eq!(watched.ahead_s(), 3_600);
}

#[test]
fn a_jump_that_another_clock_denies_is_never_followed() {
    let mut watched = Watched { wrong_s: 45 * DAY_S, reference_s: Some(1), ..Watched::new() };
    assert_eq!(watched.pass(10_000), [ClockEvent::Jumped { by_ns: ns(45 * DAY_S) }]);
    assert_eq!(watched.ahead_s(), 0);
}

#[test]
fn a_jump_of_the_other_clock_alone_moves_nothing_and_is_noticed_once() {
    let mut watched = Watched { reference_s: Some(500 * DAY_S), ..Watched::new() };
    assert_eq!(watched.pass(1_000), [ClockEvent::Differs { by_ns: ns(500 * DAY_S) }]);
    assert_eq!(watched.ahead_s(), 0);
    watched.reference_s = Some(0);
    assert_eq!(watched.pass(10), []);
    watched.reference_s = Some(-60);
    assert_eq!(watched.pass(10), [ClockEvent::Differs { by_ns: ns(-60) }]);
}

#[test]
fn what_another_clock_said_long_ago_neither_confirms_nor_denies() {
    let mut guard = ClockGuard::new(0);
    let reading = |second: u64| Reading {
        steady: Time::from_ticks(second * SECOND),
        wall: Time::from_ticks((second + 1_000) * SECOND),
        reference: Some(Reference { ahead_ns: 0, asked_at: Time::from_ticks(0) }),
    };
    assert_eq!(guard.observe(&reading(30)), Some(ClockEvent::Jumped { by_ns: ns(1_000) }));
    assert_eq!(guard.observe(&reading(89)), None);
    assert_eq!(guard.observe(&reading(90)), Some(ClockEvent::Followed { by_ns: ns(1_000) }));
}

#[test]
fn corrections_of_less_than_a_second_are_followed_in_both_directions() {
    let mut guard = ClockGuard::new(0);
    for (step, ahead_ms) in [900_i64, 0, -800, 100].into_iter().enumerate() {
        let steady = Time::from_ticks((1_000 + step as u64) * SECOND);
        let wall = Time::from_ticks(steady.ticks().strict_add_signed(ahead_ms * 1_000_000));
        assert_eq!(guard.observe(&Reading { steady, wall, reference: None }), None);
        assert_eq!(guard.ahead_ns(), ahead_ms * 1_000_000);
    }
}
