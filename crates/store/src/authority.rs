//! An authority: a truth that many ledgers share, and that has to be asked.
//!
//! What is asked and what is answered stand here, and the machines that decide when to ask: none of them does I/O or knows what time
//! it is. Events and time go in, actions come out. Whoever carries the questions (a driver) belongs elsewhere.

pub mod breaker;
pub mod debts;
pub mod deny_cache;
pub mod queue;
pub mod ring;
pub mod slots;

use std::sync::Arc;

use thiserror::Error;
use tollgate_core::{Cost, Decision, Holder, LeaseRest, Outcome, SettleOnce, SharedLimit, Span, Time};

/// Whose counter, everywhere in a fleet: a keyed hash of the key and of the shape of its limit, 128 bits of it. User input can neither
/// collide nor choose where it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedKey(pub u128);

impl SharedKey {
    /// What tables in this process are indexed by.
    #[allow(clippy::cast_possible_truncation)] // One half is wanted.
    pub(crate) fn low_half(self) -> u64 {
        self.0 as u64
    }

    /// What a ring of nodes is indexed by: another half, so that the keys of one node fill a table evenly.
    #[allow(clippy::cast_possible_truncation)] // Nothing is lost.
    pub(crate) fn high_half(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// What one key is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Whose counter.
    pub key: SharedKey,
    /// Under which limit.
    pub limit: Arc<SharedLimit>,
    /// What is to be done.
    pub act: Act,
    /// Who it is written down for, where that is kept for people to read.
    pub account: Option<Arc<Account>>,
}

/// Whose usage a counter counts, in words: a counter itself has only a hash for a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    /// The tenant, or what is counted where there is none.
    pub subject: Box<str>,
    /// The rule, and which of its limits.
    pub rule: Box<str>,
}

/// A place that was chosen for some keys, by the number under which whoever carries questions knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pin(pub u16);

impl Pin {
    /// The database: what is counted there survives whatever happens to processes.
    pub const DATABASE: Pin = Pin(u16::MAX);
}

/// A question, and where it goes if not to where its key says.
pub type Directed = (Question, Option<Pin>);

/// What is to be done with one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing: the answer is what [`Act::Take`] would get.
    Peek(Cost),
    /// Takes the units if the limit admits them. Of a concurrency limit, they are held under the name in the grant.
    Take(Cost),
    /// Writes down what is already spent.
    Book(Cost),
    /// Gives back what was taken at that moment of the authority's time.
    GiveBack {
        /// How many units.
        units: u64,
        /// When they were taken: [`Grant::at`].
        counted_at: Time,
        /// Whether it is to be as if they had never been taken: see [`tollgate_core::Refund::undoes`].
        undoes: bool,
    },
    /// Ends a hold.
    Release(Holder),
    /// Forgets all that was counted.
    Reset,
    /// Takes as many of the units as there are for one of so many nodes, to be spent later.
    Lease {
        /// How many are wanted.
        units: u64,
        /// How many nodes there are.
        nodes: u32,
        /// The number of the lease, by which what is left of it comes back.
        number: u64,
        /// The longest that it may be spent, in nanoseconds.
        life: Span,
    },
    /// Gives back what is left of a lease.
    Return(LeaseRest),
    /// Settles a reservation, or repeats a booking or refund that was certainly not done: once, however often it is sent.
    Settle(SettleOnce),
    /// Does something under the id of a request, once: see [`OnceAct`].
    Once(OnceId, OnceAct),
}

/// The id of a request at one counter. The counter remembers it for ten minutes if the request was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OnceId {
    /// Tells ids of one counter apart, below 2^63.
    pub number: u64,
    /// What the id is bound to, below 2^63: the same number with another fingerprint is refused.
    pub fingerprint: u64,
}

/// What is done once for the id of a request. A repeat changes nothing, and is answered as [`Grant::is_repeated`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnceAct {
    /// As [`Act::Take`]. A denial is not remembered.
    Take(Cost),
    /// As [`Act::Book`]. It is remembered, over the limit or not.
    Book(Cost),
    /// As [`Act::GiveBack`] of unused units.
    GiveBack {
        /// How many units.
        units: u64,
        /// When they were taken.
        counted_at: Time,
    },
    /// One of those who sent the id was denied after all. When all of them were, the units come back and the id is forgotten.
    Undo {
        /// How many units.
        units: u64,
        /// See [`tollgate_core::Refund::undoes`].
        undoes: bool,
    },
}

