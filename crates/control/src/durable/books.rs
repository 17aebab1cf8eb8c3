//! What questions make of counters: a pure function, without a database.
//!
//! What some questions need to know is read for all of them first; then this answers them, one after the other, with `core` itself; then what has
//! changed is written. So an answer is the one that the same question would have got in a transaction of its own.

mod once;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tollgate_core::{
    Ask, Cost, Count, Decision, LeaseRest, Limit, Outcome, Refund, SettleChange, SettleOnce, SharedLimit,
    Span, State, Time,
};
use tollgate_store::authority::{Account, Act, Failure, Grant, Question, SharedKey};

use super::Answer;
pub(super) use once::KnownId;

/// The longest name of a subject or a rule. What is longer is cut off: names made from keys of requests have any length.
pub(super) const NAME_BYTES_MAX: usize = 512;

/// A counter whose window begins so much later than now was written by a clock that was ahead. Less is how clocks differ.
const AHEAD_MAX_US: u64 = 60_000_000;
/// What shorter windows had counted is not kept: it matters no longer than they last.
const PAST_WINDOW_MIN_US: u64 = 3_600_000_000;

/// What is there, as far as some questions need to know, at one moment.
#[derive(Debug)]
pub(super) struct Books {
    now_us: u64,
    counters: HashMap<SharedKey, Counter>,
    leases: HashMap<(SharedKey, u64), Lease>,
    /// What windows had counted that counters have left, as far as it is known.
    past: HashMap<(SharedKey, Time), Past>,
    /// Which reservations are settled, as far as it is asked for.
    settlements: HashMap<(SharedKey, u64), FirstSettlement>,
    /// Which ids of requests are remembered, as far as it is asked for.
    ids: HashMap<(SharedKey, u64), KnownId>,
    usage: BTreeMap<Page, Usage>,
}

/// What one window of a key has counted.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    pub(super) state: State,
    /// The length of its ticks. Moments of another length would mean something else.
    pub(super) tick_us: u64,
    /// When its window ends, once something was counted in it.
    pub(super) over_at_us: u64,
    pub(super) account: Option<Arc<Account>>,
    has_changed: bool,
}

/// What a window had counted when its counter went on to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) tick_us: u64,
    pub(super) units: u64,
    pub(super) over_at_us: u64,
    is_new: bool,
}

/// The settlement of a reservation that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FirstSettlement {
    pub(super) sender: u64,
    pub(super) deadline_us: u64,
    is_new: bool,
}

/// Units that are out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) units: u64,
    pub(super) counted_at_us: u64,
    pub(super) deadline_us: u64,
}

/// Whose usage, on which day, under which rule: in the order in which rows are locked.
pub(super) type Page = (Box<str>, u64, Box<str>);

/// What is added to a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) counted: u64,
    pub(super) given_back: u64,
}

/// A question at a moment, in the ticks of its limit.
struct Asked<'a> {
    question: &'a Question,
    limit: &'a SharedLimit,
    at: Time,
    /// When what is booked was spent: now, or earlier if it could not be told then.
    spent_at: Time,
    /// By the clock of the key.
    key_at: Time,
}

/// Whether this is kept here at all: windows that begin anew. Nothing else is a quota per day or month.
pub(super) fn is_kept(question: &Question) -> bool {
    matches!(question.limit.limit(), Limit::FixedWindow(_)) && !matches!(question.act, Act::Release(_))
}

/// A text as both databases can keep it: PostgreSQL knows no zero in one, and a key of a table may not be of any length.
pub(super) fn text(text: &str) -> Box<str> {
    let end = text.floor_char_boundary(NAME_BYTES_MAX);
    text[..end].replace('\0', "\u{fffd}").into()
}

/// What jitter goes by: the same everywhere.
#[allow(clippy::cast_possible_truncation)] // One half is enough.
pub(super) fn hash(key: SharedKey) -> u64 {
    key.0 as u64
}

impl Books {
    pub(super) fn new(now_us: u64) -> Books {
        let (counters, leases) = (HashMap::new(), HashMap::new());
        let (past, settlements) = (HashMap::new(), HashMap::new());
        let (ids, usage) = (HashMap::new(), BTreeMap::new());
        Books { now_us, counters, leases, past, settlements, ids, usage }
    }

    pub(super) fn put_counter(&mut self, key: SharedKey, tick_us: u64, count: Count) {
        self.counters.insert(key, Counter::new(tick_us, count));
    }

    pub(super) fn put_past(&mut self, key: SharedKey, tick_us: u64, count: Count) {
        let past = Past { tick_us, units: count.units(), over_at_us: 0, is_new: false };
        self.past.insert((key, count.window_start()), past);
    }

