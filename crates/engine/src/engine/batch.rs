//! Requests that have arrived together.
//!
//! Deciding one request after the other waits for memory each time. Here the limits of several requests are found first, the memory of
//! their counters is asked for, and only then is the first of them decided.

use smallvec::SmallVec;
use tollgate_core::Time;
use tollgate_policy::{Quota, Seeking, Snapshot};

use super::{Borrowed, Engine, Found, Inquiry, Purpose};
use crate::meeting::{Ahead, Meeting, Stash};
use crate::request::{Request, RequestError, Subject};
use crate::verdict::{Answer, DecidedBy, Usual, Verdict};

/// So many requests are looked at before the first is decided. More than the processor can fetch for at the same time would be of no
/// use, and all of them live on the stack.
const LOOKED_AT: usize = 16;

type Several<T> = SmallVec<[T; LOOKED_AT]>;

pub(super) fn decide(
    engine: &Engine,
    requests: &[Request<'_>],
    now: Time,
    mut each: impl FnMut(usize, Result<&Verdict, &RequestError>),
) {
    let mut verdict = Verdict {
        allowed: false,
        decided_by: DecidedBy::Ledger,
        now,
        answer: Answer::default(),
        snapshot: engine.snapshot.load(),
    };
    let mut scratch = Borrowed::take();
    let mut index = 0;
    for several in requests.chunks(LOOKED_AT) {
        let inquiries: Several<Inquiry<'_>> =
            several.iter().map(|request| Inquiry { request, purpose: Purpose::Pass, now }).collect();
        let snapshot = verdict.snapshot.as_deref();
        let rules: Several<_> = inquiries.iter().map(|inquiry| rules(engine, inquiry, snapshot)).collect();
        fetch_tenants(snapshot, several);
        let stashes: Several<Stash> = several.iter().map(|_| Stash::default()).collect();
        let mut looks: Several<Look<'_>> = SmallVec::new();
        for ((inquiry, rules), stash) in inquiries.iter().zip(&rules).zip(&stashes) {
            looks.push(look(engine, inquiry, (rules, stash), &mut scratch));
        }
        for look in looks {
            let found = match look {
                Look::Refused(error) => Err(error),
                Look::Bypassed(request) => Ok(Found::bypassed(request)),
                Look::Met(meeting) => engine.conclude(meeting, &mut scratch.0),
            };
            match found {
                Ok(Found { allowed, decided_by, answer }) => {
                    (verdict.allowed, verdict.decided_by, verdict.answer) = (allowed, decided_by, answer);
                    each(index, Ok(&verdict));
                }
                Err(error) => each(index, Err(&error)),
            }
            index += 1;
        }
    }
}

/// Has the memory fetched that says how the tenants of these requests stand, where any have terms: first of all of them where they are found, then
/// what they are found to have.
fn fetch_tenants(snapshot: Option<&Snapshot>, requests: &[Request<'_>]) {
    let Some(snapshot) = snapshot.filter(|snapshot| snapshot.knows_tenants()) else { return };
    let mut several: Several<Seeking<'_>> = SmallVec::new();
    for request in requests {
        match request.subject {
            _ if several.len() == LOOKED_AT => break,
            Subject::Policy { key, .. } => several.extend(snapshot.seek::<Ahead>(key)),
            Subject::Descriptors { domain, descriptors } => {
                let Some(domain) = snapshot.domain(domain) else { continue };
                let tenants = descriptors.iter().filter_map(|each| domain.tenant_of(each.entries));
                // Of more than there is room for, the first are enough.
                let room = LOOKED_AT.saturating_sub(several.len());
                several.extend(
                    tenants.take(room).filter_map(|tenant| snapshot.seek::<Ahead>(tenant.as_bytes())),
                );
            }
        }
    }
    for seeking in several {
        seeking.find_ahead::<Ahead>();
    }
}

/// How far a request has come before it is decided.
#[allow(clippy::large_enum_variant)] // The large one is the common one, and lives for a moment.
enum Look<'a> {
    Refused(RequestError),
    Bypassed(&'a Request<'a>),
    Met(Meeting<'a>),
}

/// The rules in force, and the limits that a request brings along. Nothing, where an operator has switched them off.
type Rules<'a> = Result<Option<(&'a Snapshot, Usual<Quota>)>, RequestError>;

fn rules<'a>(engine: &Engine, inquiry: &Inquiry<'_>, snapshot: Option<&'a Snapshot>) -> Rules<'a> {
    let request = inquiry.request;
    let snapshot = request.answerable_by(snapshot)?;
    if engine.switches.bypasses_domain(request.domain(), inquiry.now) {
        return Ok(None);
    }
    Ok(Some((snapshot, request.own_limits(snapshot, engine.settings.default_algorithm)?)))
}

fn look<'a>(
    engine: &'a Engine,
    inquiry: &Inquiry<'a>,
    (rules, stash): (&'a Rules<'a>, &'a Stash),
    scratch: &mut Borrowed,
) -> Look<'a> {
    let (snapshot, own) = match rules {
        Ok(Some((snapshot, own))) => (*snapshot, own),
        Ok(None) => return Look::Bypassed(inquiry.request),
        Err(error) => return Look::Refused(error.clone()),
    };
    let mut meeting = Meeting::new(engine, inquiry);
    match meeting.arrange(snapshot, own, stash, &mut scratch.0.key) {
        Ok(()) => {
            meeting.prefetch();
            Look::Met(meeting)
        }
        Err(error) => Look::Refused(error),
    }
}
