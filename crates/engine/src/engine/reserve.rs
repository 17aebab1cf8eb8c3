//! Requests that reserve an estimate, and settle it when the real cost is known.

use std::cell::RefCell;
use std::mem;

use tollgate_core::{Span, Time};

use super::{Engine, Found, Inquiry, Pending, Purpose, Resumed, Settled, Step};
use crate::ids::{Mark, What};
use crate::request::{Request, RequestError, Subject};
use crate::request_id::{RequestId, number};
use crate::reservation::{
    Closed, Dues, Estimate, Open, Reservation, ReservationClient, ReservationStats, Reserved, SettleEnd,
    SettleError, Settlement, put_subject, with_request,
};
use crate::verdict::{Answer, DecidedBy, Verdict};

/// The shortest that a reservation is open.
const LIFE_MIN: Span = Span::from_ticks(1_000_000);
/// Senders of settlements are below 2^53, hashes below 2^63.
const SENDER_SHIFT: u32 = 10;

impl Engine {
    /// As [`Engine::begin`], for a request whose cost is an estimate: see [`Engine::reserve`]. What is reserved by a request that has to wait is told by
    /// [`Engine::resume`].
    pub fn begin_reserve(
        &self,
        request: &Request<'_>,
        life: Span,
        now: Time,
    ) -> Result<(Step, Option<Reserved>), RequestError> {
        self.begin_reserve_for(None, request, life, now)
    }

    /// As [`Engine::begin_reserve`], for a client that takes at most a part of the open
    /// reservations:
    /// [`ReservationSettings::client_parts`](crate::ReservationSettings::client_parts).
    pub fn begin_reserve_for(
        &self,
        client: Option<ReservationClient>,
        request: &Request<'_>,
        life: Span,
        now: Time,
    ) -> Result<(Step, Option<Reserved>), RequestError> {
        check_reservable(request, life)?;
        let mut subject = Vec::new();
        put_subject(&mut subject, &request.subject);
        let estimate = Estimate { subject: subject.into(), cost: request.cost, life };
        let claim = RefCell::new(self.reservations.claim(estimate, now)?);
        let purpose = Purpose::Reserve { claim: &claim, client };
        let mut step = self.step(&Inquiry { request, purpose, now })?;
        let claim = claim.into_inner();
        let mut reserved = None;
        match &mut step {
            Step::Ready(verdict) => {
                let charged = mem::take(&mut verdict.answer.charged);
                reserved = verdict.allowed.then(|| self.reservations.open(claim, charged));
            }
            Step::Pending(pending) => pending.claim = Some(claim),
        }
        Ok((step, reserved))
    }

    /// Decides a request whose cost is an estimate, as [`Engine::decide`] does. If it passes, the estimate is taken, and the reservation says by
    /// which name it is settled when the real cost is known: by [`Engine::settle_reservation`], within its life. After that it stays charged as
    /// it is.
    pub fn reserve(
        &self,
        request: &Request<'_>,
        life: Span,
        now: Time,
    ) -> Result<(Verdict, Option<Reserved>), RequestError> {
        match self.begin_reserve(request, life, now)? {
            (Step::Ready(verdict), reserved) => Ok((verdict, reserved)),
            (Step::Pending(pending), _) => {
                let Resumed { verdict, reserved, .. } = self.resume(pending, &[], now);
                Ok((verdict, reserved))
            }
        }
    }

    /// As [`Engine::settle_reservation`], but says what has to be asked of an authority where counters are shared. The verdict, now or by
    /// [`Engine::resume`], tells how the limits stand that were charged.
    pub fn begin_settle(
        &self,
        reservation: &Reservation,
        cost: u64,
        now: Time,
    ) -> Result<(Step, Settlement), SettleError> {
        self.begin_settle_once(reservation, cost, None, now)
    }

    /// As [`Engine::begin_settle`], under an id: a repeat with the same id and cost is answered as the first one was. The verdict says that it
    /// is [repeated](Verdict::is_repeated).
    pub fn begin_settle_once(
        &self,
        reservation: &Reservation,
        cost: u64,
        id: Option<RequestId<'_>>,
        now: Time,
    ) -> Result<(Step, Settlement), SettleError> {
        let Some(id) = id else {
            let closed = self.reservations.close(reservation, now)?;
            return self.settle_closed(closed, cost, self.reservations.sender(), now);
        };
        let mut memory = self.ids.memory(now);
        let name = self.ids.name(reservation.bytes(), 0, id);
        let fingerprint = number(&[b"settle", &cost.to_le_bytes()]);
        let mark = Mark { name, fingerprint, tenant: 0 };
        if let Some(What::Settled { settlement, is_pending }) =
            memory.recall(mark).map_err(|_| SettleError::IdConflict)?
        {
            self.ids.count_repeat();
            let answer = Answer { is_pending, is_repeated: true, ..Answer::default() };
            let found = Found { allowed: true, decided_by: DecidedBy::Ledger, answer };
            return Ok((Step::Ready(found.into_verdict(now, self.snapshot.load())), settlement));
        }
        let mut closed = self.reservations.close(reservation, now)?;
        if !closed.open.charged.is_empty() {
            let tenant = with_request(&closed.open.subject, |request| self.ids_tenant(request));
            let tenant = tenant.flatten().unwrap_or(0);
            if memory.check_room(tenant, 1).is_err() {
                drop(memory);
                // It is open again.
                let end = SettleEnd::Failed(SettleError::Unavailable);
                self.reservations.end(closed, &Settlement::new(0, 0), end);
                return Err(SettleError::TooManyIds);
            }
            let settlement = Settlement::new(closed.open.cost, cost);
            memory.remember(Mark { tenant, ..mark }, What::Settled { settlement, is_pending: true });
            closed.id = Some(name);
        }
        drop(memory);
        // The same at every server of the fleet.
        let sender =
            number(&[reservation.bytes(), &cost.to_le_bytes(), id.as_str().as_bytes()]) >> SENDER_SHIFT;
        self.settle_closed(closed, cost, sender, now)
    }

