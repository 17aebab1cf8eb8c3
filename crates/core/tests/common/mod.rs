//! States with a past, and the questions that tell two states apart.
#![allow(dead_code)] // Every test file uses its own part of this.

use tollgate_core::{Ask, Cost, Decision, Intent, Limit, Outcome, Rate, Refund, Span, State, Time};
use tollgate_testkit::{Act, Gap, Spec, Trace, Units};

pub(crate) fn at(ticks: u64) -> Time {
    Time::from_ticks(ticks)
}

pub(crate) fn plus(now: Time, ticks: u64) -> Time {
    at(now.ticks().saturating_add(ticks))
}

pub(crate) fn rate(units: u64, period_ticks: u64) -> Rate {
    Rate::new(units, Span::from_ticks(period_ticks)).unwrap()
}

/// A key to which `trace` happened, and the moment after it.
pub(crate) fn lived(limit: &Limit, spec: &Spec, trace: &Trace) -> (State, Time) {
    lived_until(limit, spec, trace, Time::MAX)
}

/// A key to which as much of `trace` happened as fits before `end`, and the moment after it.
pub(crate) fn lived_until(limit: &Limit, spec: &Spec, trace: &Trace, end: Time) -> (State, Time) {
    let mut state = limit.fresh();
    let mut now = trace.start.min(end);
    for step in &trace.steps {
        let gap = match step.gap {
            Gap::Still | Gap::Reset(_) | Gap::Promise(_) => 0,
            Gap::Ticks(ticks) => ticks,
            Gap::Beat(parts) => (spec.beat() / 64).saturating_mul(parts),
            Gap::Edge(_) => spec.beat() - now.ticks() % spec.beat(),
            Gap::Idle(more) => spec.memory().saturating_add(more),
        };
        now = plus(now, gap).min(end);
        let units = |units| match units {
            Units::Plain(units) => units,
            Units::Share(parts) => (spec.cost_max() / 64).saturating_mul(parts),
            Units::All(more) | Units::Remaining(more) => spec.cost_max().saturating_add(more),
            Units::Max => u64::MAX,
        };
        match step.act {
            Act::Ask(cost, intent) => {
                limit.decide(&mut state, Ask { cost: Cost::new(units(cost)), now, intent });
            }
            Act::GiveBack(back, _) => limit.give_back(&mut state, Refund::at_once(units(back), now)),
        }
    }
    (state, now)
}

/// What a state answers to questions that would bring out any difference.
pub(crate) fn answers(limit: &Limit, state: &State, spec: &Spec, now: Time) -> Vec<Decision> {
    let most = spec.cost_max();
    let costs = [0, 1, 2, most / 2, most.saturating_sub(1), most, most.saturating_add(1), u64::MAX];
    let asked = |cost, intent| limit.decide(&mut state.clone(), Ask { cost: Cost::new(cost), now, intent });
    costs
        .into_iter()
        .flat_map(|cost| [Intent::Take, Intent::Book].map(|intent| asked(cost, intent)))
        .collect()
}

/// Takes single units until one is denied, and says how many were not.
pub(crate) fn take_one_by_one(limit: &Limit, state: &mut State, now: Time) -> u64 {
    let mut taken = 0;
    while limit.decide(state, Ask::take(Cost::ONE, now)).is_allowed() {
        taken += 1;
        assert!(taken <= 1 << 20, "there is no end to it");
    }
    taken
}

/// Takes `units` at once, and says whether they were admitted.
pub(crate) fn take(limit: &Limit, state: &mut State, units: u64, now: u64) -> bool {
    limit.decide(state, Ask::take(Cost::new(units), at(now))).is_allowed()
}

/// The promise of a denial in ticks; none if there was no denial.
pub(crate) fn promise(limit: &Limit, state: &mut State, units: u64, now: u64) -> Option<u64> {
    match limit.decide(state, Ask::take(Cost::new(units), at(now))).outcome {
        Outcome::NotNow { retry_after } => Some(retry_after.ticks()),
        _ => None,
    }
}
