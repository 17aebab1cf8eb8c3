//! Costs that are estimated before the work and known after it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::authority::Authority;
use common::{START, engine, engine_with, install, later, with_request};
use tollgate::authority::{Act, Directed, Failure};
use tollgate::core::Time;
use tollgate::{
    Descriptor, Engine, EngineSettings, Keeper, LedgerSettings, Request, RequestError, Reservation,
    ReservationSettings, Reserved, Resumed, SettleError, Settlement, Step, Switched, Verdict,
};

const DAY: &str = "policies: {tokens: {requests: 1000, period: 1d, algorithm: fixed_window}}";
const LIFE: tollgate::core::Span = Reservation::LIFE_USUAL;

fn tokens(cost: u64) -> Request<'static> {
    Request::policy("tokens", b"me").cost(cost)
}

fn reserve(engine: &Engine, cost: u64, now: Time) -> Reserved {
    let (verdict, reserved) = engine.reserve(&tokens(cost), LIFE, now).unwrap();
    assert!(verdict.allowed());
    reserved.unwrap()
}

fn left(engine: &Engine, request: &Request<'_>, now: Time) -> u64 {
    let verdict = engine.decide(&request.cost(0).peek(), now).unwrap();
    verdict.tightest().unwrap().decision.remaining
}

fn settle(engine: &Engine, reserved: &Reserved, cost: u64, now: Time) -> (u64, u64, u64) {
    let (verdict, settlement) = engine.settle_reservation(&reserved.reservation, cost, now).unwrap();
    let Settlement { charged, returned, booked, .. } = settlement;
    assert_eq!(charged, cost);
    (verdict.tightest().unwrap().decision.remaining, returned, booked)
}

#[test]
fn the_real_cost_is_what_is_charged() {
    for (cost, expected) in
        [(0, (1000, 100, 0)), (40, (960, 60, 0)), (100, (900, 0, 0)), (250, (750, 0, 150))]
    {
        let engine = engine(DAY);
        let reserved = reserve(&engine, 100, START);
        assert_eq!(left(&engine, &tokens(0), START), 900);
        assert_eq!(settle(&engine, &reserved, cost, later(Duration::from_secs(5))), expected, "{cost}");
        assert_eq!(left(&engine, &tokens(0), START), expected.0, "{cost}");
    }
}

#[test]
fn a_second_time_changes_nothing() {
    let engine = engine(DAY);
    let reserved = reserve(&engine, 100, START);
    settle(&engine, &reserved, 40, START);
    for cost in [0, 40, 1000] {
        let again = engine.settle_reservation(&reserved.reservation, cost, START).unwrap_err();
        assert_eq!(again, SettleError::Settled);
    }
    assert_eq!(left(&engine, &tokens(0), START), 960);
    let stats = engine.reservation_stats();
    assert_eq!((stats.made, stats.settled, stats.open, stats.returned_units), (1, 1, 0, 60));
}

#[test]
fn nothing_is_given_to_the_next_window() {
    let engine = engine("policies: {tokens: {requests: 1000, period: 1m, algorithm: fixed_window}}");
    let reserved = reserve(&engine, 100, START);
    let next = later(Duration::from_mins(1));
    assert!(engine.decide(&tokens(300), next).unwrap().allowed());
    assert_eq!(settle(&engine, &reserved, 0, next), (700, 100, 0));
    assert_eq!(left(&engine, &tokens(0), next), 700);
}

#[test]
fn what_nobody_settles_stays_charged() {
    let engine = engine(DAY);
    let reserved = reserve(&engine, 100, START);
    engine.tend(Time::from_ticks(reserved.expires_at.ticks() - 1));
    assert_eq!(engine.reservation_stats().open, 1);
    engine.tend(reserved.expires_at);
    let stats = engine.reservation_stats();
    assert_eq!((stats.open, stats.expired, stats.bytes), (0, 1, 0));
    let late = engine.settle_reservation(&reserved.reservation, 0, reserved.expires_at).unwrap_err();
    assert_eq!(late, SettleError::Expired);
    assert_eq!(left(&engine, &tokens(0), reserved.expires_at), 900);
}