    fn settle_closed(
        &self,
        closed: Closed,
        cost: u64,
        sender: u64,
        now: Time,
    ) -> Result<(Step, Settlement), SettleError> {
        let Open { subject, cost: reserved, charged, life, .. } = &closed.open;
        let mut settlement = Settlement::new(*reserved, cost);
        if charged.is_empty() {
            // No limit has taken anything, so there is nothing to give back to one, and none to book on.
            (settlement.returned, settlement.booked) = (0, 0);
            let found = Found { allowed: true, decided_by: DecidedBy::Ledger, answer: Answer::default() };
            return Ok((Step::Ready(found.into_verdict(now, self.snapshot.load())), settlement));
        }
        let dues = Dues { charged, change: settlement.change(), life: *life, sender };
        let settle = |request: &Request<'_>| {
            // A policy that is gone has no counters any more.
            let step = self.step(&Inquiry { request, purpose: Purpose::Settle(dues), now });
            step.unwrap_or_else(|_| {
                Step::Ready(Found::bypassed(request).into_verdict(now, self.snapshot.load()))
            })
        };
        let Some(mut step) = with_request(subject, settle) else {
            return self.not_settled(closed, &settlement, SettleError::Unknown, now);
        };
        match &mut step {
            Step::Pending(pending) => pending.settles = Some(Box::new((closed, settlement))),
            // Nothing that it has charged is shared any more.
            Step::Ready(_) if closed.is_foreign => {
                return self.not_settled(closed, &settlement, SettleError::Unknown, now);
            }
            Step::Ready(_) => self.end(closed, &settlement, SettleEnd::Confirmed, now),
        }
        Ok((step, settlement))
    }

    fn not_settled<T>(
        &self,
        closed: Closed,
        settlement: &Settlement,
        error: SettleError,
        now: Time,
    ) -> Result<T, SettleError> {
        self.end(closed, settlement, SettleEnd::Failed(error), now);
        Err(error)
    }

    fn end(&self, closed: Closed, settlement: &Settlement, end: SettleEnd, now: Time) {
        if let Some(id) = closed.id {
            match end {
                SettleEnd::Failed(_) => self.ids.forget(id, now),
                SettleEnd::Confirmed | SettleEnd::Repeated | SettleEnd::Pending => {
                    self.ids.settled(id, end == SettleEnd::Pending, now);
                }
            }
        }
        self.reservations.end(closed, settlement, end);
    }

    /// Ends a settlement with what the authority has said. Returns why it was not done, if it was not.
    pub(super) fn end_settlement(
        &self,
        (closed, settlement): (Closed, Settlement),
        settled: &Settled,
        answer: &Answer,
        now: Time,
    ) -> Option<SettleError> {
        let end = match settled.settling.end(answer.is_pending) {
            SettleEnd::Confirmed if answer.is_repeated => SettleEnd::Repeated,
            end => end,
        };
        self.end(closed, &settlement, end, now);
        match end {
            SettleEnd::Failed(error) => Some(error),
            SettleEnd::Confirmed | SettleEnd::Repeated | SettleEnd::Pending => None,
        }
    }

    /// Settles a reservation, once: what its estimate was too much goes back to the windows that counted it, what it was too little is booked on the
    /// same limits, whatever they say. The verdict tells how these stand.
    ///
    /// Nobody else is asked. Where counters are shared, use [`Engine::begin_settle`]: by this, they are told by errands, and the verdict is
    /// [pending](Verdict::is_pending).
    pub fn settle_reservation(
        &self,
        reservation: &Reservation,
        cost: u64,
        now: Time,
    ) -> Result<(Verdict, Settlement), SettleError> {
        match self.begin_settle(reservation, cost, now)? {
            (Step::Ready(verdict), settlement) => Ok((verdict, settlement)),
            (Step::Pending(pending), settlement) => {
                let Resumed { verdict, settle_error, .. } = self.resume(pending, &[], now);
                settle_error.map_or(Ok((verdict, settlement)), Err)
            }
        }
    }

    /// Numbers about reservations, for metrics.
    pub fn reservation_stats(&self) -> ReservationStats {
        self.reservations.stats()
    }

    /// The verdict of a request about which nobody else has to be asked. What was noted of it stays with it.
    pub(super) fn resume_here(&self, mut pending: Pending, now: Time) -> Verdict {
        let (passes, _) = pending.settle(self, &[], now);
        let (allowed, decided_by) = (passes || self.settings.shadow_mode, pending.answer.decided_by(passes));
        Found { allowed, decided_by, answer: pending.answer }
            .into_verdict(now, arc_swap::Guard::from_inner(pending.snapshot))
    }
}

/// Whether a request can be settled later: it has one cost, which it asks for.
fn check_reservable(request: &Request<'_>, life: Span) -> Result<(), RequestError> {
    if !(LIFE_MIN..=Reservation::LIFE_MAX).contains(&life) {
        return Err(RequestError::ReservedTooLong);
    }
    let Subject::Descriptors { descriptors, .. } = request.subject else { return Ok(()) };
    match descriptors.iter().position(|descriptor| descriptor.cost.is_some() || descriptor.refund) {
        Some(index) => Err(RequestError::EstimateOfItsOwn { index }),
        None => Ok(()),
    }
}
