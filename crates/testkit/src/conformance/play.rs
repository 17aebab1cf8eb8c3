//! A trace being played: what its symbolic steps mean at this moment, under these numbers.

use tollgate_core::{Ask, Cost, Decision, Limit, Refund, Time};

use super::KEYS;
use super::divergence::{Divergence, Event, Happening};
use crate::oracle::Oracle;
use crate::spec::Spec;
use crate::subject::Subject;
use crate::trace::{Act, Gap, Step, Trace, Units};

pub(super) struct Play<'a> {
    spec: &'a Spec,
    limit: Limit,
    now: u64,
    end: u64,
    /// The reset that the last answer announced.
    reset_at: u64,
    keys: [Key; KEYS.len()],
    events: Vec<Event>,
}

/// What is known of one key.
struct Key {
    oracle: Oracle,
    remaining: u64,
    /// The moment that the last denial promised.
    promised_at: u64,
    asked_at: Vec<u64>,
}

impl<'a> Play<'a> {
    pub(super) fn new(spec: &'a Spec, trace: &Trace) -> Play<'a> {
        let key = |_| Key { oracle: spec.oracle(), remaining: 0, promised_at: 0, asked_at: Vec::new() };
        let (now, end) = (trace.start.ticks(), trace.end.ticks());
        let keys = std::array::from_fn(key);
        Play { spec, limit: spec.limit(), now, end, reset_at: now, keys, events: Vec::new() }
    }

    pub(super) fn step(&mut self, step: Step, subject: &mut impl Subject) -> Result<(), Box<Divergence>> {
        self.now = self.after(step.gap, step.key).clamp(self.now, self.end);
        match step.act {
            Act::Ask(units, intent) => {
                let cost = Cost::new(self.units(units, step.key));
                self.ask(step.key, Ask { cost, now: Time::from_ticks(self.now), intent }, subject)?;
            }
            Act::GiveBack(units, ago) => {
                let units = self.units(units, step.key);
                let asked_at = &self.keys[step.key].asked_at;
                let counted_at = asked_at.iter().rev().nth(ago).copied().unwrap_or(self.now);
                let refund = Refund {
                    units,
                    counted_at: Time::from_ticks(counted_at),
                    undoes: false,
                    now: Time::from_ticks(self.now),
                };
                self.give_back(step.key, refund, subject);
            }
        }
        self.compare_used(step.key, subject)
    }

    /// The moment at which `gap` ends.
    fn after(&self, gap: Gap, key: usize) -> u64 {
        let beat = self.spec.beat();
        let nudged = |moment: u64, nudge: i8| moment.saturating_add_signed(i64::from(nudge));
        match gap {
            Gap::Still => self.now,
            Gap::Ticks(ticks) => self.now + ticks,
            Gap::Beat(parts) => {
                let ticks = u128::from(beat) * u128::from(parts) / 64;
                self.now.saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX))
            }
            Gap::Edge(nudge) => nudged((self.now / beat + 1) * beat, nudge),
            Gap::Reset(nudge) => nudged(self.reset_at, nudge),
            Gap::Promise(nudge) => nudged(self.keys[key].promised_at, nudge),
            Gap::Idle(more) => self.now.saturating_add(self.spec.memory()).saturating_add(more),
        }
    }

    fn units(&self, units: Units, key: usize) -> u64 {
        let most = self.spec.cost_max();
        match units {
            Units::Plain(units) => units,
            Units::Share(parts) => {
                u64::try_from((u128::from(most) * u128::from(parts)).div_ceil(64)).unwrap_or(u64::MAX)
            }
            Units::All(more) => most.saturating_add(more),
            Units::Remaining(more) => self.keys[key].remaining.saturating_add(more),
            Units::Max => u64::MAX,
        }
    }

    fn ask(&mut self, key: usize, ask: Ask, subject: &mut impl Subject) -> Result<(), Box<Divergence>> {
        let known = &mut self.keys[key];
        let expected = known.oracle.decide(ask);
        let got = subject.decide(KEYS[key], &self.limit, ask);
        self.events.push(Event { key: KEYS[key], happening: Happening::Asked(ask, expected) });
        if got != expected {
            return Err(self.diverged(describe(&expected), describe(&got)).into());
        }
        known.remaining = expected.remaining;
        known.asked_at.push(self.now);
        if let Some(retry_after) = expected.retry_after() {
            known.promised_at = self.now.saturating_add(retry_after.ticks());
        }
        if let Some(reset_after) = expected.reset_after {
            self.reset_at = self.now.saturating_add(reset_after.ticks());
        }
        Ok(())
    }

    fn give_back(&mut self, key: usize, refund: Refund, subject: &mut impl Subject) {
        self.events.push(Event { key: KEYS[key], happening: Happening::GaveBack(refund) });
        self.keys[key].oracle.give_back(refund);
        subject.give_back(KEYS[key], &self.limit, refund);
    }

    fn compare_used(&mut self, key: usize, subject: &mut impl Subject) -> Result<(), Box<Divergence>> {
        let now = Time::from_ticks(self.now);
        let expected = self.keys[key].oracle.used(now);
        match subject.used(KEYS[key], &self.limit, now) {
            Some(got) if got != expected => {
                Err(self.diverged(format!("used {expected}"), format!("used {got}")).into())
            }
            _ => Ok(()),
        }
    }

    fn diverged(&self, expected: String, got: String) -> Divergence {
        Divergence { spec: self.spec.clone(), events: self.events.clone(), expected, got }
    }
}

fn describe(decision: &Decision) -> String {
    format!("{decision:?}")
}