#[test]
fn whoever_is_denied_reserves_nothing() {
    let engine = engine(DAY);
    let (verdict, reserved) = engine.reserve(&tokens(1001), LIFE, START).unwrap();
    assert!(!verdict.allowed() && reserved.is_none());
    let stats = engine.reservation_stats();
    assert_eq!((stats.open, stats.made, stats.bytes), (0, 0, 0));
    assert_eq!(left(&engine, &tokens(0), START), 1000);
}

#[test]
fn an_excess_is_booked_and_denies_others() {
    let engine = engine(DAY);
    let reserved = reserve(&engine, 100, START);
    assert_eq!(settle(&engine, &reserved, 1500, START), (0, 0, 1400));
    assert!(!engine.decide(&tokens(1), START).unwrap().allowed());
}

const MANY: &str = "
domain: d
descriptors:
- {key: plain, rate_limit: {requests: 100, period: 1d, algorithm: fixed_window}}
- {key: narrow, rate_limit: {requests: 10, period: 1d, algorithm: fixed_window}}
- {key: shadow, shadow_mode: true, rate_limit: {requests: 10, period: 1d, algorithm: fixed_window}}
- {key: quota, quota_mode: true, rate_limit: {requests: 10, period: 1d, algorithm: fixed_window}}
- {key: large, quota_mode: true, rate_limit: {requests: 100, period: 1d, algorithm: fixed_window}}
- {key: held, rate_limit: {requests: 1, period: 1m, algorithm: concurrency}}
";

/// What is left of each descriptor's limit.
fn lefts(engine: &Engine, descriptors: &[&str]) -> Vec<u64> {
    let left = |text: &&str| with_request(&[text], |request| left(engine, request, START));
    descriptors.iter().map(left).collect()
}

#[test]
fn only_what_was_charged_is_settled() {
    // Of the limits that are over, one is only counted and one is excused: both took nothing.
    let descriptors = ["plain=1", "shadow=1", "quota=1", "large=1"];
    for (cost, expected) in [(5, [95, 10, 10, 95]), (50, [50, 10, 10, 50]), (20, [80, 10, 10, 80])] {
        let engine = engine(MANY);
        let reserved = with_request(&descriptors, |request| {
            engine.reserve(&request.cost(20), LIFE, START).unwrap().1.unwrap()
        });
        assert_eq!(lefts(&engine, &descriptors), [80, 10, 10, 80]);
        let (verdict, _) = engine.settle_reservation(&reserved.reservation, cost, START).unwrap();
        assert_eq!(lefts(&engine, &descriptors), expected, "{cost}");
        assert_eq!(verdict.rulings().len(), 2, "those that were charged");
    }
}

#[test]
fn a_counter_that_two_descriptors_meet_is_settled_for_both() {
    let engine = engine(MANY);
    let reserved = with_request(&["plain=1", "plain=1", "plain=2"], |request| {
        engine.reserve(&request.cost(20), LIFE, START).unwrap().1.unwrap()
    });
    assert_eq!(lefts(&engine, &["plain=1", "plain=2"]), [60, 80]);
    engine.settle_reservation(&reserved.reservation, 5, START).unwrap();
    assert_eq!(lefts(&engine, &["plain=1", "plain=2"]), [90, 95]);
}

#[test]
fn what_cannot_be_settled_cannot_be_reserved() {
    let engine = engine(MANY);
    let reserve = |descriptors: &[&str]| {
        with_request(descriptors, |request| engine.reserve(request, LIFE, START).map(|_| ()).unwrap_err())
    };
    assert_eq!(reserve(&["plain=1", "held=1"]), RequestError::HeldNotReserved);
    assert_eq!(reserve(&["plain=1", "narrow=1@3"]), RequestError::EstimateOfItsOwn { index: 1 });
    assert_eq!(reserve(&["plain=1@-3"]), RequestError::EstimateOfItsOwn { index: 0 });
    for life in [0, 999_999, Reservation::LIFE_MAX.ticks() + 1] {
        let life = tollgate::core::Span::from_ticks(life);
        let refused = with_request(&["plain=1"], |request| engine.reserve(request, life, START).unwrap_err());
        assert_eq!(refused, RequestError::ReservedTooLong);
    }
    assert_eq!(lefts(&engine, &["plain=1", "narrow=1"]), [100, 10]);
    assert_eq!(engine.reservation_stats().bytes, 0);
}

