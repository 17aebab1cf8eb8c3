//! The breaker under made-up time.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const START_MS: u64 = 1_700_000_000_000;

fn at(ms: u64) -> Time {
    Time::from_ticks((START_MS + ms) * MS)
}

fn pass(breaker: &mut Breaker, now: Time) -> Pass {
    match breaker.admits(now) {
        Admission::Yes(pass) | Admission::Probe(pass) => pass,
        Admission::No { until } => panic!("not before {until:?}"),
    }
}

fn fail(breaker: &mut Breaker, ms: u64) -> bool {
    let pass = pass(breaker, at(ms));
    breaker.failed(pass, at(ms))
}

fn succeed(breaker: &mut Breaker, ms: u64) -> bool {
    let pass = pass(breaker, at(ms));
    breaker.succeeded(pass, at(ms))
}

/// Opens at 25 ms.
fn opened(seed: u64) -> Breaker {
    let mut breaker = Breaker::new(seed);
    for ms in [0, 1, 2, 3] {
        assert!(!fail(&mut breaker, ms));
    }
    assert!(fail(&mut breaker, 25));
    assert_eq!(breaker.state(at(25)), State::Open);
    breaker
}

fn until(breaker: &mut Breaker, now: Time) -> Time {
    match breaker.admits(now) {
        Admission::No { until } => until,
        admission => panic!("{admission:?}"),
    }
}

#[test]
fn a_shard_that_is_known_to_be_back_is_probed_at_once() {
    let mut breaker = opened(1);
    assert!(until(&mut breaker, at(30)) > at(40));
    breaker.hurry(at(40));
    let lost = pass(&mut breaker, at(40));
    assert!(until(&mut breaker, at(41)) > at(41), "one probe at a time");
    breaker.hurry(at(42));
    assert!(!succeed(&mut breaker, 42) && !succeed(&mut breaker, 42) && succeed(&mut breaker, 43));
    assert_eq!(breaker.state(at(43)), State::Closed);
    assert!(!breaker.failed(lost, at(43)));
    breaker.hurry(at(44));
    assert_eq!(breaker.state(at(44)), State::Closed);
}

#[test]
fn a_run_opens_when_it_is_long_enough_in_number_and_in_time() {
    let check = |failures_ms: &[u64], opens_at: Option<usize>| {
        let mut breaker = Breaker::new(1);
        let opened = failures_ms.iter().position(|&ms| fail(&mut breaker, ms));
        assert_eq!(opened, opens_at, "{failures_ms:?}");
    };
    check(&[0, 5, 10, 15, 20, 24, 25], Some(6));
    check(&[0, 25, 26, 27], None);
    check(&[0, 25, 26, 27, 28], Some(4));
    check(&[7; 19], None);
}

#[test]
fn a_success_ends_a_run() {
    let mut breaker = Breaker::new(1);
    for ms in 0..200 {
        assert!(!fail(&mut breaker, ms), "{ms}");
        assert!(!succeed(&mut breaker, ms), "{ms}");
        assert!(!succeed(&mut breaker, ms), "{ms}");
    }
}

#[test]
fn opens_when_over_half_failed_and_not_at_half() {
    let mut breaker = Breaker::new(1);
    for ms in 0..10 {
        assert!(!succeed(&mut breaker, ms));
    }
    for _ in 0..10 {
        assert!(!fail(&mut breaker, 11), "half is not over half, and a run takes time");
    }
    assert!(fail(&mut breaker, 11));
}

#[test]
fn what_is_older_than_the_window_does_not_count() {
    let check = |later_ms: u64, opens: bool| {
        let mut breaker = Breaker::new(1);
        for _ in 0..19 {
            fail(&mut breaker, 0);
        }
        succeed(&mut breaker, 0);
        assert_eq!(fail(&mut breaker, later_ms), opens, "{later_ms}");
    };
    check(9_499, true);
    check(10_000, false);
}

