//! `TG.CHECK`, `TG.PEEK`, `TG.ACQUIRE policy key [cost] [TIER name]` and `TG.RELEASE lease`: named policies over RESP.
//!
//! Five integers come back: allowed (1 or 0), the limit, what remains, and in milliseconds how long to wait and when all is back.
//! Who is allowed waits before going on: 0, unless the limit is a queue. Who is denied waits before asking again: -1 if that is
//! never, or nobody knows. Where nothing limits, or only in shadow mode, limit and remaining are -1; where an operator has banned the
//! key, -2. An acquired lease is a sixth element.

use std::str::from_utf8;

use thiserror::Error;
use tollgate::core::Span;
use tollgate::{Lease, NotALease, ReleaseError, Request, RequestError, Subject, Verdict};

use super::super::frame::Arguments;
use super::super::reply::Replies;
use super::gaps::Missing;
use super::{Session, integer, scope_of, units};
use crate::access::{Forbidden, Verb, narrowed};
use crate::headers::Advice;
use crate::metrics::Protocol;

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;
/// How many integers an answer has.
const ANSWER_LENGTH: usize = 5;
/// What stands for the limit and for what remains where nothing limits, and where the key is banned.
const NO_LIMIT: i64 = -1;
const BANNED: i64 = -2;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum BadCall {
    #[error("cost must be a whole number from 0 to {}", u64::MAX)]
    Cost,
    #[error("the name of a {what} must be UTF-8 text")]
    NotText { what: &'static str },
    #[error("syntax error: after the key comes [cost] [TIER name]")]
    Syntax,
    #[error(transparent)]
    Lease(#[from] NotALease),
    #[error(transparent)]
    Request(RequestError),
    #[error(transparent)]
    Release(#[from] ReleaseError),
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
}

pub(super) fn check(session: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    match permitted(session, arguments) {
        Ok(request) => session.wait_check(&request, replies),
        Err(error) => {
            session.settle(replies);
            answer_or_error(session, Err(error), replies);
        }
    }
}

/// The answer to a call that takes.
pub(super) fn put_answer(verdict: &Verdict, replies: &mut Replies) {
    put(verdict, ANSWER_LENGTH, replies);
}

pub(super) fn peek(session: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    let begun = permitted(session, arguments)
        .and_then(|request| session.told(session.gate.begin(&request.peek(), Protocol::Resp)))
        .map(Missing::Check);
    answer_or_error(session, begun, replies);
}

pub(super) fn acquire(session: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    let begun = permitted(session, arguments)
        .and_then(|request| session.told(session.gate.begin_hold(&request, Protocol::Resp)))
        .map(Missing::Hold);
    answer_or_error(session, begun, replies);
}

/// The answer to a call that holds what it is given.
pub(super) fn put_hold(verdict: &Verdict, lease: Option<&Lease>, replies: &mut Replies) {
    put(verdict, ANSWER_LENGTH + 1, replies);
    match lease {
        Some(lease) => replies.bulk(lease.to_string().as_bytes()),
        None => replies.nil(),
    }
}

pub(super) fn release(session: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    let text = from_utf8(arguments.get(1).unwrap_or_default());
    let lease = text.map_err(|_| NotALease).and_then(str::parse::<Lease>).map_err(BadCall::from);
    let lease = lease.and_then(|lease| {
        session.permit(|scope| scope.permit_verb(Verb::Check))?;
        Ok(lease)
    });
    let released =
        lease.and_then(|lease| Ok(session.gate.begin_release(&lease, Protocol::Resp)?)).map(Missing::Release);
    answer_or_error(session, released, replies);
}

impl Session<'_> {
    /// An answer of the gate, with what the client is told of its error.
    fn told<T>(&self, answer: Result<T, RequestError>) -> Result<T, BadCall> {
        answer.map_err(|error| BadCall::Request(narrowed(scope_of(self.admitted.as_ref()), error)))
    }
}

fn answer_or_error<'g>(
    session: &mut Session<'g>,
    result: Result<Missing<'g>, BadCall>,
    replies: &mut Replies,
) {
    match result {
        Ok(missing) => session.put_or_wait(missing, replies),
        Err(error) => {
            // The gate has counted what it could not answer itself.
            if !matches!(error, BadCall::Request(_) | BadCall::Release(_) | BadCall::Forbidden(_)) {
                session.count_bad_call();
            }
            let code = if matches!(error, BadCall::Forbidden(_)) { "NOPERM" } else { "ERR" };
            replies.error(format_args!("{code} {error}"));
        }
    }
}

/// The request of a call, if the client's token permits it.
fn permitted<'a>(session: &Session<'_>, arguments: Arguments<'a>) -> Result<Request<'a>, BadCall> {
    let request = request(arguments)?;
    session.permit(|scope| scope.permit(&request, Verb::Check))?;
    Ok(request)
}

fn request(arguments: Arguments<'_>) -> Result<Request<'_>, BadCall> {
    let name = text(arguments, 1, "policy")?;
    let key = arguments.get(2).unwrap_or_default();
    let is_tier = |index| arguments.get(index).is_some_and(|word| word.eq_ignore_ascii_case(b"tier"));
    let (cost_at, tier_at) = match arguments.len() {
        3 => (None, None),
        4 => (Some(3), None),
        5 if is_tier(3) => (None, Some(4)),
        6 if is_tier(4) => (Some(3), Some(5)),
        _ => return Err(BadCall::Syntax),
    };
    let cost = match cost_at {
        Some(index) => arguments.get(index).and_then(units).ok_or(BadCall::Cost)?,
        None => 1,
    };
    let tier = tier_at.map(|index| text(arguments, index, "tier")).transpose()?;
    Ok(Request { subject: Subject::Policy { name, key, tier }, cost, peek: false, id: None })
}

fn text<'a>(arguments: Arguments<'a>, index: usize, what: &'static str) -> Result<&'a str, BadCall> {
    from_utf8(arguments.get(index).unwrap_or_default()).map_err(|_| BadCall::NotText { what })
}

/// The answer, as the beginning of an array of so many elements.
fn put(verdict: &Verdict, length: usize, replies: &mut Replies) {
    let decision = Advice::of(verdict).map(|advice| advice.ruling().decision);
    let wait = if verdict.allowed() { Some(verdict.wait()) } else { verdict.retry_after() };
    let banned_for = verdict.banned_until().map(|until| until.since(verdict.now()));
    let without = if banned_for.is_some() { BANNED } else { NO_LIMIT };
    let reset_after = decision.map_or(banned_for.or(Some(Span::ZERO)), |decision| decision.reset_after);
    replies.array(length);
    replies.integer(i64::from(verdict.allowed()));
    replies.integer(decision.map_or(without, |decision| integer(decision.limit)));
    replies.integer(decision.map_or(without, |decision| integer(decision.remaining)));
    replies.integer(wait.map_or(-1, milliseconds));
    replies.integer(reset_after.map_or(-1, milliseconds));
}

/// Rounded up: who comes back then is not too early.
fn milliseconds(span: Span) -> i64 {
    integer(span.ticks().div_ceil(NANOSECONDS_PER_MILLISECOND))
}