#[test]
fn at_the_bound_nothing_is_taken() {
    let reservations =
        ReservationSettings { open_max: 2, key_parts: 1, tenant_parts: 1, ..ReservationSettings::default() };
    let engine = engine_with(DAY, EngineSettings { reservations, ..EngineSettings::default() });
    let first = reserve(&engine, 100, START);
    reserve(&engine, 100, START);
    let refused = engine.reserve(&tokens(100), LIFE, START).map(|_| ()).unwrap_err();
    assert_eq!(refused, RequestError::TooManyReservations);
    assert_eq!(left(&engine, &tokens(0), START), 800);
    settle(&engine, &first, 100, START);
    reserve(&engine, 100, START);
    assert_eq!(engine.reservation_stats().refused, 1);
}

#[test]
fn rules_may_change_in_between() {
    let cases = [
        ("policies: {tokens: {requests: 500, period: 1d, algorithm: fixed_window}}", 460),
        // What was counted is carried over to another algorithm, and given back there.
        ("policies: {tokens: {requests: 1000, period: 1d, algorithm: token_bucket}}", 960),
        ("policies: {tokens: {requests: 1000, period: 1d, algorithm: sliding_log}}", 960),
    ];
    for (rules, expected) in cases {
        let engine = engine(DAY);
        let reserved = reserve(&engine, 100, START);
        install(&engine, rules, START);
        assert_eq!(settle(&engine, &reserved, 40, START), (expected, 60, 0), "{rules}");
    }
}

#[test]
fn rules_that_are_gone_are_not_settled() {
    let engine = engine(DAY);
    let reserved = reserve(&engine, 100, START);
    install(&engine, "policies: {others: {requests: 1, period: 1d}}", START);
    let (verdict, settlement) = engine.settle_reservation(&reserved.reservation, 40, START).unwrap();
    assert!(verdict.rulings().is_empty());
    assert_eq!(settlement.charged, 40);
    // A limit that was not there when it was reserved is not charged either.
    install(&engine, "policies: {others: {requests: 100, period: 1d}}", START);
    let others = Request::policy("others", b"me");
    assert_eq!(left(&engine, &others, START), 100);
}

#[test]
fn what_was_taken_is_settled_whatever_operators_switch_off() {
    let engine = engine(MANY);
    let [one, two] = [(); 2].map(|()| {
        with_request(&["plain=1"], |request| {
            engine.reserve(&request.cost(20), LIFE, START).unwrap().1.unwrap()
        })
    });
    engine.switch(Switched { all: Some(Time::MAX), ..Switched::default() });
    engine.settle_reservation(&one.reservation, 0, START).unwrap();
    engine.switch(Switched::default());
    assert_eq!(lefts(&engine, &["plain=1"]), [80]);
    engine.settle_reservation(&two.reservation, 30, START).unwrap();
    assert_eq!(lefts(&engine, &["plain=1"]), [70]);
}

#[test]
fn a_limit_that_came_with_the_request_is_settled_too() {
    let engine = engine(MANY);
    let limit = Some(tollgate::OwnLimit { requests_per_unit: 50, unit: Some(tollgate::policy::Unit::Day) });
    let descriptors = [Descriptor { limit, ..Descriptor::new(&[("own", "1")]) }];
    let request = Request::new("d", &descriptors);
    let (_, reserved) = engine.reserve(&request.cost(20), LIFE, START).unwrap();
    assert_eq!(settle(&engine, &reserved.unwrap(), 5, START), (45, 15, 0));
}

#[test]
fn where_no_limit_applies_there_is_nothing_to_settle() {
    let engine = engine(MANY);
    let reserved = with_request(&["unknown=1"], |request| {
        engine.reserve(&request.cost(9), LIFE, START).unwrap().1.unwrap()
    });
    let (_, settlement) = engine.settle_reservation(&reserved.reservation, 4, START).unwrap();
    assert_eq!(settlement, Settlement { reserved: 9, charged: 4, returned: 0, booked: 0 });
}

// Counters that others share.

