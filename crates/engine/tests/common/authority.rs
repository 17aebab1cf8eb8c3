//! An authority in memory: what a script would answer, by `core` at the same tick.

use std::collections::{HashMap, HashSet};

use tollgate::authority::{Act, Directed, Failure, Grant, Question, SharedKey};
use tollgate::core::{
    Ask, Cost, Decision, Holder, LeaseRest, Limit, Outcome, Refund, SettleChange, SettleOnce, Span, State,
    Time,
};
use tollgate::{Engine, Lease, Pending, Request, RequestError, Resumed, Step, Verdict};

#[derive(Default)]
pub(crate) struct Authority {
    states: HashMap<SharedKey, State>,
    /// What came back.
    returned: HashSet<(SharedKey, u64)>,
    /// The settlement that counted, by reservation.
    settled: HashMap<(SharedKey, u64), u64>,
    /// How many questions it was asked.
    pub(crate) asked: usize,
}

impl Authority {
    pub(crate) fn ask(&mut self, questions: &[Directed], now: Time) -> Vec<Result<Grant, Failure>> {
        questions.iter().map(|(question, _)| Ok(self.answer(question, now))).collect()
    }

    fn answer(&mut self, question: &Question, now: Time) -> Grant {
        self.asked += 1;
        let Question { key, limit, act, .. } = question;
        let at = limit.moment(now);
        let tick_ns = limit.tick().length_ns();
        let limit = limit.limit();
        let state = self.states.entry(*key).or_insert_with(|| limit.fresh());
        let ask = |state: &mut State, ask: Ask| match (limit, state) {
            (Limit::Concurrency(limit), State::Concurrency(holders)) if ask == Ask::take(ask.cost, at) => {
                limit.acquire(holders, ask.cost, at)
            }
            (_, state) => (limit.decide(state, ask), None),
        };
        let mut leased = 0;
        let (decision, holder) = match *act {
            Act::Peek(cost) => ask(state, Ask::peek(cost, at)),
            Act::Take(cost) => ask(state, Ask::take(cost, at)),
            Act::Book(cost) => ask(state, Ask::book(cost, at)),
            Act::GiveBack { units, counted_at, undoes } => {
                limit.give_back(state, Refund { units, counted_at, undoes, now: at });
                ask(state, Ask::peek(Cost::ZERO, at))
            }
            Act::Release(holder) => (release(limit, state, holder, at), None),
            Act::Reset => {
                *state = limit.fresh();
                ask(state, Ask::peek(Cost::ZERO, at))
            }
            Act::Lease { units, nodes, .. } => {
                let (decision, units) = limit.lease(state, units, nodes.into(), at);
                leased = units;
                (decision, None)
            }
            // What has a number counts once, and in time.
            Act::Return(LeaseRest { deadline, number, .. })
                if at > deadline || !self.returned.insert((*key, number)) =>
            {
                let decision = limit.decide(state, Ask::peek(Cost::ZERO, at));
                (Decision { outcome: Outcome::Busy, ..decision }, None)
            }
            Act::Return(LeaseRest { units, counted_at, .. }) => {
                limit.give_back(state, Refund { counted_at, ..Refund::at_once(units, at) });
                let decision = limit.decide(state, Ask::peek(Cost::ZERO, at));
                (Decision { outcome: Outcome::ALLOWED, ..decision }, None)
            }
            Act::Settle(settle) => {
                let end = match self.settled.get(&(*key, settle.number)) {
                    None if at <= settle.deadline => Settling::First,
                    Some(&sender) if sender == settle.sender => Settling::Repeated,
                    _ => Settling::Other,
                };
                self.settled.entry((*key, settle.number)).or_insert(settle.sender);
                (settle_once(limit, state, settle, end, at), None)
            }
        };
        Grant { decision: in_nanoseconds(decision, tick_ns), at, holder, leased }
    }
}

/// The first settlement counts. Its sender may repeat it; another is refused.
fn settle_once(limit: &Limit, state: &mut State, settle: SettleOnce, end: Settling, at: Time) -> Decision {
    match (end, settle.change) {
        (Settling::First, SettleChange::Book(units)) => {
            return limit.decide(state, Ask::book(Cost::new(units), at));
        }
        (Settling::First, SettleChange::Return(units)) => {
            let refund = Refund { counted_at: settle.counted_at, ..Refund::at_once(units, at) };
            limit.give_back(state, refund);
        }
        (Settling::Repeated | Settling::Other, _) => {}
    }
    let outcome = if end == Settling::Other { Outcome::Busy } else { Outcome::ALLOWED };
    Decision { outcome, ..limit.decide(state, Ask::peek(Cost::ZERO, at)) }
}

#[derive(Clone, Copy, PartialEq)]
enum Settling {
    First,
    Repeated,
    Other,
}

fn release(limit: &Limit, state: &mut State, holder: Holder, at: Time) -> Decision {
    let mut decision = limit.decide(state, Ask::peek(Cost::ZERO, at));
    if let (Limit::Concurrency(limit), State::Concurrency(holders)) = (limit, state)
        && !limit.release(holders, holder, at)
    {
        decision.outcome = Outcome::Busy;
    }
    decision
}

fn in_nanoseconds(decision: Decision, tick_ns: u64) -> Decision {
    let span = |span: Span| Span::from_ticks(span.ticks() * tick_ns);
    let outcome = match decision.outcome {
        Outcome::Allowed { wait } => Outcome::Allowed { wait: span(wait) },
        Outcome::NotNow { retry_after } => Outcome::NotNow { retry_after: span(retry_after) },
        other => other,
    };
    Decision { outcome, reset_after: decision.reset_after.map(span), ..decision }
}

/// Decides a request with the help of an authority that always answers.
pub(crate) fn decide(
    engine: &Engine,
    authority: &mut Authority,
    request: &Request<'_>,
    now: Time,
) -> Result<Verdict, RequestError> {
    Ok(match engine.begin(request, now)? {
        Step::Ready(verdict) => verdict,
        Step::Pending(pending) => resume(engine, authority, pending, now).0,
    })
}

pub(crate) fn acquire(
    engine: &Engine,
    authority: &mut Authority,
    request: &Request<'_>,
    now: Time,
) -> (Verdict, Option<Lease>) {
    match engine.begin_hold(request, now).unwrap() {
        (Step::Ready(verdict), lease) => (verdict, lease),
        (Step::Pending(pending), _) => resume(engine, authority, pending, now),
    }
}

fn resume(
    engine: &Engine,
    authority: &mut Authority,
    pending: Pending,
    now: Time,
) -> (Verdict, Option<Lease>) {
    let grants = authority.ask(pending.questions(), now);
    let Resumed { verdict, lease, tell, .. } = engine.resume(pending, &grants, now);
    authority.ask(&tell, now);
    (verdict, lease)
}