impl Act {
    /// Whether it has happened already, whatever is answered: costs that were spent, and units that nobody used.
    pub fn is_fact(self) -> bool {
        match self {
            Act::Book(_) | Act::GiveBack { .. } => true,
            Act::Once(_, act) => !matches!(act, OnceAct::Take(_)),
            _ => false,
        }
    }

    /// Whether it may be sent again although it may have been done: it has a number and counts once.
    pub fn counts_once(self) -> bool {
        match self {
            Act::Return(_) | Act::Settle(_) => true,
            Act::Once(_, act) => matches!(act, OnceAct::Book(_) | OnceAct::GiveBack { .. }),
            _ => false,
        }
    }

    /// Whether it takes units that would be granted to nobody if the asker does not wait any more, or nothing at all.
    pub fn is_for_asker(self) -> bool {
        matches!(self, Act::Peek(_) | Act::Take(_) | Act::Lease { .. } | Act::Once(_, OnceAct::Take(_)))
    }
}

/// What an authority answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The answer, in nanoseconds like every other. For what is given back or released, how the counter stands after it; a release of
    /// something that is not held any more is a denial.
    pub decision: Decision,
    /// When it was decided, by the authority's clock, in ticks of the limit.
    pub at: Time,
    /// Under which name units are held, where they are.
    pub holder: Option<Holder>,
    /// How many units a lease has, if one was asked for.
    pub leased: u64,
    /// Whether the counter has seen the id of the request before: nothing was changed.
    pub is_repeated: bool,
}

impl Grant {
    /// Whether the id of the request belongs to another request. Nothing was changed.
    pub fn is_conflict(&self) -> bool {
        self.is_repeated && self.decision.outcome == Outcome::Busy
    }
}

impl Question {
    /// What has to be done so that a grant of this has not taken anything. What is booked was spent, whoever waits.
    pub fn undo(&self, grant: &Grant) -> Option<Act> {
        match (self.act, grant.holder) {
            (Act::Take(Cost::ZERO), _) => None,
            (Act::Take(_), _) if !grant.decision.is_allowed() => None,
            (Act::Take(_), Some(holder)) => Some(Act::Release(holder)),
            (Act::Take(cost), None) => {
                Some(Act::GiveBack { units: cost.units(), counted_at: grant.at, undoes: true })
            }
            // Not as what is left of a lease comes back: nobody counts it among what is out.
            (Act::Lease { .. }, _) if grant.leased > 0 => {
                Some(Act::GiveBack { units: grant.leased, counted_at: grant.at, undoes: true })
            }
            (Act::Once(id, OnceAct::Take(cost)), _) if grant.decision.is_allowed() => {
                Some(Act::Once(id, OnceAct::Undo { units: cost.units(), undoes: true }))
            }
            _ => None,
        }
    }
}

/// Why there is no grant. Whatever was asked may or may not have been done, except where said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Failure {
    /// No answer in time. What is granted after all is given back.
    #[error("no answer in time")]
    TimedOut,
    /// There is no connection. Nothing was done.
    #[error("out of reach")]
    Unreachable,
    /// Nothing was asked: it has failed too often of late.
    #[error("not asked: it has failed too often of late")]
    NotAsked,
    /// It answered that it cannot. Nothing that it was asked to write down will be.
    #[error("it cannot answer")]
    Refused,
    /// Nothing was asked: too many are waiting already.
    #[error("not asked: too many are waiting")]
    Crowded,
    /// It answered that it cannot now. Nothing was done.
    #[error("it cannot answer now")]
    NotNow,
    /// The connection broke after the question was sent.
    #[error("the connection broke")]
    Lost,
}

impl Failure {
    /// Whether nothing was done, and nothing will be.
    pub fn is_undone(self) -> bool {
        match self {
            Failure::Unreachable | Failure::NotAsked | Failure::Crowded | Failure::NotNow => true,
            Failure::TimedOut | Failure::Refused | Failure::Lost => false,
        }
    }

    /// In a word, for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Failure::TimedOut => "timed_out",
            Failure::Unreachable => "unreachable",
            Failure::NotAsked => "not_asked",
            Failure::Refused => "refused",
            Failure::Crowded => "crowded",
            Failure::NotNow => "not_now",
            Failure::Lost => "lost",
        }
    }
}

/// Scatters a number over all 64 bits (the finish of splitmix64): for jitter and for places, never for secrets.
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
