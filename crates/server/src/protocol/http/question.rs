//! The bodies of `/v1/check` and its kin: JSON in, a question to the gate out.
//!
//! There are two ways to ask: with the descriptors of a domain, or with a key under a named policy. They are told apart by
//! their fields. Nothing is guessed: a misspelt field would otherwise mean that a limit silently does not apply.

mod shape;

use std::borrow::Cow;
use std::ops::Deref;

use serde::Deserialize;
use tollgate::core::Span;
use tollgate::policy::Entry;
use tollgate::{Descriptor, OwnLimit, Request, RequestId, Reservation, Subject};

pub(crate) use self::shape::Object;
use self::shape::{Count, Length, TimeUnit, UpTo, read};
use super::problem::Problem;

/// At most so many descriptors in one request.
pub(super) const DESCRIPTORS_MAX: usize = 128;
/// At most so many entries in one descriptor.
pub(super) const ENTRIES_MAX: usize = 32;

/// What to send, for those who have sent something else.
const HOW_TO_ASK: &str = r#"send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}"#;

/// A body, as it is written. `S` is its kind of string: borrowed where all is well; owned where it is read again only to find
/// out what is wrong.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<S> {
    domain: Option<S>,
    descriptors: Option<UpTo<DESCRIPTORS_MAX, Object<DescriptorFields<S>>>>,
    hits_addend: Option<Count>,
    policy: Option<S>,
    key: Option<S>,
    cost: Option<Count>,
    tier: Option<S>,
    request_id: Option<S>,
}

