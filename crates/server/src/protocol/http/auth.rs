//! `/v1/auth`: proxies that ask about every request before they let it through, and hand over its header as it is.
//!
//! nginx calls it `auth_request`, Traefik `forwardAuth`, Caddy `forward_auth`. The answer is a status, which they obey, and header fields, which
//! they can pass on to the client. What the request is about comes either from the recipes of a domain (`forward_auth` in its rules),
//! or, for a start, from the address alone, under a policy that the query names.

mod asked;
mod forwarded;
mod normalize;
mod percent;

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use smallvec::SmallVec;
use tollgate::policy::{Domain, Entry, Facts, Snapshot, counted_as};
use tollgate::{Descriptor, RequestError, Unmatched, Verdict};

use self::asked::{About, Asked, Key};
use self::forwarded::Forwarded;
use super::guard;
use super::problem::Problem;
use super::{JSON, counted, denial_body, denied_status, put_fields};
use crate::access::{Forbidden, Scope, Verb, narrowed};
use crate::gate::{Begun, Gate};
use crate::metrics::Protocol;

/// Serves the path. Whatever body comes along is not looked at.
pub(super) async fn auth(State(gate): State<Arc<Gate>>, request: Request) -> Response {
    let scope = guard::scope_of(&request);
    // A statement of its own, so that the body is dropped before the decision is waited for.
    let head = request.into_parts().0;
    answer((&gate, scope.as_deref()), &head).await
}

/// The answer to a request with this head.
pub(super) async fn answer(asked_of: (&Gate, Option<&Scope>), head: &Parts) -> Response {
    match answer_or_problem(asked_of, head).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn answer_or_problem(
    (gate, scope): (&Gate, Option<&Scope>),
    head: &Parts,
) -> Result<Response, Problem> {
    let asked = counted(gate, Asked::read(head.uri.query().unwrap_or_default()))?;
    match begin((gate, scope), &asked, head)? {
        Some(begun) => Ok(respond(&begun.finish().await.0, &asked)),
        None => Ok(Response::default()),
    }
}

/// Asks what is asked about a request with this head. Nothing, where there is nothing to ask.
fn begin<'g>(
    (gate, scope): (&'g Gate, Option<&Scope>),
    asked: &Asked,
    head: &Parts,
) -> Result<Option<Begun<'g>>, Problem> {
    let request = Forwarded::new(head, gate.settings());
    // A proxy would pass a 403 on.
    let permit = |permit: &dyn Fn(&Scope) -> Result<(), Forbidden>| {
        gate.permit(Protocol::Http, scope, permit).map_err(Problem::ProxyForbidden)
    };
    match &asked.about {
        About::Policy { name, key } => {
            permit(&|scope| scope.permit(&tollgate::Request::policy(name, b""), Verb::Check))?;
            let begun = ask_policy(gate, name, key, &request);
            begun.map(Some).map_err(|error| unanswered(narrowed(scope, error)))
        }
        About::Domain(name) => {
            // Before anything is looked up: errors tell nothing about domains that the token may not use.
            permit(&|scope| match name {
                Some(name) => scope.permit(&tollgate::Request::new(name, &[]), Verb::Check),
                None => scope.permit_verb(Verb::Check),
            })?;
            let snapshot = counted(gate, gate.snapshot().ok_or(Problem::NotLoaded))?;
            if name.is_none() && usable(&snapshot, scope).next().is_none() && has_any(&snapshot) {
                permit(&|_| Err(Forbidden::AnyDomain))?;
            }
            let domain = counted(gate, find(&snapshot, scope, name.as_deref()))?;
            ask_domain(gate, domain, &request)
        }
    }
}

/// Counts the value of a header, or else the address, under a policy.
fn ask_policy<'g>(
    gate: &'g Gate,
    policy: &str,
    key: &Key,
    request: &Forwarded<'_>,
) -> Result<Begun<'g>, RequestError> {
    let address = || {
        let address = request.address().map(|address| counted_as(address, request.ipv6_prefix()));
        address.unwrap_or_default().into_bytes()
    };
    let key = match key {
        Key::Address => address(),
        Key::Header(name) => match request.header(name.as_str()).next() {
            // Nobody can have the key of an address: no address has such a sign in it.
            Some(value) => format!("{name}={value}").into_bytes(),
            None => address(),
        },
    };
    gate.begin(&tollgate::Request::policy(policy, &key), Protocol::Http)
}