fn sharing(rules: &str) -> Engine {
    let settings = EngineSettings { ledger: LedgerSettings::with_cap(8 << 20), ..EngineSettings::default() };
    let engine = Engine::new(settings).unwrap().sharing(b"secret");
    install(&engine, rules, START);
    engine.set_nodes(1);
    engine
}

fn carry(engine: &Engine, authority: &mut Authority, step: Step, now: Time) -> (Verdict, Option<Reserved>) {
    match step {
        Step::Ready(verdict) => (verdict, None),
        Step::Pending(pending) => {
            let grants = authority.ask(pending.questions(), now);
            let Resumed { verdict, reserved, tell, .. } = engine.resume(pending, &grants, now);
            authority.ask(&tell, now);
            (verdict, reserved)
        }
    }
}

fn reserve_there(engine: &Engine, authority: &mut Authority, request: &Request<'_>, now: Time) -> Reserved {
    let (step, reserved) = engine.begin_reserve(request, LIFE, now).unwrap();
    let (verdict, later) = carry(engine, authority, step, now);
    assert!(verdict.allowed());
    reserved.or(later).unwrap()
}

fn settle_there(
    engine: &Engine,
    authority: &mut Authority,
    reserved: &Reserved,
    cost: u64,
    now: Time,
) -> u64 {
    let (step, _) = engine.begin_settle(&reserved.reservation, cost, now).unwrap();
    let (verdict, _) = carry(engine, authority, step, now);
    verdict.tightest().unwrap().decision.remaining
}

fn left_there(engine: &Engine, authority: &mut Authority, now: Time) -> u64 {
    let step = engine.begin(&tokens(0).peek(), now).unwrap();
    carry(engine, authority, step, now).0.tightest().unwrap().decision.remaining
}

/// Carries all errands there are.
fn run_errands(engine: &Engine, authority: &mut Authority, now: Time) {
    for errand in engine.take_errands(Keeper::Store, 100) {
        let grants = authority.ask(std::slice::from_ref(&errand.question), now);
        engine.settle(errand, grants[0], now);
    }
}

#[test]
fn shared_limits_are_settled_where_they_are_counted() {
    for (cost, expected) in [(0, 1000), (40, 960), (100, 900), (250, 750)] {
        let (engine, mut authority) = (sharing(DAY), Authority::default());
        let reserved = reserve_there(&engine, &mut authority, &tokens(100), START);
        assert_eq!(settle_there(&engine, &mut authority, &reserved, cost, START), expected, "{cost}");
        assert_eq!(left_there(&engine, &mut authority, START), expected, "{cost}");
    }
}

#[test]
fn nothing_is_given_to_the_next_window_of_a_shared_limit() {
    let rules = "policies: {tokens: {requests: 1000, period: 1m, algorithm: fixed_window}}";
    let (engine, mut authority) = (sharing(rules), Authority::default());
    let reserved = reserve_there(&engine, &mut authority, &tokens(100), START);
    let next = later(Duration::from_mins(1));
    reserve_there(&engine, &mut authority, &tokens(300), next);
    settle_there(&engine, &mut authority, &reserved, 0, next);
    assert_eq!(left_there(&engine, &mut authority, next), 700);
}

#[test]
fn what_the_authority_does_not_hear_is_told_again() {
    let (engine, mut authority) = (sharing(DAY), Authority::default());
    let reserved = reserve_there(&engine, &mut authority, &tokens(100), START);
    let (step, _) = engine.begin_settle(&reserved.reservation, 40, START).unwrap();
    let Step::Pending(pending) = step else { panic!("it is not asked") };
    engine.resume(pending, &[Err(Failure::TimedOut)], START);
    assert_eq!(left_there(&engine, &mut authority, START), 900);
    let errand = engine.take_errands(Keeper::Store, 100).pop().unwrap();
    engine.settle(errand, Err(Failure::Unreachable), START);
    assert!(!engine.has_errands(Keeper::Store));
    let soon = later(Duration::from_secs(30));
    engine.tend(soon);
    run_errands(&engine, &mut authority, soon);
    assert_eq!(left_there(&engine, &mut authority, soon), 960);
}

