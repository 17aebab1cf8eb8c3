//! What a caller asks: about descriptors of a domain, or about a key under a named policy.

use std::fmt;

use thiserror::Error;
use tollgate_policy::{Entry, Snapshot, Unit};

use crate::request_id::RequestId;
use crate::reservation::Reservation;

/// A question to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What the question is about.
    pub subject: Subject<'a>,
    /// How many units, where a descriptor does not say it itself. Zero asks without taking.
    pub cost: u64,
    /// Whether nothing may change: the answer is the one that a request would get. A counter that two descriptors meet is looked at
    /// for each of them by itself, and what would be given back is not.
    pub peek: bool,
    /// By which a repeat of the request is known: whatever was charged under it is charged once. A peek has no use for it.
    pub id: Option<RequestId<'a>>,
}

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// Descriptors, each of which may meet a rule of the domain.
    Descriptors {
        /// The domain.
        domain: &'a str,
        /// The descriptors. All of them are asked.
        descriptors: &'a [Descriptor<'a>],
    },
    /// A key that the caller has built, under a policy that it names.
    Policy {
        /// The name of the policy.
        name: &'a str,
        /// Whom it counts. Any bytes.
        key: &'a [u8],
        /// The tier of whoever asks, if the caller knows it.
        tier: Option<&'a str>,
    },
}

/// A list of entries that may meet a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// Keys and values, in the order of the rules' levels.
    pub entries: &'a [Entry<'a>],
    /// A cost of its own, instead of the request's. Zero asks without taking.
    pub cost: Option<u64>,
    /// Whether the units are given back instead of taken.
    pub refund: bool,
    /// A limit that the caller brings along. The rules are not asked.
    pub limit: Option<OwnLimit>,
}

/// A limit that the caller brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLimit {
    /// Units per unit of time. Zero lets nothing through.
    pub requests_per_unit: u64,
    /// The unit of time. `None`: the caller sent one that does not exist.
    pub unit: Option<Unit>,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// No domain.
    #[error("rate limit domain must not be empty")]
    NoDomain,
    /// No descriptors.
    #[error("rate limit descriptor list must not be empty")]
    NoDescriptors,
    /// Nothing was loaded yet.
    #[error("no rate limit configuration loaded")]
    NotLoaded,
    /// A limit of the caller's without a unit of time.
    #[error(
        "descriptor {index}: its own limit has an unknown unit; use second, minute, hour, day, month or year"
    )]
    UnknownUnit {
        /// Which descriptor, counted from 0.
        index: usize,
    },
    /// A policy that does not exist.
    #[error("unknown policy \"{name}\"{}", .known.after("it could be"))]
    UnknownPolicy {
        /// The name given.
        name: String,
        /// Those that exist.
        known: Known,
    },
    /// A tier that the policy does not have.
    #[error("policy \"{policy}\" has no tier \"{tier}\"{}", .known.after("its tiers are"))]
    UnknownTier {
        /// The policy.
        policy: String,
        /// The name given.
        tier: String,
        /// Those that exist.
        known: Known,
    },
    /// A lease is for limits on how many may be at it at the same time.
    #[error("nothing to hold: no concurrency limit applies to this request")]
    NothingToHold,
    /// A reservation is for what is spent.
    #[error(
        "a concurrency limit applies to this request, and places in it are held, not reserved: acquire and release them instead"
    )]
    HeldNotReserved,
    /// A reservation has one estimate.
    #[error(
        "descriptor {index} has a cost of its own or gives units back: a reservation has one estimate for all of its descriptors"
    )]
    EstimateOfItsOwn {
        /// Which descriptor, counted from 0.
        index: usize,
    },
    /// A reservation that would never end, or at once.
    #[error("a reservation is open for at least a millisecond and at most {} seconds", RESERVED_S_MAX)]
    ReservedTooLong,
    /// The table of reservations is full.
    #[error(
        "too many reservations are open on this server: settle some, or try again when some have expired"
    )]
    TooManyReservations,
    /// One key, tenant or client has all that one may have: others still reserve.
    #[error(
        "too many reservations of this {0} are open: settle some of them, or try again when some have expired"
    )]
    TooManyReservationsOf(ReservationScope),
    /// The id of a request is bound to what it asks.
    #[error(
        "this request id was used for another request: the same id needs the same domain or policy, key and cost"
    )]
    IdConflict,
    /// As many ids are remembered as may be, of all or of one tenant. Nothing was charged.
    #[error("too many request ids are remembered: nothing was charged; try again, or send no request id")]
    TooManyIds,
    /// A place that is held has a name of its own.
    #[error(
        "a concurrency limit applies to this request, and places in it are held: a request id does not go with them"
    )]
    HeldNotRepeated,
    /// Requests that hold or reserve something are not repeated by an id.
    #[error("a request id goes with checks, bookings and settlements only")]
    IdNotTaken,
}

