//! Reservations against a naive model: whatever is reserved, settled or left to expire, every algorithm stands as its oracle does that is told of
//! each taking, giving back and booking by itself.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{START, install};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use tollgate::core::{Ask, CalendarUnit, Cost, OldestCounts, Refund, Span, Tick, Time};
use tollgate::policy::Allowance;
use tollgate::{
    Engine, EngineSettings, LedgerSettings, Request, ReservationSettings, Reserved, SettleError, Settlement,
};
use tollgate_testkit::{Oracle, Spec};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

/// Policies with their rules, and the numbers that these mean.
fn policies() -> Vec<(&'static str, &'static str, Spec)> {
    let (units, period_ticks) = (60, MINUTE);
    let oldest = OldestCounts::Whole;
    vec![
        ("bucket", "burst: 50", Spec::TokenBucket { units, period_ticks, burst: 50 }),
        ("leaky", "burst: 40, algorithm: leaky_bucket", Spec::LeakyBucket { units, period_ticks, size: 40 }),
        (
            "queue",
            "max_wait: 30s, algorithm: leaky_bucket",
            Spec::LeakyQueue { units, period_ticks, max_wait_ticks: 30 * SECOND },
        ),
        ("fixed", "algorithm: fixed_window", Spec::FixedWindow { units, period_ticks }),
        ("sliding", "algorithm: sliding_window", Spec::SlidingWindow { units, period_ticks }),
        ("parts", "sub_windows: 6", Spec::SubWindows { units, period_ticks, count: 6, oldest }),
        ("log", "algorithm: sliding_log", Spec::SlidingLog { units, period_ticks }),
    ]
}

fn rules() -> String {
    let rule =
        |(name, more, _): &(&str, &str, Spec)| format!("  {name}: {{requests: 60, period: 1m, {more}}}\n");
    let all: String = policies().iter().map(rule).collect();
    format!("policies:\n{all}  day: {{requests: 60, calendar: day}}\n")
}

fn specs() -> Vec<(&'static str, Spec)> {
    let day = Spec::CalendarWindow {
        units: 60,
        unit: CalendarUnit::Day,
        zone: "UTC",
        anchor_day: 1,
        tick: Tick::NANOSECOND,
    };
    policies().into_iter().map(|(name, _, spec)| (name, spec)).chain([("day", day)]).collect()
}

/// At most so many reservations are open in the test.
const OPEN_MAX: usize = 4;

fn engine() -> Engine {
    let reservations = ReservationSettings {
        open_max: OPEN_MAX,
        key_parts: 1,
        tenant_parts: 1,
        ..ReservationSettings::default()
    };
    let ledger = LedgerSettings::with_cap(8 << 20);
    let engine = Engine::new(EngineSettings { ledger, reservations, ..EngineSettings::default() }).unwrap();
    install(&engine, &rules(), START);
    engine
}

#[test]
fn the_rules_mean_these_numbers() {
    let engine = engine();
    let snapshot = engine.snapshot().unwrap();
    for (name, spec) in specs() {
        let place = snapshot.place(snapshot.policy(name).unwrap());
        let Allowance::Quota(quota) = place.limits()[0].allowance(None) else { panic!("{name}") };
        assert_eq!(quota.limit, spec.limit(), "{name}");
    }
}

/// What somebody does.
#[derive(Clone, Debug)]
enum Step {
    Reserve {
        cost: u64,
        life_s: u64,
    },
    /// One of all that were ever made.
    Settle {
        which: Index,
        cost: u64,
    },
    Take {
        cost: u64,
    },
    Wait {
        ms: u64,
    },
    Tend,
}

/// The largest cost of a check.
const TAKE_MAX: u64 = 19;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..30_u64, 1..200_u64).prop_map(|(cost, life_s)| Step::Reserve { cost, life_s }),
        4 => (any::<Index>(), 0..60_u64).prop_map(|(which, cost)| Step::Settle { which, cost }),
        1 => (0..=TAKE_MAX).prop_map(|cost| Step::Take { cost }),
        3 => prop_oneof![0..2_000_u64, 0..90_000_u64].prop_map(|ms| Step::Wait { ms }),
        1 => Just(Step::Tend),
    ]
}

/// Steps of a client that saves up reservations, settles them for little and spends the refunds.
fn saving_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (10..30_u64, 100..200_u64).prop_map(|(cost, life_s)| Step::Reserve { cost, life_s }),
        3 => (any::<Index>(), 0..3_u64).prop_map(|(which, cost)| Step::Settle { which, cost }),
        6 => (0..=TAKE_MAX).prop_map(|cost| Step::Take { cost }),
        2 => (0..60_000_u64).prop_map(|ms| Step::Wait { ms }),
    ]
}

/// A reservation as the model knows it.
struct Made {
    reserved: Reserved,
    cost: u64,
    at: Time,
    is_settled: bool,
}

struct Play<'a> {
    engine: &'a Engine,
    policy: &'a str,
    oracle: Oracle,
    now: Time,
    made: Vec<Made>,
    expired_seen: u64,
    /// Units that checks have taken.
    taken: u64,
}