#[test]
fn whoever_does_not_wait_for_the_answer_settles_too() {
    let (engine, mut authority) = (sharing(DAY), Authority::default());
    let reserved = reserve_there(&engine, &mut authority, &tokens(100), START);
    let (step, _) = engine.begin_settle(&reserved.reservation, 40, START).unwrap();
    let Step::Pending(pending) = step else { panic!("it is not asked") };
    engine.abandon(pending, START);
    run_errands(&engine, &mut authority, START);
    assert_eq!(left_there(&engine, &mut authority, START), 960);
}

#[test]
fn whoever_does_not_wait_for_the_answer_reserves_nothing() {
    let engine = sharing(DAY);
    let (step, _) = engine.begin_reserve(&tokens(100), LIFE, START).unwrap();
    let Step::Pending(pending) = step else { panic!("it is not asked") };
    assert!(engine.reservation_stats().bytes > 0);
    engine.abandon(pending, START);
    let stats = engine.reservation_stats();
    assert_eq!((stats.open, stats.bytes, stats.made), (0, 0, 0));
}

#[test]
fn what_was_taken_while_the_authority_was_away_goes_back_here() {
    let (engine, mut authority) = (sharing(DAY), Authority::default());
    let reserved = reserve(&engine, 100, START);
    // It is back, and has counted nothing of that.
    assert_eq!(left_there(&engine, &mut authority, START), 1000);
    settle_there(&engine, &mut authority, &reserved, 40, START);
    assert_eq!(left_there(&engine, &mut authority, START), 1000);
    assert_eq!(left(&engine, &tokens(0), START), 960, "the share of this process");
}

const LEASED: &str =
    "policies: {tokens: {requests: 100000, period: 1d, algorithm: fixed_window, consistency: leased}}";

#[test]
fn leased_units_are_settled_where_they_are_counted() {
    let (engine, mut authority) = (sharing(LEASED), Authority::default());
    let (mut real, mut now, mut numbers) = (0, START, Vec::new());
    for turn in 0..500_u64 {
        now = later(Duration::from_millis(turn));
        let reserved = reserve_there(&engine, &mut authority, &tokens(10), now);
        let cost = [0, 3, 10, 14][usize::try_from(turn % 4).unwrap()];
        let (step, _) = engine.begin_settle(&reserved.reservation, cost, now).unwrap();
        let Step::Pending(pending) = &step else { panic!("it is not asked") };
        numbers.extend(pending.questions().iter().filter_map(number));
        carry(&engine, &mut authority, step, now);
        real += cost;
        run_errands(&engine, &mut authority, now);
    }
    while !engine.close_leases(Keeper::Store, now) {}
    run_errands(&engine, &mut authority, now);
    assert_eq!(left_there(&engine, &mut authority, now), 100_000 - real);
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!((numbers.len(), count), (500, 500), "each is settled under a number of its own");
}

#[test]
fn what_came_of_a_lease_and_of_the_authority_is_settled_as_one() {
    for cost in [0, 20, 40_000] {
        let (engine, mut authority) = (sharing(LEASED), Authority::default());
        let mut now = START;
        for turn in 0..200_u64 {
            now = later(Duration::from_millis(turn));
            carry_request(&engine, &mut authority, &tokens(10), now);
            run_errands(&engine, &mut authority, now);
        }
        let in_hand = engine.lease_stats(Keeper::Store, now).units;
        assert!((1..30_000).contains(&in_hand), "{in_hand}");
        let reserved = reserve_there(&engine, &mut authority, &tokens(30_000), now);
        assert_eq!(engine.lease_stats(Keeper::Store, now).units, 0, "what was in hand is part of it");
        settle_there(&engine, &mut authority, &reserved, cost, now);
        run_errands(&engine, &mut authority, now);
        while !engine.close_leases(Keeper::Store, now) {}
        run_errands(&engine, &mut authority, now);
        assert_eq!(left_there(&engine, &mut authority, now), 100_000 - 2_000 - cost);
    }
}

fn carry_request(engine: &Engine, authority: &mut Authority, request: &Request<'_>, now: Time) {
    let step = engine.begin(request, now).unwrap();
    assert!(carry(engine, authority, step, now).0.allowed());
}

fn number((question, _): &Directed) -> Option<u64> {
    match question.act {
        Act::Settle(settle) => Some(settle.number),
        _ => None,
    }
}