/// The body of `/v1/reserve`: as any other, and how long it is to be open.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReserveFields<S> {
    domain: Option<S>,
    descriptors: Option<UpTo<DESCRIPTORS_MAX, Object<DescriptorFields<S>>>>,
    hits_addend: Option<Count>,
    policy: Option<S>,
    key: Option<S>,
    cost: Option<Count>,
    tier: Option<S>,
    expires_in: Option<Length>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettleFields<S> {
    reservation: Option<S>,
    cost: Option<Count>,
    request_id: Option<S>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescriptorFields<S> {
    entries: UpTo<ENTRIES_MAX, Object<EntryFields<S>>>,
    hits_addend: Option<Count>,
    is_negative_hits: Option<bool>,
    limit: Option<Object<LimitFields>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryFields<S> {
    key: S,
    value: S,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitFields {
    requests_per_unit: Count,
    unit: TimeUnit,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaseFields<S> {
    // Required, but `null` is what /v1/acquire gives to those who have nothing to hold.
    #[serde(deserialize_with = "Option::deserialize", bound(deserialize = "S: Deserialize<'de>"))]
    lease: Option<S>,
}

/// A string of the body, copied only if it has escapes in it.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A well-formed question.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    asked: Asked<'a>,
    id: Option<Text<'a>>,
}

#[derive(Debug)]
enum Asked<'a> {
    Descriptors { domain: Text<'a>, descriptors: Vec<Object<DescriptorFields<Text<'a>>>>, cost: u64 },
    Policy { policy: Text<'a>, key: Text<'a>, tier: Option<Text<'a>>, cost: u64 },
}

impl<'a> Question<'a> {
    /// Reads a body.
    pub(crate) fn read(body: &'a [u8]) -> Result<Question<'a>, Problem> {
        Question::of(read::<Fields<Text<'a>>, Fields<String>>(body, HOW_TO_ASK)?)
    }

    /// Reads a body of `/v1/reserve`, and how long the reservation is to be open, if it says so.
    pub(super) fn read_reserve(body: &'a [u8]) -> Result<(Question<'a>, Option<Span>), Problem> {
        let fields = read::<ReserveFields<Text<'a>>, ReserveFields<String>>(body, HOW_TO_ASK)?;
        let ReserveFields { domain, descriptors, hits_addend, policy, key, cost, tier, expires_in } = fields;
        let fields = Fields { domain, descriptors, hits_addend, policy, key, cost, tier, request_id: None };
        Ok((Question::of(fields)?, expires_in.map(|length| length.0)))
    }

    /// Refuses a question that comes with an id, where it cannot be repeated by that.
    pub(super) fn without_id(self) -> Result<Question<'a>, Problem> {
        match self.id {
            None => Ok(self),
            Some(_) => Err(Problem::bad_request("`request_id` goes with /v1/check and /v1/settle only")),
        }
    }

    pub(crate) fn has_id(&self) -> bool {
        self.id.is_some()
    }

    fn of(mut fields: Fields<Text<'a>>) -> Result<Question<'a>, Problem> {
        let id = fields.request_id.take();
        if let Some(id) = &id {
            read_id(id)?;
        }
        Ok(Question { asked: Asked::of(fields)?, id })
    }

    /// Hands the question over in the words of the engine.
    pub(crate) fn ask<R>(&self, peek: bool, ask: impl FnOnce(&Request<'_>) -> R) -> R {
        let id = self.id.as_deref().and_then(|id| RequestId::new(id).ok());
        match &self.asked {
            Asked::Policy { policy, key, tier, cost } => {
                let subject = Subject::Policy { name: policy, key: key.as_bytes(), tier: tier.as_deref() };
                ask(&Request { subject, cost: *cost, peek, id })
            }
            Asked::Descriptors { domain, descriptors, cost } => {
                let entries: Vec<Entry<'_>> = descriptors
                    .iter()
                    .flat_map(|descriptor| &descriptor.0.entries.0)
                    .map(|entry| (&*entry.0.key, &*entry.0.value))
                    .collect();
                let mut rest = entries.as_slice();
                let descriptors: Vec<Descriptor<'_>> = descriptors
                    .iter()
                    .map(|Object(fields)| {
                        let (entries, after) = rest.split_at(fields.entries.0.len());
                        rest = after;
                        fields.descriptor(entries)
                    })
                    .collect();
                let subject = Subject::Descriptors { domain, descriptors: &descriptors };
                ask(&Request { subject, cost: *cost, peek, id })
            }
        }
    }
}

impl<'a> Asked<'a> {
    fn of(fields: Fields<Text<'a>>) -> Result<Asked<'a>, Problem> {
        let by_policy = fields.policy.is_some() || fields.key.is_some() || fields.tier.is_some();
        let by_domain = fields.domain.is_some() || fields.descriptors.is_some();
        match (by_policy || fields.cost.is_some(), by_domain || fields.hits_addend.is_some()) {
            (true, true) => Err(Problem::bad_request(format!(
                "`policy`, `key`, `cost` and `tier` do not go with `domain`, `descriptors` and `hits_addend`: {HOW_TO_ASK}"
            ))),
            (false, false) => {
                Err(Problem::bad_request(format!("there is no question in the body: {HOW_TO_ASK}")))
            }
            (true, false) => {
                let policy = required(fields.policy, "policy", "the name of a policy")?;
                let key = required(fields.key, "key", "whom to count, such as a user or an address")?;
                let cost = fields.cost.map_or(1, |cost| cost.0);
                Ok(Asked::Policy { policy, key, tier: fields.tier, cost })
            }
            (false, true) => {
                let domain = required(fields.domain, "domain", "the domain of the rules")?;
                let example = r#"a list such as [{"entries": [{"key": "...", "value": "..."}]}]"#;
                let descriptors = required(fields.descriptors, "descriptors", example)?.0;
                // As with Envoy, nothing and zero both mean one.
                let cost = fields.hits_addend.map_or(1, |addend| addend.0.max(1));
                Ok(Asked::Descriptors { domain, descriptors, cost })
            }
        }
    }
}

impl<S> DescriptorFields<S> {
    fn descriptor<'a>(&self, entries: &'a [Entry<'a>]) -> Descriptor<'a> {
        Descriptor {
            entries,
            cost: self.hits_addend.map(|addend| addend.0),
            refund: self.is_negative_hits.unwrap_or(false),
            limit: self.limit.as_ref().map(|Object(limit)| OwnLimit {
                requests_per_unit: limit.requests_per_unit.0,
                unit: Some(limit.unit.0),
            }),
        }
    }
}

/// The lease in a body of `/v1/release`. None, if there was nothing to hold.
pub(super) fn read_lease(body: &[u8]) -> Result<Option<Cow<'_, str>>, Problem> {
    let how = r#"send {"lease": "..."} with the `lease` that /v1/acquire gave"#;
    let fields = read::<LeaseFields<Text<'_>>, LeaseFields<String>>(body, how)?;
    Ok(fields.lease.map(|lease| lease.0))
}

/// A body of `/v1/settle`.
pub(super) struct Settle {
    pub(super) reservation: Reservation,
    /// The real cost.
    pub(super) cost: u64,
    /// The id by which it can be repeated.
    id: Option<String>,
}

impl Settle {
    pub(super) fn id(&self) -> Option<RequestId<'_>> {
        self.id.as_deref().and_then(|id| RequestId::new(id).ok())
    }
}

/// The reservation in a body of `/v1/settle`, and its real cost.
pub(super) fn read_settle(body: &[u8]) -> Result<Settle, Problem> {
    let how = r#"send {"reservation": "...", "cost": 123} with the `reservation` that /v1/reserve gave"#;
    let fields = read::<SettleFields<Text<'_>>, SettleFields<String>>(body, how)?;
    let reservation = required(fields.reservation, "reservation", "the one that /v1/reserve gave")?;
    let cost = required(fields.cost, "cost", "the real cost; 0 gives all back")?;
    let reservation = reservation.parse::<Reservation>();
    let reservation = reservation.map_err(|error| Problem::bad_request(format!("`reservation`: {error}")))?;
    if let Some(id) = &fields.request_id {
        read_id(id)?;
    }
    let id = fields.request_id.map(|id| id.0.into_owned());
    Ok(Settle { reservation, cost: cost.0, id })
}

fn read_id(id: &str) -> Result<RequestId<'_>, Problem> {
    RequestId::new(id).map_err(|error| Problem::bad_request(format!("`request_id`: {error}")))
}

fn required<T>(field: Option<T>, name: &str, what: &str) -> Result<T, Problem> {
    field.ok_or_else(|| Problem::bad_request(format!("`{name}` is missing: add {what}")))
}