    /// What counters have left, and has to be written.
    pub(super) fn new_past(&self) -> impl Iterator<Item = (SharedKey, Time, &Past)> {
        let all = self.past.iter().map(|((key, start), past)| (*key, *start, past));
        all.filter(|(_, _, past)| past.is_new)
    }

    pub(super) fn put_settlement(&mut self, key: SharedKey, number: u64, sender: u64) {
        let settlement = FirstSettlement { sender, deadline_us: 0, is_new: false };
        self.settlements.insert((key, number), settlement);
    }

    /// Those that have to be written.
    pub(super) fn new_settlements(&self) -> impl Iterator<Item = (SharedKey, u64, &FirstSettlement)> {
        let all = self.settlements.iter().map(|((key, number), settlement)| (*key, *number, settlement));
        all.filter(|(_, _, settlement)| settlement.is_new)
    }

    /// The keys whose counters are of another window than the one that it is now, which may have been counted in before: the clock was wrong meanwhile.
    pub(super) fn out_of_window<'q>(
        &self,
        questions: impl IntoIterator<Item = &'q Question>,
    ) -> BTreeSet<SharedKey> {
        let is_out = |question: &&Question| {
            let count = self.counters.get(&question.key).map(Counter::count).unwrap_or_default();
            let start = self.asked(question, self.now_us).window_start();
            is_kept(question) && count.window_start() != start
        };
        questions.into_iter().filter(is_out).map(|question| question.key).collect()
    }

    pub(super) fn put_lease(&mut self, key: SharedKey, number: u64, lease: Lease) {
        self.leases.insert((key, number), lease);
    }

    pub(super) fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Those that have to be written.
    pub(super) fn changed(&self) -> impl Iterator<Item = (SharedKey, &Counter)> {
        let all = self.counters.iter().map(|(key, counter)| (*key, counter));
        all.filter(|(_, counter)| counter.has_changed)
    }

    /// Those that are out now, of all that were put here or granted.
    pub(super) fn leases(&self) -> impl Iterator<Item = (SharedKey, u64, &Lease)> {
        self.leases.iter().map(|((key, number), lease)| (*key, *number, lease))
    }

    pub(super) fn usage(&self) -> &BTreeMap<Page, Usage> {
        &self.usage
    }

    /// Answers, and remembers what that changes.
    pub(super) fn answer(&mut self, question: &Question) -> Answer {
        self.answer_late(question, self.now_us)
    }

    /// As [`Books::answer`], for something that happened at an earlier moment. A cost counts on the day on which it was spent; a window
    /// that is over by now does not count it any more.
    pub(super) fn answer_late(&mut self, question: &Question, since_us: u64) -> Answer {
        if !is_kept(question) {
            return Err(Failure::Refused);
        }
        let (limit, asked) = (&*question.limit, self.asked(question, since_us));
        let fresh = || Counter::new(limit.tick().length_us(), Count::default());
        let mut counter = self.counters.get(&question.key).cloned().unwrap_or_else(fresh);
        if counter.tick_us != limit.tick().length_us() {
            return Err(Failure::Refused);
        }
        self.enter_window(&asked, &mut counter);
        let before = counter.state.clone();
        let grant = self.act(&asked, &mut counter.state, question.act)?;
        if counter.state != before {
            counter.has_changed = true;
            counter.over_at_us = asked.over_at_us(&counter.state);
            if question.act != Act::Reset {
                self.leave(&asked, &before, &counter.state);
            }
        }
        counter.account = question.account.clone().or(counter.account);
        if !asked.is_peek() {
            self.counters.insert(question.key, counter);
        }
        Ok(grant)
    }

    /// A question at this moment.
    fn asked<'q>(&self, question: &'q Question, since_us: u64) -> Asked<'q> {
        let limit = &*question.limit;
        let [at, spent_at] = [self.now_us, since_us.min(self.now_us)]
            .map(|us| Time::from_ticks(us / limit.tick().length_us()));
        let key_at = limit.limit().key_time(hash(question.key), at);
        Asked { question, limit, at, spent_at, key_at }
    }

    /// Where the clock was wrong, and is set right: the counter is as it was in the window that it is now, and what it has counted in the other is kept. A
    /// window that begins anew is left to the limit.
    fn enter_window(&mut self, asked: &Asked<'_>, counter: &mut Counter) {
        let (count, start) = (count_of(&counter.state), asked.window_start());
        if count.window_start() == start {
            return;
        }
        let past = self.past.get(&(asked.question.key, start)).filter(|past| past.tick_us == counter.tick_us);
        if past.is_none() && !asked.is_in_the_future(count) {
            return;
        }
        let state = State::FixedWindow(Count::new(start, past.map_or(0, |past| past.units)));
        self.leave(asked, &counter.state, &state);
        (counter.state, counter.has_changed) = (state, !asked.is_peek());
        counter.over_at_us = asked.over_at_us(&counter.state);
    }

    /// Keeps what a window had counted, if a counter goes on to another.
    fn leave(&mut self, asked: &Asked<'_>, before: &State, after: &State) {
        let (left, entered) = (count_of(before), count_of(after));
        let over_at_us = asked.over_at_us(before);
        let length_us = over_at_us
            .saturating_sub(left.window_start().ticks().saturating_mul(asked.limit.tick().length_us()));
        if asked.is_peek()
            || left.units() == 0
            || left.window_start() == entered.window_start()
            || length_us < PAST_WINDOW_MIN_US
        {
            return;
        }
        let tick_us = asked.limit.tick().length_us();
        let past = Past { tick_us, units: left.units(), over_at_us, is_new: true };
        self.past.insert((asked.question.key, left.window_start()), past);
    }

    fn act(&mut self, asked: &Asked<'_>, state: &mut State, act: Act) -> Answer {
        let limit = asked.limit.limit();
        let decision = match act {
            Act::Peek(cost) => limit.decide(state, Ask::peek(cost, asked.key_at)),
            Act::Take(cost) => {
                let decision = limit.decide(state, Ask::take(cost, asked.key_at));
                if decision.is_allowed() {
                    self.count(asked, cost.units());
                }
                decision
            }
            Act::Book(cost) if asked.is_window_over() => {
                self.count(asked, cost.units());
                asked.standing(state, Outcome::ALLOWED)
            }
            Act::Book(cost) => {
                self.count(asked, cost.units());
                limit.decide(state, Ask::book(cost, asked.key_at))
            }
            Act::GiveBack { units, counted_at, undoes } => {
                self.give_back(asked, state, Refund { units, counted_at, undoes, now: asked.at });
                asked.standing(state, Outcome::ALLOWED)
            }
            Act::Lease { units, nodes, number, life } => {
                let (decision, leased) = limit.lease(state, units, nodes.into(), asked.key_at);
                if leased > 0 {
                    self.count(asked, leased);
                    let lease = asked.lease(leased, life);
                    self.leases.entry((asked.question.key, number)).or_insert(lease);
                }
                return Ok(Grant { leased, ..asked.grant(decision) });
            }
            Act::Return(rest) => self.take_back(asked, state, rest),
            Act::Reset => {
                *state = limit.fresh();
                // What is out was counted before: it does not come back to a count that has forgotten it.
                self.leases.retain(|(key, _), _| *key != asked.question.key);
                self.past.retain(|(key, _), _| *key != asked.question.key);
                asked.standing(state, Outcome::ALLOWED)
            }
            Act::Settle(settle) => return Ok(self.settle(asked, state, settle)),
            Act::Once(id, act) => return self.once(asked, state, id, act),
            Act::Release(_) => return Err(Failure::Refused),
        };
        Ok(asked.grant(decision))
    }

    /// A settlement of a reservation: the first under a number counts, and its sender may repeat it.
    fn settle(&mut self, asked: &Asked<'_>, state: &mut State, settle: SettleOnce) -> Grant {
        let SettleOnce { change, counted_at, deadline, number, sender } = settle;
        let place = (asked.question.key, number);
        match self.settlements.get(&place) {
            Some(first) if first.sender == sender => {
                let decision = asked.standing(state, Outcome::ALLOWED);
                return Grant { is_repeated: true, ..asked.grant(decision) };
            }
            None if asked.at <= deadline => {}
            Some(_) | None => return asked.grant(asked.standing(state, Outcome::Busy)),
        }
        let deadline_us = deadline.ticks().saturating_mul(asked.limit.tick().length_us());
        self.settlements.insert(place, FirstSettlement { sender, deadline_us, is_new: true });
        asked.grant(match change {
            SettleChange::Book(units) => {
                self.count(asked, units);
                asked.limit.limit().decide(state, Ask::book(Cost::new(units), asked.key_at))
            }
            SettleChange::Return(units) => {
                self.give_back(asked, state, Refund { units, counted_at, undoes: false, now: asked.at });
                asked.standing(state, Outcome::ALLOWED)
            }
        })
    }

    /// What is left of a lease. It comes back once, because the lease is gone then; and not after its deadline, since others count on that.
    fn take_back(&mut self, asked: &Asked<'_>, state: &mut State, rest: LeaseRest) -> Decision {
        let lease = self.leases.remove(&(asked.question.key, rest.number));
        let Some(lease) = lease.filter(|lease| self.now_us <= lease.deadline_us) else {
            return asked.standing(state, Outcome::Busy);
        };
        let counted_at = Time::from_ticks(lease.counted_at_us / asked.limit.tick().length_us());
        let units = rest.units.min(lease.units);
        self.give_back(asked, state, Refund { units, counted_at, undoes: false, now: asked.at });
        asked.standing(state, Outcome::ALLOWED)
    }

    fn give_back(&mut self, asked: &Asked<'_>, state: &mut State, refund: Refund) {
        let limit = asked.limit.limit();
        let counted_at = limit.key_time(hash(asked.question.key), refund.counted_at);
        let before = count_of(state).units();
        limit.give_back(state, Refund { counted_at, now: asked.key_at, ..refund });
        let is_over = limit.counts_until(counted_at).is_some_and(|end| end <= asked.key_at);
        // A counter that is full of debt has not counted all that was booked; the history has.
        let most = asked.limit.clamp(u64::MAX);
        let given_back = if is_over || before >= most {
            refund.units.min(most)
        } else {
            before.saturating_sub(count_of(state).units())
        };
        if given_back > 0
            && let Some(usage) = self.usage_of(asked, refund.counted_at)
        {
            usage.given_back = usage.given_back.saturating_add(given_back);
        }
    }

    fn count(&mut self, asked: &Asked<'_>, units: u64) {
        if units > 0
            && let Some(usage) = self.usage_of(asked, asked.spent_at)
        {
            usage.counted = usage.counted.saturating_add(units);
        }
    }

    /// What is written down for the day of a moment. Nothing without an account.
    fn usage_of(&mut self, asked: &Asked<'_>, at: Time) -> Option<&mut Usage> {
        let account = asked.question.account.as_ref()?;
        let page = (text(&account.subject), asked.limit.day(at), text(&account.rule));
        Some(self.usage.entry(page).or_default())
    }
}

