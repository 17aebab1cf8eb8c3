//! The authority: a counter for each key, decided by `core` at the authority's tick, as the scripts do answer for answer.

use tollgate_core::{Ask, Cost, Decision, LeaseRest, Limit, Outcome, Refund, SharedLimit, Span, State, Time};
use tollgate_store::authority::{Act, Grant, Question};
use tollgate_store::lease::{Counted, PRESENT_FOR};

use super::node::key_index;

/// That a lease came back is remembered for so long after its deadline, in microseconds.
const REMEMBERED: Span = Span::from_ticks(60_000_000);

/// The counters, and the nodes that share them.
pub(super) struct Authority {
    counters: Vec<Counter>,
    /// Who has told that it is there, and when; and since when somebody always was.
    present: Vec<(u64, Time)>,
    present_since: Time,
}

/// The count of one key.
struct Counter {
    state: State,
    /// The leases that came back, and their deadlines.
    returned: Vec<(u64, Time)>,
    /// When it was reset last: what was counted until then does not come back.
    reset_at: Option<Time>,
}

/// What was done besides answering.
#[derive(Clone, Copy, Debug)]
pub(super) enum Done {
    Nothing,
    /// Units of a lease came back.
    Returned {
        lease: u64,
        units: u64,
        effect: Effect,
    },
    /// A grant was undone.
    Undone {
        units: u64,
        effect: Effect,
    },
    /// Units were booked: so many were counted before, and so many after.
    Booked {
        units: u64,
        before: u64,
        after: u64,
    },
    Reset,
}

/// What becomes of units that come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// They come off the count.
    Counts,
    /// The count was reset since they were counted.
    Forgotten,
}

impl Authority {
    pub(super) fn new(limit: &SharedLimit, keys: usize) -> Authority {
        let counter = || Counter { state: limit.limit().fresh(), returned: Vec::new(), reset_at: None };
        Authority {
            counters: (0..keys).map(|_| counter()).collect(),
            present: Vec::new(),
            present_since: Time::default(),
        }
    }

    /// A node tells that it is there, under a name, as it does once in an interval.
    pub(super) fn count(&mut self, name: u64, interval: Span, now: Time) -> Counted {
        let present_for = Span::from_ticks(interval.ticks() * u64::from(PRESENT_FOR));
        self.present.retain(|&(_, told_at)| now.since(told_at) < present_for);
        if self.present.is_empty() {
            self.present_since = now;
        }
        self.present.retain(|&(other, _)| other != name);
        self.present.push((name, now));
        let kept_for = Span::from_ticks(now.since(self.present_since).ticks() * 1_000);
        Counted { nodes: u32::try_from(self.present.len()).unwrap(), kept_for }
    }

    /// Answers a question at a moment of its own time.
    pub(super) fn answer(&mut self, question: &Question, now: Time) -> (Grant, Done) {
        self.counters[key_index(question.key)].answer(question, now)
    }
}

impl Counter {
    fn answer(&mut self, question: &Question, now: Time) -> (Grant, Done) {
        let limit = question.limit.limit();
        let (mut leased, mut done) = (0, Done::Nothing);
        let decision = match question.act {
            Act::Take(cost) => limit.decide(&mut self.state, Ask::take(cost, now)),
            Act::Lease { units, nodes, .. } => {
                let (decision, granted) = limit.lease(&mut self.state, units, nodes.into(), now);
                leased = granted;
                decision
            }
            Act::GiveBack { units, counted_at, undoes } => {
                let effect = self.effect(counted_at);
                if effect == Effect::Counts {
                    limit.give_back(&mut self.state, Refund { units, counted_at, undoes, now });
                }
                done = Done::Undone { units, effect };
                self.look(limit, now)
            }
            Act::Return(rest) => {
                done = self.take_back(limit, rest, now);
                let is_taken = matches!(done, Done::Returned { .. });
                let outcome = if is_taken { Outcome::ALLOWED } else { Outcome::Busy };
                Decision { outcome, ..self.look(limit, now) }
            }
            Act::Book(cost) => {
                let before = limit.used(&self.state, now);
                let decision = limit.decide(&mut self.state, Ask::book(cost, now));
                let after = limit.used(&self.state, now);
                done = Done::Booked { units: cost.units(), before, after };
                decision
            }
            Act::Reset => {
                self.state = limit.fresh();
                self.reset_at = Some(now);
                done = Done::Reset;
                self.look(limit, now)
            }
            Act::Peek(_) | Act::Settle(_) | Act::Once(..) | Act::Release(_) => self.look(limit, now),
        };
        (Grant { decision, at: now, holder: None, leased, is_repeated: false }, done)
    }

    /// What is left of a lease: once, and in time.
    fn take_back(&mut self, limit: &Limit, rest: LeaseRest, now: Time) -> Done {
        self.returned.retain(|&(_, deadline)| deadline.plus(REMEMBERED) >= now);
        let is_new = self.returned.iter().all(|&(number, _)| number != rest.number);
        let takes = now <= rest.deadline && is_new;
        if !takes {
            return Done::Nothing;
        }
        let LeaseRest { units, counted_at, number: lease, deadline } = rest;
        self.returned.push((lease, deadline));
        let effect = self.effect(counted_at);
        if effect == Effect::Counts {
            limit.give_back(&mut self.state, Refund { counted_at, ..Refund::at_once(units, now) });
        }
        Done::Returned { lease, units, effect }
    }

    /// A count that was reset has forgotten what it counted before. The scripts know that of returns alone: what they undo of before is not tried here.
    fn effect(&self, counted_at: Time) -> Effect {
        let is_forgotten = self.reset_at.is_some_and(|reset_at| counted_at <= reset_at);
        if is_forgotten { Effect::Forgotten } else { Effect::Counts }
    }

    fn look(&mut self, limit: &Limit, now: Time) -> Decision {
        limit.decide(&mut self.state, Ask::peek(Cost::ZERO, now))
    }
}
