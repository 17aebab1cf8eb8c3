//! Settlements and bookings that the authority has not confirmed: kept, bounded, and retried until it has, or for ten minutes.

use tollgate_core::{Outcome, SettleChange, SettleOnce, Span, Time};

use super::{Errand, Purses, lock};
use crate::authority::{Act, Directed, Failure, Grant, OnceAct};

/// They are retried for so long: an authority may be away for minutes.
const RETRIED_FOR: Span = Span::from_ticks(600_000_000_000);
/// What has the id of a request is retried for a minute less than the authority remembers the id: the last retry must find it.
const ONCE_RETRIED_FOR: Span = Span::from_ticks(540_000_000_000);

/// Numbers about settlements and bookings that were not confirmed when their caller was answered, one for each limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnconfirmedStats {
    /// How many are being retried.
    pub waiting: u64,
    /// How many were kept to be retried, ever.
    pub kept: u64,
    /// How many the authority refused later, because the reservation was settled already, or the time was over, ever.
    pub refused: u64,
    /// How many were given up, after ten minutes of retries, ever.
    pub lost: u64,
    /// The units that were to be booked by those that were given up, ever.
    pub lost_booked_units: u64,
    /// The units that were to be given back by those that were given up, ever.
    pub lost_returned_units: u64,
}

impl Purses {
    /// Keeps an [`Act::Settle`] or [`Act::Once`] that the authority has not confirmed, to be retried for about ten minutes, which is safe because it
    /// counts once. False if there is no room: then nothing is kept.
    pub fn keep_unconfirmed(&self, question: Directed, now: Time) -> bool {
        let mut unconfirmed = lock(&self.unconfirmed);
        if unconfirmed.waiting >= self.settings.errands_max as u64 {
            return false;
        }
        unconfirmed.waiting += 1;
        unconfirmed.kept += 1;
        drop(unconfirmed);
        let is_once = matches!(question.0.act, Act::Once(..));
        let until = Some(now.plus(if is_once { ONCE_RETRIED_FOR } else { RETRIED_FOR }));
        let errand = Errand { purse: question.0.key.low_half(), question, until, is_unconfirmed: true };
        self.run(errand);
        true
    }

    /// What has become of one of them. Without an answer it is retried.
    pub(super) fn end_unconfirmed(&self, errand: Errand, answer: Result<&Grant, Failure>, now: Time) {
        let is_over = errand.until.is_none_or(|until| now >= until);
        if answer.is_err() && !is_over {
            return self.retry(errand, now);
        }
        let mut unconfirmed = lock(&self.unconfirmed);
        unconfirmed.waiting = unconfirmed.waiting.saturating_sub(1);
        match (answer, errand.question.0.act) {
            (Ok(grant), _) => unconfirmed.refused += u64::from(grant.decision.outcome == Outcome::Busy),
            (Err(_), Act::Settle(SettleOnce { change: SettleChange::Book(units), .. })) => {
                unconfirmed.lose(units, 0);
            }
            (Err(_), Act::Settle(SettleOnce { change: SettleChange::Return(units), .. })) => {
                unconfirmed.lose(0, units);
            }
            (Err(_), Act::Once(_, OnceAct::Book(cost))) => unconfirmed.lose(cost.units(), 0),
            (Err(_), Act::Once(_, OnceAct::GiveBack { units, .. })) => unconfirmed.lose(0, units),
            (Err(_), _) => unconfirmed.lose(0, 0),
        }
    }
}

impl UnconfirmedStats {
    fn lose(&mut self, booked_units: u64, returned_units: u64) {
        self.lost += 1;
        self.lost_booked_units = self.lost_booked_units.saturating_add(booked_units);
        self.lost_returned_units = self.lost_returned_units.saturating_add(returned_units);
    }
}
