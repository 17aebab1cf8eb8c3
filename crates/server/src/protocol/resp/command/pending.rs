//! Calls that wait for each other. Clients send many without waiting, and those of a kind that follow each other are decided
//! together: at one moment, and with the memory of all their counters asked for before the first is decided.
//!
//! What is kept of a call owes nothing to the bytes it was read from. Whatever else a client sends settles the calls before it,
//! so that answers come in the order of the commands.

use std::mem;
use std::ops::Range;

use smallvec::SmallVec;
use tollgate::core::{Decision, Limit};
use tollgate::{Request, Subject, Throttle};

use super::super::reply::Replies;
use super::gaps::Missing;
use super::{Session, policy, scope_of, throttle};
use crate::access::narrowed;
use crate::metrics::Protocol;

/// So many calls wait at most.
const PENDING_MAX: usize = 32;
/// Names and keys of calls that wait take so many bytes at most, but for the last call's.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Calls that wait. They are all of one kind.
#[derive(Debug, Default)]
pub(super) struct Pending {
    throttles: Vec<Throttle>,
    decisions: Vec<Decision>,
    checks: Vec<Check>,
    /// The names and keys of `checks`.
    text: Text,
}

/// A call of `TG.CHECK`: where its parts stand in the text.
#[derive(Debug)]
struct Check {
    name: Range<usize>,
    key: Range<usize>,
    tier: Option<Range<usize>>,
    cost: u64,
}

/// Names and keys, side by side.
#[derive(Debug, Default)]
struct Text {
    names: String,
    keys: Vec<u8>,
}

impl Text {
    fn put_name(&mut self, name: &str) -> Range<usize> {
        let start = self.names.len();
        self.names.push_str(name);
        start..self.names.len()
    }

    fn put_key(&mut self, key: &[u8]) -> Range<usize> {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        start..self.keys.len()
    }

    fn is_full(&self) -> bool {
        self.names.len() + self.keys.len() > TEXT_BYTES_MAX
    }

    fn clear(&mut self) {
        self.names.clear();
        self.names.shrink_to(TEXT_BYTES_MAX);
        self.keys.clear();
        self.keys.shrink_to(TEXT_BYTES_MAX);
    }
}

impl Session<'_> {
    /// Decides the calls that wait, and adds their answers.
    pub(in super::super) fn settle(&mut self, replies: &mut Replies) {
        if self.gate.is_sharing() {
            return self.settle_shared(replies);
        }
        let scope = scope_of(self.admitted.as_ref());
        let Pending { throttles, decisions, checks, text } = &mut self.pending;
        if !throttles.is_empty() {
            self.gate.decide_throttles(throttles, decisions);
            throttles.clear();
            for decision in &*decisions {
                throttle::put(decision, replies);
            }
        }
        if !checks.is_empty() {
            let requests: SmallVec<[Request<'_>; PENDING_MAX]> =
                checks.iter().map(|check| check.request(text)).collect();
            self.gate.decide_batch(&requests, Protocol::Resp, |_, answer| match answer {
                Ok(verdict) => policy::put_answer(verdict, replies),
                Err(error) => replies.error(format_args!("ERR {}", narrowed(scope, error.clone()))),
            });
            drop(requests);
            checks.clear();
            text.clear();
        }
    }

    /// The same where counters are shared: answers may have to be waited for.
    fn settle_shared(&mut self, replies: &mut Replies) {
        let Pending { throttles, checks, mut text, decisions } = mem::take(&mut self.pending);
        let since = self.gate.now();
        for throttle in throttles {
            self.put_or_wait(Missing::Throttle { throttle, since }, replies);
        }
        for check in &checks {
            match self.gate.begin(&check.request(&text), Protocol::Resp) {
                Ok(begun) => self.put_or_wait(Missing::Check(begun), replies),
                Err(error) => {
                    let error = narrowed(scope_of(self.admitted.as_ref()), error);
                    replies.error(format_args!("ERR {error}"));
                }
            }
        }
        text.clear();
        self.pending = Pending { decisions, text, ..Pending::default() };
    }

    /// Adds a call that brings its own limit.
    pub(super) fn wait_throttle(&mut self, key: &[u8], limit: &Limit, cost: u64, replies: &mut Replies) {
        if !self.pending.checks.is_empty() || self.pending.throttles.len() >= PENDING_MAX {
            self.settle(replies);
        }
        self.pending.throttles.push(self.gate.prepare_throttle(key, limit, cost));
    }

    /// Adds a call that names a policy.
    pub(super) fn wait_check(&mut self, request: &Request<'_>, replies: &mut Replies) {
        let Pending { throttles, checks, text, .. } = &self.pending;
        if !throttles.is_empty() || checks.len() >= PENDING_MAX || text.is_full() {
            self.settle(replies);
        }
        let Subject::Policy { name, key, tier } = request.subject else { return };
        let Pending { checks, text, .. } = &mut self.pending;
        checks.push(Check {
            name: text.put_name(name),
            key: text.put_key(key),
            tier: tier.map(|tier| text.put_name(tier)),
            cost: request.cost,
        });
    }
}

impl Check {
    fn request<'a>(&self, text: &'a Text) -> Request<'a> {
        let Check { name, key, tier, cost } = self;
        let names = |range: &Range<usize>| text.names.get(range.clone()).unwrap_or_default();
        let key = text.keys.get(key.clone()).unwrap_or_default();
        let subject = Subject::Policy { name: names(name), key, tier: tier.as_ref().map(names) };
        Request { subject, cost: *cost, peek: false, id: None }
    }
}