#[test]
fn closes_after_a_few_probes_one_after_the_other() {
    let mut breaker = opened(1);
    let begins = until(&mut breaker, at(25));
    for probe in 1..=PROBES_TO_CLOSE {
        assert_eq!(breaker.state(begins), State::HalfOpen);
        let Admission::Probe(pass) = breaker.admits(begins) else { panic!("{breaker:?}") };
        assert!(matches!(breaker.admits(begins), Admission::No { .. }), "one at a time");
        assert_eq!(breaker.succeeded(pass, begins), probe == PROBES_TO_CLOSE);
    }
    assert_eq!(breaker.state(begins), State::Closed);
    assert!(matches!(breaker.admits(begins), Admission::Yes(_)));
}

#[test]
fn stays_open_twice_as_long_after_every_failed_probe_and_short_again_once_closed() {
    for seed in 0..100 {
        check_backoff(opened(seed));
    }
}

fn check_backoff(mut breaker: Breaker) {
    let mut now = at(25);
    for whole_ms in [100, 200, 400, 800, 1_000, 1_000] {
        let begins = until(&mut breaker, now);
        let open_for = begins.since(now).ticks();
        assert!(open_for <= whole_ms * MS && open_for > whole_ms * MS / 4 * 3, "{whole_ms}: {open_for}");
        now = begins;
        let pass = pass(&mut breaker, now);
        assert!(breaker.failed(pass, now));
    }
    now = until(&mut breaker, now);
    for _ in 0..PROBES_TO_CLOSE {
        let pass = pass(&mut breaker, now);
        breaker.succeeded(pass, now);
    }
    let later_ms = now.ticks() / MS - START_MS + 1;
    for ms in 0..4 {
        assert!(!fail(&mut breaker, later_ms + ms), "what failed before it closed is forgotten");
    }
    assert!(fail(&mut breaker, later_ms + 25));
    let now = at(later_ms + 25);
    assert!(until(&mut breaker, now).since(now) <= OPEN_MIN);
}

#[test]
fn nodes_do_not_come_back_all_at_once() {
    let mut moments: Vec<Time> = (0..100).map(|seed| until(&mut opened(seed), at(25))).collect();
    moments.sort_unstable();
    moments.dedup();
    assert!(moments.len() > 90, "{moments:?}");
}

#[test]
fn answers_from_before_it_opened_do_not_close_it() {
    let mut breaker = Breaker::new(1);
    let before = pass(&mut breaker, at(0));
    for ms in [0, 1, 2, 3, 25] {
        fail(&mut breaker, ms);
    }
    let begins = until(&mut breaker, at(25));
    for now in [at(25), begins] {
        for _ in 0..2 * PROBES_TO_CLOSE {
            assert!(!breaker.succeeded(before, now));
            assert!(!breaker.failed(before, now));
        }
    }
    assert_eq!(breaker.state(begins), State::HalfOpen, "nor keep it open longer");
}

#[test]
fn failures_from_before_it_closed_do_not_open_it() {
    let mut breaker = Breaker::new(1);
    let before = pass(&mut breaker, at(0));
    for ms in [0, 1, 2, 3, 25] {
        fail(&mut breaker, ms);
    }
    let begins = until(&mut breaker, at(25));
    for _ in 0..PROBES_TO_CLOSE {
        let pass = pass(&mut breaker, begins);
        breaker.succeeded(pass, begins);
    }
    for ms in 0..1_000 {
        assert!(!breaker.failed(before, at(200 + ms)));
    }
    assert_eq!(breaker.state(at(1_200)), State::Closed);
}

#[test]
fn a_lost_probe_makes_room_and_counts_when_it_is_found() {
    let mut breaker = opened(1);
    let begins = until(&mut breaker, at(25));
    let lost = pass(&mut breaker, begins);
    let frees = begins.plus(PROBE_PATIENCE);
    assert_eq!(until(&mut breaker, begins), frees);
    let Admission::Probe(second) = breaker.admits(frees) else { panic!("{breaker:?}") };
    assert!(!breaker.succeeded(lost, frees));
    assert!(matches!(breaker.admits(frees), Admission::No { .. }), "the second is still out");
    assert!(!breaker.succeeded(second, frees));
    let third = pass(&mut breaker, frees);
    assert!(breaker.succeeded(third, frees));
}