/// Asks about the descriptors that a domain makes of a request. If there are none, nobody is asked.
fn ask_domain<'g>(
    gate: &'g Gate,
    domain: &Domain,
    request: &Forwarded<'_>,
) -> Result<Option<Begun<'g>>, Problem> {
    let mut made: SmallVec<[(&str, Cow<'_, str>); 8]> = SmallVec::new();
    let mut ends: SmallVec<[usize; 4]> = SmallVec::new();
    for recipe in domain.forward_auth() {
        let start = made.len();
        if recipe.put(request, &mut made) {
            ends.push(made.len());
        } else {
            made.truncate(start);
        }
    }
    if ends.is_empty() {
        gate.metrics().observe_unmatched(Unmatched::Rule);
        return Ok(None);
    }
    let entries: SmallVec<[Entry<'_>; 8]> = made.iter().map(|(key, value)| (*key, &**value)).collect();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let descriptors: SmallVec<[Descriptor<'_>; 4]> =
        starts.zip(&ends).map(|(start, end)| Descriptor::new(&entries[start..*end])).collect();
    let question = tollgate::Request::new(domain.name(), &descriptors);
    gate.begin(&question, Protocol::Http).map(Some).map_err(unanswered)
}

/// The names of domains with `forward_auth` that a token may use.
fn usable<'a>(snapshot: &'a Snapshot, scope: Option<&Scope>) -> impl Iterator<Item = &'a str> {
    let may_use = move |name: &&str| scope.is_none_or(|scope| scope.permit_domain(name).is_ok());
    snapshot.forward_auth_names().iter().map(|name| &**name).filter(may_use)
}

/// Whether any domain has `forward_auth`.
fn has_any(snapshot: &Snapshot) -> bool {
    !snapshot.forward_auth_names().is_empty()
}

/// The domain of this name; without a name, the only one of those with `forward_auth` that the token may use.
fn find<'a>(
    snapshot: &'a Snapshot,
    scope: Option<&Scope>,
    name: Option<&str>,
) -> Result<&'a Domain, Problem> {
    let known = || usable(snapshot, scope);
    let name = match name {
        Some(name) => name,
        None => match (known().next(), known().nth(1)) {
            (Some(only), None) => only,
            (None, _) => return Err(Problem::bad_request(NOTHING_TO_ASK)),
            (Some(_), Some(_)) => {
                let names = listed(known());
                let message = format!("which domain is meant? Add domain=NAME to the query: {names}");
                return Err(Problem::bad_request(message));
            }
        },
    };
    match snapshot.domain(name) {
        Some(domain) if !domain.forward_auth().is_empty() => Ok(domain),
        Some(_) => Err(Problem::bad_request(format!(
            "the domain \"{name}\" has no `forward_auth` in its rules: it says how descriptors are made of a request"
        ))),
        // Others have it, but this token may not know of them.
        None if known().next().is_none() && has_any(snapshot) => {
            Err(Problem::bad_request(format!("unknown domain \"{name}\"")))
        }
        None => Err(Problem::bad_request(format!("unknown domain \"{name}\": {}", listed(known())))),
    }
}

const NOTHING_TO_ASK: &str = "no domain has `forward_auth` in its rules: add it, or ask /v1/auth?policy=NAME";

/// Names that could have been meant.
fn listed<'a>(mut names: impl Iterator<Item = &'a str>) -> String {
    const LISTED_MAX: usize = 8;
    let first: Vec<&str> = names.by_ref().take(LISTED_MAX).collect();
    if first.is_empty() {
        return NOTHING_TO_ASK.to_owned();
    }
    let more = if names.next().is_some() { ", and more" } else { "" };
    format!("it could be {}{more}", first.join(", "))
}

/// A proxy cannot do anything about an unknown policy: only its configuration can.
fn unanswered(error: RequestError) -> Problem {
    match error {
        RequestError::UnknownPolicy { .. } => Problem::bad_request(error.to_string()),
        _ => error.into(),
    }
}

fn respond(verdict: &Verdict, asked: &Asked<'_>) -> Response {
    let mut response = Response::default();
    if !verdict.allowed() {
        // What the proxy's configuration asks for is what the proxy understands.
        let is_usual = asked.deny == StatusCode::TOO_MANY_REQUESTS;
        *response.status_mut() = if is_usual { denied_status(verdict) } else { asked.deny };
        *response.body_mut() = Body::from(denial_body(verdict));
        response.headers_mut().insert(CONTENT_TYPE, JSON);
    }
    put_fields(response.headers_mut(), verdict, asked.older);
    response
}
