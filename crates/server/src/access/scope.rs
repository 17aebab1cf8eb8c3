//! What a token may do, and with which domains and policies.
//!
//! A token without a scope may do everything. One with a scope is for a client that is trusted with less: a search service that only
//! checks its own policies, say. What its scope does not name is refused with an error and charges nothing; it is never ignored, since a
//! request that is decided without its override or its tier would be decided wrongly.

use std::fmt;

use thiserror::Error;
use tollgate::{Known, Request, RequestError, Subject};

/// The most patterns in a list of domains or policies.
const PATTERNS_MAX: usize = 64;
/// The longest name in an error: it repeats what the client has sent.
const TOLD_CHARACTERS_MAX: usize = 64;

/// What a request needs a token for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Checks, peeks, permits, `/v1/auth`, `/json` and `ShouldRateLimit`.
    Check,
    /// Units that come back: a descriptor with `is_negative_hits`.
    Refund,
    /// A limit that the caller brings along: `limit` in a descriptor, and the numbers of `CL.THROTTLE`.
    Override,
    /// The name of a tier in a request.
    Tier,
    /// `/v1/reserve` and `/v1/settle`.
    Reserve,
    /// An id by which a request can be repeated.
    RequestId,
}

/// A set of verbs: bit `n` is the verb with that number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verbs(u8);

/// Names that end in `*` stand for all that begin alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patterns(Vec<Box<str>>);

/// What a token is bounded to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// The token's owner, for logs. May be empty.
    name: Box<str>,
    verbs: Verbs,
    /// Nothing where any domain will do.
    domains: Option<Patterns>,
    policies: Option<Patterns>,
}

/// Why a token does not suffice.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Forbidden {
    /// It may not do that.
    #[error("this token lacks the scope `{0}`")]
    Verb(Verb),
    /// It may, but not here.
    #[error("this token may not use the domain \"{0}\"")]
    Domain(String),
    /// The same of a policy.
    #[error("this token may not use the policy \"{0}\"")]
    Policy(String),
    /// The request names no domain, and the token may use none that could be meant.
    #[error("this token may not use any domain that has `forward_auth`")]
    AnyDomain,
    /// It is bounded to domains or policies, and CL.THROTTLE has neither.
    #[error("this token is bounded to domains or policies, and CL.THROTTLE belongs to neither")]
    Unbounded,
}

impl Verb {
    const ALL: [Verb; 6] =
        [Verb::Check, Verb::Refund, Verb::Override, Verb::Tier, Verb::Reserve, Verb::RequestId];

    fn name(self) -> &'static str {
        match self {
            Verb::Check => "check",
            Verb::Refund => "refund",
            Verb::Override => "override",
            Verb::Tier => "tier",
            Verb::Reserve => "reserve",
            Verb::RequestId => "request_id",
        }
    }

    pub(super) fn named(name: &str) -> Option<Verb> {
        Verb::ALL.into_iter().find(|verb| verb.name() == name)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Verbs {
    fn has(self, verb: Verb) -> bool {
        self.0 & 1 << verb as u8 != 0
    }
}

impl FromIterator<Verb> for Verbs {
    fn from_iter<I: IntoIterator<Item = Verb>>(verbs: I) -> Verbs {
        Verbs(verbs.into_iter().fold(0, |bits, verb| bits | 1 << verb as u8))
    }
}

impl Patterns {
    /// Names with commas between them.
    pub(super) fn read(text: &str) -> Option<Patterns> {
        let patterns: Vec<Box<str>> = text.split(',').take(PATTERNS_MAX + 1).map(Box::from).collect();
        let is_good = |pattern: &str| {
            let name = pattern.strip_suffix('*').unwrap_or(pattern);
            !pattern.is_empty() && !name.contains('*')
        };
        let are_good = patterns.len() <= PATTERNS_MAX && patterns.iter().all(|pattern| is_good(pattern));
        are_good.then_some(Patterns(patterns))
    }

    fn matches(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => **pattern == *name,
        })
    }
}

impl Scope {
    /// Without verbs, all of them. With a bound for domains alone or for policies alone, none of the others may be used.
    pub(super) fn new(
        name: &str,
        verbs: Option<Verbs>,
        domains: Option<Patterns>,
        policies: Option<Patterns>,
    ) -> Scope {
        let is_bounded = domains.is_some() || policies.is_some();
        let bound = |patterns: Option<Patterns>| match patterns {
            None if is_bounded => Some(Patterns(Vec::new())),
            patterns => patterns,
        };
        let verbs = verbs.unwrap_or_else(|| Verb::ALL.into_iter().collect());
        Scope { name: name.into(), verbs, domains: bound(domains), policies: bound(policies) }
    }

    /// The token's owner, as its file names it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a request may be made, as a check or as a reservation.
    pub(crate) fn permit(&self, request: &Request<'_>, verb: Verb) -> Result<(), Forbidden> {
        if request.id.is_some() {
            self.permit_verb(Verb::RequestId)?;
        }
        match request.subject {
            Subject::Policy { name, tier, .. } => {
                self.permit_verb(verb)?;
                if tier.is_some() {
                    self.permit_verb(Verb::Tier)?;
                }
                within(self.policies.as_ref(), name, Forbidden::Policy)
            }
            Subject::Descriptors { domain, descriptors } => {
                self.permit_domain(domain)?;
                if descriptors.is_empty() {
                    self.permit_verb(verb)?;
                }
                for descriptor in descriptors {
                    self.permit_verb(if descriptor.refund { Verb::Refund } else { verb })?;
                    if descriptor.limit.is_some() {
                        self.permit_verb(Verb::Override)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Whether a domain may be asked about.
    pub(crate) fn permit_domain(&self, domain: &str) -> Result<(), Forbidden> {
        within(self.domains.as_ref(), domain, Forbidden::Domain)
    }

    /// Whether a call may bring its limit along, and a key that is in no domain and under no policy.
    pub(crate) fn permit_throttle(&self) -> Result<(), Forbidden> {
        self.permit_verb(Verb::Check)?;
        self.permit_verb(Verb::Override)?;
        let is_everything = |patterns: &Patterns| patterns.matches("");
        let is_free = self.domains.is_none() || self.policies.as_ref().is_some_and(is_everything);
        if is_free { Ok(()) } else { Err(Forbidden::Unbounded) }
    }

    /// Whether it may do this at all: for requests that show a permit or a reservation, which only its holder knows.
    pub(crate) fn permit_verb(&self, verb: Verb) -> Result<(), Forbidden> {
        if self.verbs.has(verb) { Ok(()) } else { Err(Forbidden::Verb(verb)) }
    }
}

/// An error as a client with this scope is told it: without names of policies that its token may not use.
pub(crate) fn narrowed(scope: Option<&Scope>, error: RequestError) -> RequestError {
    match (scope.and_then(|scope| scope.policies.as_ref()), error) {
        (Some(policies), RequestError::UnknownPolicy { name, known }) => {
            let names: Vec<String> = known.names.into_iter().filter(|name| policies.matches(name)).collect();
            // How many there are besides is none of its business either.
            RequestError::UnknownPolicy { name, known: Known { count: names.len(), names } }
        }
        (_, error) => error,
    }
}

fn within(
    patterns: Option<&Patterns>,
    name: &str,
    forbidden: impl FnOnce(String) -> Forbidden,
) -> Result<(), Forbidden> {
    if patterns.is_none_or(|patterns| patterns.matches(name)) {
        return Ok(());
    }
    Err(forbidden(name.chars().take(TOLD_CHARACTERS_MAX).collect()))
}