/// Settles somewhere, and says whether it was settled before.
fn settle_anywhere(engine: &Engine, authority: &mut Authority, reserved: &Reserved, cost: u64) -> bool {
    let (step, _) = match engine.begin_settle(&reserved.reservation, cost, START) {
        Ok(begun) => begun,
        Err(error) => {
            assert_eq!(error, SettleError::Settled);
            return true;
        }
    };
    let Step::Pending(pending) = step else { return false };
    let grants = authority.ask(pending.questions(), START);
    let Resumed { settle_error, tell, .. } = engine.resume(pending, &grants, START);
    authority.ask(&tell, START);
    settle_error == Some(SettleError::Settled)
}

/// Settles while the authority does not answer. Says whether that is pending.
fn settle_unheard(engine: &Engine, reserved: &Reserved, cost: u64) -> Result<bool, SettleError> {
    let (step, _) = engine.begin_settle(&reserved.reservation, cost, START)?;
    let Step::Pending(pending) = step else { panic!("it is not asked") };
    let Resumed { verdict, settle_error, tell, .. } =
        engine.resume(pending, &[Err(Failure::TimedOut)], START);
    assert!(tell.is_empty() && (verdict.allowed() || settle_error.is_some()));
    settle_error.map_or(Ok(verdict.is_pending()), Err)
}

const CLOSED: &str =
    "policies: {tokens: {requests: 1000, period: 1d, algorithm: fixed_window, fail_mode: closed}}";

#[test]
fn a_settlement_that_the_authority_did_not_confirm_is_pending_and_retried() {
    for (cost, expected) in [(40, 960), (100, 900), (250, 750)] {
        let (engine, mut authority) = (sharing(CLOSED), Authority::default());
        let reserved = reserve_there(&engine, &mut authority, &tokens(100), START);
        assert_eq!(settle_unheard(&engine, &reserved, cost), Ok(true));
        assert_eq!(left_there(&engine, &mut authority, START), 900, "nothing has reached it");
        assert_eq!(engine.lease_stats(Keeper::Store, START).unconfirmed.waiting, 1);
        // The first retry arrives, and its answer is lost.
        let errand = engine.take_errands(Keeper::Store, 100).pop().unwrap();
        authority.ask(std::slice::from_ref(&errand.question), START);
        engine.settle(errand, Err(Failure::TimedOut), START);
        let soon = later(Duration::from_secs(1));
        engine.tend(soon);
        run_errands(&engine, &mut authority, soon);
        assert_eq!(left_there(&engine, &mut authority, soon), expected, "{cost}: it counts once");
        let settlements = engine.lease_stats(Keeper::Store, soon).unconfirmed;
        assert_eq!((settlements.waiting, settlements.kept, settlements.lost), (0, 1, 0));
    }
}

#[test]
fn of_settlements_that_several_processes_retry_one_is_charged() {
    let (maker, other, mut authority) = (sharing(CLOSED), sharing(CLOSED), Authority::default());
    let reserved = reserve_there(&maker, &mut authority, &tokens(100), START);
    for engine in [&maker, &other] {
        assert_eq!(settle_unheard(engine, &reserved, 250), Ok(true));
        assert_eq!(settle_unheard(engine, &reserved, 250), Err(SettleError::Settled), "not twice at one");
    }
    for engine in [&other, &maker] {
        run_errands(engine, &mut authority, START);
    }
    assert_eq!(left_there(&maker, &mut authority, START), 750);
    let refused = [&other, &maker].map(|engine| engine.lease_stats(Keeper::Store, START).unconfirmed.refused);
    assert_eq!(refused, [0, 1]);
}

#[test]
fn a_settlement_that_is_retried_in_vain_for_ten_minutes_is_counted_as_lost() {
    let (engine, mut authority) = (sharing(CLOSED), Authority::default());
    for cost in [40, 250] {
        let reserved = reserve_there(&engine, &mut authority, &tokens(100), START);
        assert_eq!(settle_unheard(&engine, &reserved, cost), Ok(true));
    }
    for minute in 0..11 {
        let now = later(Duration::from_mins(minute));
        engine.tend(now);
        for errand in engine.take_errands(Keeper::Store, 100) {
            engine.settle(errand, Err(Failure::Unreachable), now);
        }
    }
    let settlements = engine.lease_stats(Keeper::Store, START).unconfirmed;
    assert_eq!((settlements.waiting, settlements.lost), (0, 2));
    assert_eq!((settlements.lost_booked_units, settlements.lost_returned_units), (150, 60));
}

