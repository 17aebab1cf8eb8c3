//! Scripts as they are called: the asks of a key as arguments, and a reply as grants.

use std::sync::{Arc, OnceLock};

use tollgate_core::{CallKey, CallWriter, Script, SharedLimit, Time, Verb};
use tollgate_store::authority::queue::List;
use tollgate_store::authority::{Act, Grant, OnceAct, SharedKey};

use crate::ticket::Ticket;
use crate::wire::Arguments;

/// The time, then so many numbers for each ask.
const TIME_NUMBERS: usize = 2;
const ASK_NUMBERS: usize = 4;

/// All scripts there are.
pub(crate) fn all() -> &'static [&'static Script] {
    static ALL: OnceLock<Vec<&'static Script>> = OnceLock::new();
    ALL.get_or_init(Script::all)
}

/// Under which names Redis knows the scripts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digests {
    by_script: Vec<(&'static str, Vec<u8>)>,
}

impl Digests {
    pub(crate) fn add(&mut self, script: &Script, digest: Vec<u8>) {
        self.by_script.push((script.name, digest));
    }

    pub(crate) fn get(&self, script: &Script) -> Option<&[u8]> {
        let found = self.by_script.iter().find(|(name, _)| *name == script.name);
        found.map(|(_, digest)| digest.as_slice())
    }
}

/// Writes at what time a call is decided: that of Redis, unless one was made up.
pub(crate) fn write_time(made_up_us: Option<u64>, arguments: &mut Arguments) {
    match made_up_us {
        None => arguments.text(b"0"),
        // Two digits at least: a single zero asks for the time of Redis.
        Some(now_us) => arguments.text(format!("{now_us:02}").as_bytes()),
    }
}

/// Writes the limit and the asks of one key. Where windows follow a calendar, those around this time are told.
pub(crate) fn write(list: &List<Ticket>, around: Time, writer: &mut CallWriter, arguments: &mut Arguments) {
    let limit = list.limit();
    let key = CallKey { limit, hash: hash(list.key()), around: limit.moment(around) };
    writer.key(key, list.asks.len(), |number| arguments.number(number));
    for asked in &list.asks {
        let ask = match asked.act {
            Act::Peek(cost) => (Verb::Peek, cost.units(), 0),
            Act::Take(cost) => (Verb::Take, cost.units(), 0),
            Act::Book(cost) => (Verb::Book, cost.units(), 0),
            Act::GiveBack { units, counted_at, undoes } => {
                (Verb::GiveBack, units, limit.refund_moment(counted_at, undoes))
            }
            Act::Release(holder) => (Verb::Release, 0, holder.number()),
            Act::Reset => (Verb::Reset, 0, 0),
            Act::Lease { units, nodes, .. } => (Verb::Lease, units, nodes.into()),
            Act::Return(rest) => {
                CallWriter::give_back_lease(limit, rest, |number| arguments.number(number));
                continue;
            }
            Act::Settle(settle) => {
                CallWriter::settle(limit, settle, |number| arguments.number(number));
                continue;
            }
            Act::Once(id, act) => {
                let ask = once(limit, act);
                CallWriter::once(limit, ask, [id.number, id.fingerprint], |number| arguments.number(number));
                continue;
            }
        };
        CallWriter::ask(limit, ask, |number| arguments.number(number));
    }
}

/// What is asked for the id of a request.
fn once(limit: &SharedLimit, act: OnceAct) -> (Verb, u64, u64) {
    match act {
        OnceAct::Take(cost) => (Verb::TakeOnce, cost.units(), 0),
        OnceAct::Book(cost) => (Verb::BookOnce, cost.units(), 0),
        OnceAct::GiveBack { units, counted_at } => {
            (Verb::GiveBackOnce, units, limit.refund_moment(counted_at, false))
        }
        // The script knows when they were counted.
        OnceAct::Undo { units, undoes } => {
            (Verb::UndoOnce, units, limit.refund_moment(Time::default(), undoes))
        }
    }
}

/// What jitter goes by: the same everywhere.
#[allow(clippy::cast_possible_truncation)] // One half is enough.
fn hash(key: SharedKey) -> u64 {
    key.0 as u64
}

/// The answers of one reply, in the order of the asks.
pub(crate) struct Answers<'a> {
    seconds: i64,
    micros: i64,
    rest: &'a [i64],
    /// When they were decided, in nanoseconds.
    pub(crate) at: Time,
}

impl<'a> Answers<'a> {
    /// Nothing if these numbers cannot be the answers to so many asks.
    pub(crate) fn read(integers: &'a [i64], asks: usize) -> Option<Answers<'a>> {
        let (&[seconds, micros], rest) = integers.split_first_chunk::<TIME_NUMBERS>()?;
        let us =
            u64::try_from(seconds).ok()?.checked_mul(1_000_000)?.checked_add(u64::try_from(micros).ok()?)?;
        let at = Time::from_ticks(us.saturating_mul(1_000));
        (rest.len() == asks * ASK_NUMBERS).then_some(Answers { seconds, micros, rest, at })
    }

    /// Whether the next ask was not carried out because its window was not among those that were told.
    pub(crate) fn is_window_unknown(&self, limit: &SharedLimit) -> bool {
        let next = self.rest.first_chunk::<ASK_NUMBERS>();
        next.is_some_and(|next| limit.answer(*next) == Some(tollgate_core::Answer::UnknownWindow))
    }

    pub(crate) fn skip(&mut self, asks: usize) {
        self.rest = self.rest.get(asks * ASK_NUMBERS..).unwrap_or_default();
    }

    /// The next answer. Nothing if it makes no sense.
    pub(crate) fn next(&mut self, limit: &Arc<SharedLimit>, act: Act) -> Option<Grant> {
        let (next, rest) = self.rest.split_first_chunk::<ASK_NUMBERS>()?;
        self.rest = rest;
        let mut next = *next;
        let is_repeated = next[0] >= Script::REPEATED;
        if is_repeated {
            next[0] -= Script::REPEATED;
        }
        let (answer, leased) = match act {
            Act::Lease { .. } => limit.lease_answer(next)?,
            _ => (limit.answer(next)?, 0),
        };
        match answer {
            tollgate_core::Answer::UnknownWindow => None,
            tollgate_core::Answer::Decided { decision, holder } => {
                let at = limit.replied_at(self.seconds, self.micros)?;
                Some(Grant { decision, at, holder, leased, is_repeated })
            }
        }
    }
}