impl Counter {
    fn new(tick_us: u64, count: Count) -> Counter {
        let state = State::FixedWindow(count);
        Counter { state, tick_us, over_at_us: 0, account: None, has_changed: false }
    }

    pub(super) fn count(&self) -> Count {
        count_of(&self.state)
    }
}

/// What is kept is nothing else.
fn count_of(state: &State) -> Count {
    match state {
        State::FixedWindow(count) => *count,
        _ => Count::default(),
    }
}

impl Asked<'_> {
    /// Whether nothing may be changed: the counter is not locked.
    fn is_peek(&self) -> bool {
        matches!(self.question.act, Act::Peek(_))
    }

    /// Whether a counter is of a window that begins later than clocks differ.
    fn is_in_the_future(&self, count: Count) -> bool {
        let ahead = Span::from_ticks(AHEAD_MAX_US / self.limit.tick().length_us());
        count.window_start() > self.key_at.plus(ahead)
    }

    /// The beginning of the window that it is now.
    fn window_start(&self) -> Time {
        self.limit.window_start(self.key_at)
    }

    /// Whether the window is over in which something was spent.
    fn is_window_over(&self) -> bool {
        if self.spent_at == self.at {
            return false;
        }
        let limit = self.limit.limit();
        let spent_at = limit.key_time(hash(self.question.key), self.spent_at);
        limit.counts_until(spent_at).is_some_and(|end| end <= self.key_at)
    }

    /// How a counter stands.
    fn standing(&self, state: &mut State, outcome: Outcome) -> Decision {
        let decision = self.limit.limit().decide(state, Ask::peek(Cost::ZERO, self.key_at));
        Decision { outcome, ..decision }
    }

    /// An answer in nanoseconds.
    fn grant(&self, decision: Decision) -> Grant {
        let ns = |span: Span| Span::from_ticks(span.ticks().saturating_mul(self.limit.tick().length_ns()));
        let outcome = match decision.outcome {
            Outcome::Allowed { wait } => Outcome::Allowed { wait: ns(wait) },
            Outcome::NotNow { retry_after } => Outcome::NotNow { retry_after: ns(retry_after) },
            outcome @ (Outcome::Busy | Outcome::Never) => outcome,
        };
        let decision = Decision { outcome, reset_after: decision.reset_after.map(ns), ..decision };
        Grant { decision, at: self.at, holder: None, leased: 0, is_repeated: false }
    }

    fn lease(&self, units: u64, life: Span) -> Lease {
        let deadline = self.limit.lease_deadline(hash(self.question.key), self.at, life);
        let us = |moment: Time| moment.ticks().saturating_mul(self.limit.tick().length_us());
        Lease { units, counted_at_us: us(self.at), deadline_us: us(deadline) }
    }

    /// When a window ends, by the clock of the database.
    fn over_at_us(&self, state: &State) -> u64 {
        let limit = self.limit.limit();
        let end = limit.counts_until(count_of(state).window_start()).unwrap_or_default();
        let ahead = limit.key_time(hash(self.question.key), Time::default()).since(Time::default());
        end.minus(ahead).ticks().saturating_mul(self.limit.tick().length_us())
    }
}
