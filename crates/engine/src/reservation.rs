//! Reservations: costs that are estimated before the work and known after it.
//!
//! A caller reserves an estimate, which is decided and taken like any request's cost, and carries a [`Reservation`] away; when the work is done,
//! it settles it with the real cost. What was too much goes back to the window that counted it, what was too little is booked. Since rules may
//! change in between, and not every limit that a request meets is charged, a reservation remembers what was really taken, and from where.
//!
//! A reservation that nobody settles expires, and its estimate stays charged: the work may have been done, and whoever never settles must not
//! work for nothing.

mod room;
mod subject;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use tollgate_core::{Limit, Span, Time};
use tollgate_store::Key;
use tollgate_store::authority::SharedKey;

use crate::fleet::Keeper;

pub(crate) use self::room::{Claim, Estimate, Scope};
pub use self::room::{ReservationClient, ReservationSettings};
pub(crate) use self::subject::{put_number, put_subject, take_chunk, take_number, with_request};
pub use self::table::ReservationStats;
pub(crate) use self::table::{Closed, Open, Reservations, SettleEnd};

/// How a reservation is called: what a caller carries away, and brings back to settle it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation(Vec<u8>);

impl Reservation {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// How long a reservation is open if nobody says otherwise: ten minutes.
    pub const LIFE_USUAL: Span = Span::from_ticks(600 * 1_000_000_000);
    /// The longest that a reservation can be open: a day.
    pub const LIFE_MAX: Span = Span::from_ticks(86_400 * 1_000_000_000);
}

/// A text that no engine gave out as a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this is not a reservation: send back the `reservation` that was given, as it is")]
pub struct NotAReservation;

/// What was given to somebody who reserves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// By which it is settled.
    pub reservation: Reservation,
    /// Until when it can be.
    pub expires_at: Time,
}

/// What becomes of a reservation that is settled. Where the verdict of the settlement is [pending](crate::Verdict::is_pending), it has not
/// reached the shared count yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The estimate.
    pub reserved: u64,
    /// The real cost, which is charged now.
    pub charged: u64,
    /// What is given back of the estimate. A window that is over takes nothing back: whatever it counted is gone with it.
    pub returned: u64,
    /// What is booked beyond the estimate, whatever the limits say.
    pub booked: u64,
}

/// Why a reservation cannot be settled. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SettleError {
    /// Another process has made it that shares nothing with this one, or nobody.
    #[error(
        "this reservation is not known here: only the server that made it can settle it, until it stops, or one that shares its count"
    )]
    Unknown,
    /// It is done once.
    #[error("this reservation is settled already: nothing was changed")]
    Settled,
    /// Nobody has settled it in time, or it is long settled.
    #[error(
        "this reservation has expired, or was settled before it did: what is charged for it stays charged"
    )]
    Expired,
    /// The shared count does not answer, and as many settlements wait for it as may.
    #[error(
        "the shared count does not answer, and too many settlements wait for it: nothing was changed; try again"
    )]
    Unavailable,
    /// The id of a settlement is bound to its cost.
    #[error("this request id was used for another settlement of this reservation: nothing was changed")]
    IdConflict,
    /// As many ids are remembered as may be.
    #[error("too many request ids are remembered: nothing was changed; try again, or send no request id")]
    TooManyIds,
}

/// Units that were taken for a reservation, and from where.
#[derive(Clone, Debug)]
pub(crate) enum Charged {
    /// From the counters of this process.
    Here {
        /// Whose counter.
        key: Key,
        /// When.
        at: Time,
    },
    /// From this process's share of a limit, because the authority was away.
    Share {
        /// Whose counter.
        key: Key,
        /// The share.
        limit: Box<Limit>,
        /// When.
        at: Time,
    },
    /// From counters that the fleet shares.
    There(TakenThere),
}

/// Units of a limit that the fleet shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenThere {
    pub(crate) name: SharedKey,
    /// Who counts them.
    pub(crate) keeper: Keeper,
    /// When the authority counted them, in its ticks.
    pub(crate) counted_at: Time,
    /// Under which number they come back to a store, once. A database knows the numbers of its own leases only.
    pub(crate) number: u64,
}

/// What a settlement does to every limit that was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The estimate was right.
    Nothing,
    /// So many units go back.
    Return(u64),
    /// So many more are charged.
    Book(u64),
}

/// What is to be done to settle a reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dues<'a> {
    pub(crate) charged: &'a [Charged],
    pub(crate) change: Change,
    /// How long it was to be open: so long does the authority take units back.
    pub(crate) life: Span,
    /// Tells this settlement from others of the same reservation.
    pub(crate) sender: u64,
}

impl Settlement {
    /// What a real cost makes of an estimate.
    pub(crate) fn new(reserved: u64, cost: u64) -> Settlement {
        let (returned, booked) = (reserved.saturating_sub(cost), cost.saturating_sub(reserved));
        Settlement { reserved, charged: cost, returned, booked }
    }

    pub(crate) fn change(&self) -> Change {
        match (self.returned, self.booked) {
            (0, 0) => Change::Nothing,
            (0, booked) => Change::Book(booked),
            (returned, _) => Change::Return(returned),
        }
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Reservation {
    type Err = NotAReservation;

    fn from_str(text: &str) -> Result<Reservation, NotAReservation> {
        let (pairs, odd) = text.as_bytes().as_chunks::<2>();
        if !odd.is_empty() || pairs.is_empty() {
            return Err(NotAReservation);
        }
        let digit = |byte: u8| {
            char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or(NotAReservation)
        };
        let bytes = pairs.iter().map(|&[high, low]| Ok(digit(high)? << 4 | digit(low)?));
        bytes.collect::<Result<_, _>>().map(Reservation)
    }
}