#[test]
fn a_settlement_that_cannot_be_kept_changes_nothing_and_can_be_repeated() {
    let (engine, mut authority) = (sharing(CLOSED), Authority::default());
    let reserve = |authority: &mut Authority| reserve_there(&engine, authority, &tokens(1), START);
    let mut reserved = Vec::new();
    for _ in 0..SETTLEMENTS_MAX {
        authority = Authority::default();
        reserved.push(reserve(&mut authority));
    }
    for reserved in &reserved {
        assert_eq!(settle_unheard(&engine, reserved, 2), Ok(true));
    }
    let last = reserve(&mut authority);
    for _ in 0..2 {
        assert_eq!(settle_unheard(&engine, &last, 2), Err(SettleError::Unavailable));
    }
    assert_eq!(engine.reservation_stats().open, 1);
    settle_there(&engine, &mut authority, &last, 2, START);
    assert_eq!(engine.reservation_stats().open, 0);
}

/// So many settlements are kept: see `PursesSettings`.
const SETTLEMENTS_MAX: usize = 1 << 14;

#[test]
fn any_process_of_the_fleet_settles_what_is_shared_and_only_one_does() {
    for (cost, expected) in [(0, 1000), (40, 960), (100, 900), (250, 750)] {
        let (maker, other, third) = (sharing(DAY), sharing(DAY), sharing(DAY));
        for settles in [[&other, &third, &maker], [&maker, &other, &third]] {
            let mut authority = Authority::default();
            let reserved = reserve_there(&maker, &mut authority, &tokens(100), START);
            let before = settles.map(|engine| settle_anywhere(engine, &mut authority, &reserved, cost));
            assert_eq!(before, [false, true, true], "{cost}");
            assert_eq!(left_there(&maker, &mut authority, START), expected, "{cost}");
        }
        assert_eq!(other.reservation_stats().settled_elsewhere, 1);
        assert_eq!(other.reservation_stats().settled, 0);
    }
}

#[test]
fn what_was_spent_of_a_lease_is_settled_by_others_too() {
    let (maker, other, mut authority) = (sharing(LEASED), sharing(LEASED), Authority::default());
    let mut reserved = Vec::new();
    for turn in 0..100_u64 {
        let now = later(Duration::from_millis(turn));
        reserved.push(reserve_there(&maker, &mut authority, &tokens(10), now));
        run_errands(&maker, &mut authority, now);
    }
    let now = later(Duration::from_millis(100));
    while !maker.close_leases(Keeper::Store, now) {}
    run_errands(&maker, &mut authority, now);
    for (at, reserved) in reserved.iter().enumerate() {
        let cost = [0, 3, 10, 14][at % 4];
        assert!(!settle_anywhere(&other, &mut authority, reserved, cost));
        assert!(settle_anywhere(&other, &mut authority, reserved, cost));
    }
    assert_eq!(left_there(&other, &mut authority, now), 100_000 - 25 * (3 + 10 + 14));
}

#[test]
fn what_is_counted_by_one_process_alone_is_settled_there_alone() {
    let rules =
        "policies: {tokens: {requests: 1000, period: 1d, algorithm: fixed_window, consistency: local}}";
    let (maker, other) = (sharing(rules), sharing(rules));
    let reserved = reserve(&maker, 100, START);
    let error = other.settle_reservation(&reserved.reservation, 0, START).unwrap_err();
    assert_eq!(error, SettleError::Unknown);
    assert_eq!(settle(&maker, &reserved, 40, START), (960, 60, 0));
    let (engine, mut authority) = (sharing(DAY), Authority::default());
    let reserved = reserve_there(&engine, &mut authority, &tokens(100), START);
    let stranger = Engine::new(EngineSettings::default()).unwrap().sharing(b"another");
    install(&stranger, DAY, START);
    let error = stranger.settle_reservation(&reserved.reservation, 0, START).unwrap_err();
    assert_eq!(error, SettleError::Unknown);
}