/// What has a part of the reservations of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationScope {
    /// A counter that is charged.
    Key,
    /// A tenant.
    Tenant,
    /// A client, where the caller names one.
    Client,
}

impl fmt::Display for ReservationScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReservationScope::Key => "key",
            ReservationScope::Tenant => "tenant",
            ReservationScope::Client => "client",
        })
    }
}

const RESERVED_S_MAX: u64 = Reservation::LIFE_MAX.ticks() / 1_000_000_000;

/// Names that exist, for whoever gave one that does not: the first few, and how many there are in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The first names.
    pub names: Vec<String>,
    /// How many there are.
    pub count: usize,
}

impl Known {
    /// At most this many names are listed: a message is for people, and whoever sends wrong names must not cause much work.
    const LISTED_MAX: usize = 8;

    pub(crate) fn new<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Known {
        Known { count: names.len(), names: names.take(Known::LISTED_MAX).map(str::to_owned).collect() }
    }

    fn after(&self, introduction: &str) -> String {
        match self.count - self.names.len() {
            _ if self.names.is_empty() => String::new(),
            0 => format!("; {introduction} {}", self.names.join(", ")),
            more => format!("; {introduction} {}, and {more} more", self.names.join(", ")),
        }
    }
}

impl<'a> Request<'a> {
    /// Asks for one unit of everything that the descriptors meet.
    pub const fn new(domain: &'a str, descriptors: &'a [Descriptor<'a>]) -> Request<'a> {
        Request { subject: Subject::Descriptors { domain, descriptors }, cost: 1, peek: false, id: None }
    }

    /// Asks for one unit of a key under a named policy.
    pub const fn policy(name: &'a str, key: &'a [u8]) -> Request<'a> {
        Request { subject: Subject::Policy { name, key, tier: None }, cost: 1, peek: false, id: None }
    }

    /// The same question for so many units.
    #[must_use]
    pub const fn cost(self, cost: u64) -> Request<'a> {
        Request { cost, ..self }
    }

    /// The same question, but nothing is taken.
    #[must_use]
    pub const fn peek(self) -> Request<'a> {
        Request { peek: true, ..self }
    }

    /// The same question under an id: however often it is sent, it is charged once.
    #[must_use]
    pub const fn id(self, id: RequestId<'a>) -> Request<'a> {
        Request { id: Some(id), ..self }
    }

    /// The same question for somebody of a tier. Descriptors find their tenant's tier themselves: this is for policies.
    #[must_use]
    pub const fn tier(self, tier: &'a str) -> Request<'a> {
        match self.subject {
            Subject::Policy { name, key, .. } => {
                Request { subject: Subject::Policy { name, key, tier: Some(tier) }, ..self }
            }
            Subject::Descriptors { .. } => self,
        }
    }

    /// The domain; empty where a policy is asked.
    pub const fn domain(&self) -> &'a str {
        match self.subject {
            Subject::Descriptors { domain, .. } => domain,
            Subject::Policy { .. } => "",
        }
    }

    /// Whether the question can be answered at all, and by which rules: those that are in force.
    pub(crate) fn answerable_by<'s>(
        &self,
        snapshot: Option<&'s Snapshot>,
    ) -> Result<&'s Snapshot, RequestError> {
        match self.subject {
            Subject::Descriptors { domain: "", .. } => Err(RequestError::NoDomain),
            Subject::Descriptors { descriptors: [], .. } => Err(RequestError::NoDescriptors),
            Subject::Descriptors { .. } | Subject::Policy { .. } => snapshot.ok_or(RequestError::NotLoaded),
        }
    }

    /// How many answers it gets: one for each descriptor, or one for a policy.
    pub(crate) fn subjects(&self) -> usize {
        match self.subject {
            Subject::Descriptors { descriptors, .. } => descriptors.len(),
            Subject::Policy { .. } => 1,
        }
    }
}

impl<'a> Descriptor<'a> {
    /// A descriptor of these entries.
    pub const fn new(entries: &'a [Entry<'a>]) -> Descriptor<'a> {
        Descriptor { entries, cost: None, refund: false, limit: None }
    }
}
