//! An authority in memory: what a script would answer, by `core` at the same tick.

use std::collections::{HashMap, HashSet};

use tollgate::authority::{Act, Directed, Failure, Grant, OnceAct, OnceId, Question, SharedKey};
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
    /// What was counted under the ids of requests.
    ids: HashMap<(SharedKey, u64), Known>,
    /// How many questions it was asked.
    pub(crate) asked: usize,
}

/// What was counted under an id: for which request, for how many, and when.
struct Known {
    fingerprint: u64,
    users: u32,
    counted_at: Time,
    is_allowed: bool,
}

impl Authority {
    /// How many ids are remembered.
    pub(crate) fn ids(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn ask(&mut self, questions: &[Directed], now: Time) -> Vec<Result<Grant, Failure>> {
        questions.iter().map(|(question, _)| Ok(self.answer(question, now))).collect()
    }

    fn answer(&mut self, question: &Question, now: Time) -> Grant {
        self.asked += 1;
        if let Act::Once(id, act) = question.act {
            return self.answer_once(question, (id, act), now);
        }
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
            Act::Once(..) => unreachable!("it is answered elsewhere"),
        };
        Grant { decision: in_nanoseconds(decision, tick_ns), at, holder, leased, is_repeated: false }
    }
}

impl Authority {
    fn answer_once(&mut self, question: &Question, (id, act): (OnceId, OnceAct), now: Time) -> Grant {
        let place = (question.key, id.number);
        let look = Act::Peek(Cost::ZERO);
        let counted_at = question.limit.moment(now);
        let Some(known) = self.ids.get_mut(&place) else {
            let (act, is_fact) = match act {
                OnceAct::Take(cost) => (Act::Take(cost), false),
                OnceAct::Book(cost) => (Act::Book(cost), true),
                OnceAct::GiveBack { units, counted_at } => {
                    (Act::GiveBack { units, counted_at, undoes: false }, true)
                }
                OnceAct::Undo { .. } => (look, false),
            };
            let is_undo = matches!(act, Act::Peek(_));
            let grant = self.answer(&Question { act, ..question.clone() }, now);
            let is_allowed = grant.decision.is_allowed();
            if (is_allowed || is_fact) && !is_undo {
                let known = Known { fingerprint: id.fingerprint, users: 1, counted_at, is_allowed };
                self.ids.insert(place, known);
            }
            return grant;
        };
        let allowed = |grant: Grant, outcome| Grant {
            is_repeated: true,
            decision: Decision { outcome, ..grant.decision },
            ..grant
        };
        if known.fingerprint != id.fingerprint {
            return allowed(self.answer(&Question { act: look, ..question.clone() }, now), Outcome::Busy);
        }
        if let OnceAct::Undo { units, undoes } = act {
            known.users -= 1;
            let counted_at = known.counted_at;
            let is_last = known.users == 0;
            let act = if is_last { Act::GiveBack { units, counted_at, undoes } } else { look };
            if is_last {
                self.ids.remove(&place);
            }
            return self.answer(&Question { act, ..question.clone() }, now);
        }
        known.users += 1;
        let is_allowed = known.is_allowed;
        let grant = self.answer(&Question { act: look, ..question.clone() }, now);
        let outcome = if is_allowed { Outcome::ALLOWED } else { grant.decision.outcome };
        allowed(grant, outcome)
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
    match engine.begin(request, now)? {
        Step::Ready(verdict) => Ok(verdict),
        Step::Pending(pending) => {
            let grants = authority.ask(pending.questions(), now);
            let Resumed { verdict, error, tell, .. } = engine.resume(pending, &grants, now);
            authority.ask(&tell, now);
            error.map_or(Ok(verdict), Err)
        }
    }
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
