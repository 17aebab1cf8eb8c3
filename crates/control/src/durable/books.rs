//! What questions make of counters: a pure function, without a database.
//!
//! What some questions need to know is read for all of them first; then this answers them, one after the other, with `core` itself; then what has
//! changed is written. So an answer is the one that the same question would have got in a transaction of its own.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tollgate_core::{
    Ask, Cost, Count, Decision, LeaseRest, Limit, Outcome, Refund, SharedLimit, Span, State, Time,
};
use tollgate_store::authority::{Account, Act, Failure, Grant, Question, SharedKey};

use super::Answer;

/// The longest name of a subject or a rule. What is longer is cut off: names made from keys of requests have any length.
pub(super) const NAME_BYTES_MAX: usize = 512;

/// What is there, as far as some questions need to know, at one moment.
#[derive(Debug)]
pub(super) struct Books {
    now_us: u64,
    counters: HashMap<SharedKey, Counter>,
    leases: HashMap<(SharedKey, u64), Lease>,
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
        Books { now_us, counters, leases, usage: BTreeMap::new() }
    }

    pub(super) fn put_counter(&mut self, key: SharedKey, tick_us: u64, count: Count) {
        self.counters.insert(key, Counter::new(tick_us, count));
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
        if !is_kept(question) {
            return Err(Failure::Refused);
        }
        let limit = &*question.limit;
        let at = Time::from_ticks(self.now_us / limit.tick().length_us());
        let key_at = limit.limit().key_time(hash(question.key), at);
        let asked = Asked { question, limit, at, key_at };
        let fresh = || Counter::new(limit.tick().length_us(), Count::default());
        let mut counter = self.counters.get(&question.key).cloned().unwrap_or_else(fresh);
        if counter.tick_us != limit.tick().length_us() {
            return Err(Failure::Refused);
        }
        let before = counter.state.clone();
        let grant = self.act(&asked, &mut counter.state)?;
        if counter.state != before {
            counter.has_changed = true;
            counter.over_at_us = asked.over_at_us(&counter.state);
        }
        counter.account = question.account.clone().or(counter.account);
        self.counters.insert(question.key, counter);
        Ok(grant)
    }

    fn act(&mut self, asked: &Asked<'_>, state: &mut State) -> Answer {
        let limit = asked.limit.limit();
        let decision = match asked.question.act {
            Act::Peek(cost) => limit.decide(state, Ask::peek(cost, asked.key_at)),
            Act::Take(cost) => {
                let decision = limit.decide(state, Ask::take(cost, asked.key_at));
                if decision.is_allowed() {
                    self.count(asked, cost.units());
                }
                decision
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
                asked.standing(state, Outcome::ALLOWED)
            }
            Act::Release(_) => return Err(Failure::Refused),
        };
        Ok(asked.grant(decision))
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
            && let Some(usage) = self.usage_of(asked, asked.at)
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
        Grant { decision, at: self.at, holder: None, leased: 0 }
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