impl<'a> Play<'a> {
    fn new(engine: &'a Engine, policy: &'a str, spec: &Spec) -> Play<'a> {
        let (oracle, now) = (spec.oracle(), START);
        Play { engine, policy, oracle, now, made: Vec::new(), expired_seen: 0, taken: 0 }
    }

    fn request(&self, cost: u64) -> Request<'_> {
        Request::policy(self.policy, b"key").cost(cost)
    }

    /// Those that take up room: whoever expires does so until somebody looks.
    fn open(&self) -> usize {
        self.engine.reservation_stats().open
    }

    /// The units of reservations that can still be settled.
    fn reserved_units(&self) -> u64 {
        let open = self.made.iter().filter(|made| !made.is_settled && made.reserved.expires_at > self.now);
        open.map(|made| made.cost).sum()
    }

    fn play(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Wait { ms } => self.now = now.plus(Span::from_ticks(ms * 1_000_000)),
            Step::Take { cost } => {
                let passes = self.engine.decide(&self.request(cost), now).unwrap().allowed();
                self.taken += if passes { cost } else { 0 };
                assert_eq!(passes, self.oracle.decide(Ask::take(Cost::new(cost), now)).is_allowed());
            }
            Step::Reserve { cost, life_s } => {
                let life = Span::from_ticks(life_s * SECOND);
                // An estimate of nothing needs no place.
                let is_full = self.open() >= OPEN_MAX && cost > 0;
                let answer = self.engine.reserve(&self.request(cost), life, now);
                let Ok((verdict, reserved)) = answer else { return assert!(is_full) };
                assert!(!is_full);
                let passes = self.oracle.decide(Ask::take(Cost::new(cost), now)).is_allowed();
                assert_eq!((verdict.allowed(), reserved.is_some()), (passes, passes));
                let made = reserved.map(|reserved| Made { reserved, cost, at: now, is_settled: false });
                self.made.extend(made);
            }
            Step::Settle { which, cost } if !self.made.is_empty() => self.settle(which, cost),
            Step::Settle { .. } => {}
            Step::Tend => {
                self.engine.tend(now);
                let is_over =
                    |made: &&Made| made.cost > 0 && !made.is_settled && made.reserved.expires_at <= now;
                self.expired_seen = self.made.iter().filter(is_over).count() as u64;
                assert_eq!(self.engine.reservation_stats().expired, self.expired_seen);
            }
        }
    }

    fn settle(&mut self, which: Index, cost: u64) {
        let (now, which) = (self.now, which.index(self.made.len()));
        let made = &mut self.made[which];
        let expected = match made {
            _ if made.reserved.expires_at <= now => Err(SettleError::Expired),
            // Nothing was taken, so no limit is charged, however often it is settled.
            Made { cost: 0, .. } => Ok((0, 0)),
            Made { is_settled: true, .. } => Err(SettleError::Settled),
            Made { cost: reserved, .. } => {
                Ok((reserved.saturating_sub(cost), cost.saturating_sub(*reserved)))
            }
        };
        let settled = self.engine.settle_reservation(&made.reserved.reservation, cost, now);
        let units = settled.map(|(_, Settlement { returned, booked, .. })| (returned, booked));
        assert_eq!(units, expected);
        let Ok((returned, booked)) = expected else { return };
        made.is_settled = true;
        let counted_at = made.at;
        if returned > 0 {
            self.oracle.give_back(Refund { counted_at, ..Refund::at_once(returned, now) });
        }
        if booked > 0 {
            self.oracle.decide(Ask::book(Cost::new(booked), now));
        }
    }

    fn check(&mut self, step: &Step) {
        let verdict = self.engine.decide(&self.request(0).peek(), self.now).unwrap();
        let expected = self.oracle.decide(Ask::peek(Cost::ZERO, self.now));
        assert_eq!(verdict.rulings()[0].decision, expected, "{} after {step:?}", self.policy);
    }
}

/// The most that an algorithm without windows admits in an interval (60 units a minute).
fn units_max(spec: &Spec) -> Option<fn(Span) -> u64> {
    match spec {
        Spec::TokenBucket { .. } => Some(|length| 50 + length.ticks() / SECOND),
        Spec::LeakyBucket { .. } => Some(|length| 40 + length.ticks() / SECOND),
        // The last request of a queue waits for 30 s at most, whatever its cost.
        Spec::LeakyQueue { .. } => Some(|length| 30 + TAKE_MAX + length.ticks() / SECOND),
        Spec::SlidingLog { .. } => Some(|length| 60 * (1 + length.ticks() / MINUTE)),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_algorithm_stands_as_its_oracle(steps in vec(step(), 1..60)) {
        for (policy, spec) in specs() {
            let engine = engine();
            let mut play = Play::new(&engine, policy, &spec);
            for step in &steps {
                play.play(step);
                play.check(step);
            }
        }
    }

    /// A refund frees units at once even if they have come back by themselves. So checks may take
    /// what was reserved and open when an interval began, on top of the bound of the algorithm.
    #[test]
    fn checks_take_no_more_than_the_bound_and_the_open_reservations(steps in vec(saving_step(), 1..60)) {
        for (policy, spec) in specs() {
            let Some(bound) = units_max(&spec) else { continue };
            let engine = engine();
            let mut play = Play::new(&engine, policy, &spec);
            let mut starts = Vec::new();
            for step in &steps {
                starts.push((play.now, play.taken, play.reserved_units()));
                play.play(step);
                for &(start, before, open) in &starts {
                    let (taken, most) = (play.taken - before, bound(play.now.since(start)) + open);
                    assert!(taken <= most, "{policy}: {taken} of {most}");
                }
            }
        }
    }
}
