//! What the query of `/v1/auth` asks for. It is part of a proxy's configuration: nothing in it is guessed.

use std::borrow::Cow;

use http::{HeaderName, StatusCode};

use super::percent::decode;
use crate::protocol::http::problem::Problem;

/// A query.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) about: About<'a>,
    /// How a denial is told.
    pub(super) deny: StatusCode,
    /// Whether the older header fields are wanted too.
    pub(super) older: bool,
}

/// Where it is said what a request is about.
#[derive(Debug)]
pub(super) enum About<'a> {
    /// In the rules of a domain: of this one, or of the only one.
    Domain(Option<Cow<'a, str>>),
    /// Here.
    Policy { name: Cow<'a, str>, key: Key },
}

/// Whom a policy counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Key {
    Address,
    /// Whoever sends this header; or else the address.
    Header(HeaderName),
}

const PARAMETERS: &str = "the query has domain, policy, key, deny and headers";

/// The values of the parameters, as far as they are there.
#[derive(Default)]
struct Values<'a> {
    domain: Option<Cow<'a, str>>,
    policy: Option<Cow<'a, str>>,
    key: Option<Cow<'a, str>>,
    deny: Option<Cow<'a, str>>,
    headers: Option<Cow<'a, str>>,
}

impl<'a> Asked<'a> {
    /// Reads a query.
    pub(super) fn read(query: &'a str) -> Result<Asked<'a>, Problem> {
        let Values { domain, policy, key, deny, headers } = Values::read(query)?;
        let about = match (domain, policy) {
            (Some(_), Some(_)) => {
                return Err(Problem::bad_request(
                    "`domain` and `policy` do not go together: keep one of them",
                ));
            }
            (None, Some(name)) => {
                About::Policy { name, key: key.map_or(Ok(Key::Address), |key| read_key(&key))? }
            }
            (domain, None) => {
                if key.is_some() {
                    let message = "`key` goes with `policy`: add policy=NAME, or name the header in `forward_auth` of the rules";
                    return Err(Problem::bad_request(message));
                }
                About::Domain(domain)
            }
        };
        let older = match headers.as_deref() {
            None => false,
            Some("older") => true,
            Some(other) => {
                return Err(Problem::bad_request(format!("`headers` is \"{other}\", and can be `older`")));
            }
        };
        let deny = deny.map_or(Ok(StatusCode::TOO_MANY_REQUESTS), |deny| read_deny(&deny))?;
        Ok(Asked { about, deny, older })
    }
}

impl<'a> Values<'a> {
    fn read(query: &'a str) -> Result<Values<'a>, Problem> {
        let mut values = Values::default();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let place = match name {
                "domain" => &mut values.domain,
                "policy" => &mut values.policy,
                "key" => &mut values.key,
                "deny" => &mut values.deny,
                "headers" => &mut values.headers,
                _ => return Err(Problem::bad_request(format!("unknown parameter \"{name}\": {PARAMETERS}"))),
            };
            if value.is_empty() {
                return Err(Problem::bad_request(format!("`{name}` has no value")));
            }
            if place.replace(decode(value)).is_some() {
                return Err(Problem::bad_request(format!("`{name}` is there twice")));
            }
        }
        Ok(values)
    }
}

fn read_key(text: &str) -> Result<Key, Problem> {
    if text == "address" {
        return Ok(Key::Address);
    }
    let name = text.strip_prefix("header:").and_then(|name| HeaderName::from_bytes(name.as_bytes()).ok());
    name.map(Key::Header).ok_or_else(|| {
        Problem::bad_request(format!("`key` is \"{text}\", and can be `address` or `header:NAME`"))
    })
}

fn read_deny(text: &str) -> Result<StatusCode, Problem> {
    let status = text.parse().ok().and_then(|status| StatusCode::from_u16(status).ok());
    let status = status.filter(|status| status.is_client_error() || status.is_server_error());
    status.ok_or_else(|| {
        let message =
            format!("`deny` is \"{text}\", and must be a status from 400 to 599, such as 403 for nginx");
        Problem::bad_request(message)
    })
}