#[test]
fn a_probe_that_nobody_waits_for_makes_room_for_the_next() {
    let mut breaker = opened(1);
    let begins = until(&mut breaker, at(25));
    let first = pass(&mut breaker, begins);
    breaker.abandoned(first);
    let second = pass(&mut breaker, begins);
    breaker.abandoned(first);
    assert!(matches!(breaker.admits(begins), Admission::No { .. }), "the second is still out");
    assert!(breaker.failed(second, begins));
}

/// A shard that is well or sick for a while, and asked every so often; each answer takes its time.
#[derive(Clone, Copy, Debug)]
struct Spell {
    is_well: bool,
    lasts_ms: u64,
    every_ms: u64,
    answers_after_ms: u64,
}

fn spells() -> impl Strategy<Value = Vec<Spell>> {
    let spell = (any::<bool>(), 1u64..3_000, 1u64..20, 0u64..60).prop_map(
        |(is_well, lasts_ms, every_ms, answers_after_ms)| Spell {
            is_well,
            lasts_ms,
            every_ms,
            answers_after_ms,
        },
    );
    vec(spell, 1..8)
}

/// What a run of spells showed.
#[derive(Default)]
struct Watch {
    probes_out: usize,
    results: Vec<(u64, Pass, bool, bool)>,
}

impl Watch {
    fn deliver(&mut self, breaker: &mut Breaker, ms: u64) {
        self.results.sort_by_key(|&(due_ms, ..)| due_ms);
        let due = self.results.partition_point(|&(due_ms, ..)| due_ms <= ms);
        for (_, pass, is_well, is_probe) in self.results.drain(..due) {
            self.probes_out -= usize::from(is_probe);
            let _ = if is_well { breaker.succeeded(pass, at(ms)) } else { breaker.failed(pass, at(ms)) };
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn opens_on_sickness_closes_on_health_and_probes_one_at_a_time(spells in spells(), seed: u64) {
        let (mut breaker, mut watch, mut ms) = (Breaker::new(seed), Watch::default(), 0);
        // Whatever came before, 2 s of health close it: at most 1 s open, an old probe's answer, three probes.
        let last = Spell { is_well: true, lasts_ms: 2_000, every_ms: 2, answers_after_ms: 1 };
        for spell in spells.into_iter().chain([last]) {
            let (began_ms, mut open_ms) = (ms, None);
            while ms < began_ms + spell.lasts_ms {
                watch.deliver(&mut breaker, ms);
                let admission = breaker.admits(at(ms));
                if let Admission::No { until } = admission {
                    prop_assert!(until > at(ms) && until.since(at(ms)) <= OPEN_MAX.max(PROBE_PATIENCE));
                } else if let Admission::Yes(pass) | Admission::Probe(pass) = admission {
                    let is_probe = matches!(admission, Admission::Probe(_));
                    watch.probes_out += usize::from(is_probe);
                    prop_assert!(watch.probes_out <= 1);
                    watch.results.push((ms + spell.answers_after_ms, pass, spell.is_well, is_probe));
                }
                if breaker.state(at(ms)) != State::Closed {
                    open_ms.get_or_insert(ms - began_ms);
                }
                ms += spell.every_ms;
            }
            // The first failure of a run comes an answer after the last success of the spell before it (60 ms at most).
            let opens_by_ms = 60 + spell.answers_after_ms + 25 + 6 * spell.every_ms;
            if !spell.is_well && spell.lasts_ms > opens_by_ms + spell.every_ms {
                prop_assert!(open_ms.is_some_and(|open_ms| open_ms <= opens_by_ms), "{:?} {:?}", spell, open_ms);
            }
        }
        prop_assert_eq!(breaker.state(at(ms)), State::Closed);
    }
}
