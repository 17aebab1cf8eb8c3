//! Requests whose answers may have to be waited for, because counters are shared with others.
//!
//! What this process can say by itself is found out at once, in [`Gate::begin`]. Then the shared counters are asked, about one request or
//! about several together; and [`Begun::conclude`] makes the verdict of what they say.

use std::mem;

use tollgate::authority::{Directed, Failure, Grant};
use tollgate::core::{Decision, Span, Time};
use tollgate::{
    DecidedBy, Lease, Pending, ReleaseError, Released, Request, RequestError, RequestId, Reservation,
    ReservationClient, Reserved, Resumed, SettleError, Settlement, Step, Throttle, Verdict,
};

use super::Gate;
use crate::metrics::Protocol;

/// What shared counters say to one question.
pub(crate) type Granted = Result<Grant, Failure>;

/// A request on its way to its answer. If nobody waits for it any more, what it has taken on the way is given back.
#[must_use = "it is answered when it is concluded"]
pub(crate) struct Begun<'g> {
    gate: &'g Gate,
    step: Step,
    lease: Option<Lease>,
    reserved: Option<Reserved>,
    protocol: Protocol,
    counts: Counts,
    since: Time,
}

/// How a request is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    /// As what was decided.
    Decided,
    /// As one that has taken nothing.
    Peek,
    /// Not: what was decided was counted when it was reserved.
    Settled,
}

impl Counts {
    fn of(request: &Request<'_>) -> Counts {
        if request.peek { Counts::Peek } else { Counts::Decided }
    }
}

/// What a request has come to.
struct Ended {
    verdict: Verdict,
    lease: Option<Lease>,
    reserved: Option<Reserved>,
    /// Why a reservation was not settled, if it was not.
    settle_error: Option<SettleError>,
    /// Why there is no answer, if there is none.
    error: Option<RequestError>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Step::Pending(pending) = self.take_step() {
            self.gate.engine.abandon(pending, self.gate.now());
            self.gate.ring();
        }
    }
}

impl Begun<'_> {
    /// What has to be asked of shared counters.
    pub(crate) fn questions(&self) -> &[Directed] {
        match &self.step {
            Step::Pending(pending) => pending.questions(),
            Step::Ready(_) => &[],
        }
    }

    /// The verdict, and what is held now. Counts what was decided.
    pub(crate) fn conclude(self, granted: &[Granted]) -> (Verdict, Option<Lease>) {
        let Ended { verdict, lease, .. } = self.end(granted);
        (verdict, lease)
    }

    fn end(mut self, granted: &[Granted]) -> Ended {
        let gate = self.gate;
        let ended = match self.take_step() {
            Step::Ready(verdict) => {
                let (lease, reserved) = (self.lease.take(), self.reserved.take());
                Ended { verdict, lease, reserved, settle_error: None, error: None }
            }
            Step::Pending(pending) => {
                let resumed = gate.engine.resume(pending, granted, gate.now());
                let Resumed { verdict, lease, reserved, settle_error, error, tell } = resumed;
                gate.send(tell);
                gate.ring();
                Ended { verdict, lease, reserved, settle_error, error }
            }
        };
        match self.counts {
            _ if ended.error.is_some() => gate.metrics.observe_bad_request(self.protocol),
            Counts::Decided => gate.observe(&ended.verdict, false, self.protocol, self.since),
            Counts::Peek => gate.observe(&ended.verdict, true, self.protocol, self.since),
            Counts::Settled => {}
        }
        ended
    }

    /// What it has come to. What is left has taken nothing.
    fn take_step(&mut self) -> Step {
        mem::replace(&mut self.step, Step::Pending(Pending::default()))
    }

    /// Asks shared counters, if they have to be asked, and concludes.
    pub(crate) async fn finish(self) -> (Verdict, Option<Lease>) {
        let granted = self.granted().await;
        self.conclude(&granted)
    }

    /// As [`Begun::finish`], of a request that may have an id: that may turn out to be another request's.
    pub(crate) async fn finish_once(self) -> Result<Verdict, RequestError> {
        let granted = self.granted().await;
        let Ended { verdict, error, .. } = self.end(&granted);
        error.map_or(Ok(verdict), Err)
    }

    /// As [`Begun::finish`], of a request that reserves.
    pub(crate) async fn finish_reserving(self) -> (Verdict, Option<Reserved>) {
        let granted = self.granted().await;
        let Ended { verdict, reserved, .. } = self.end(&granted);
        (verdict, reserved)
    }

    async fn granted(&self) -> Vec<Granted> {
        match self.questions() {
            [] => Vec::new(),
            questions => self.gate.ask(questions).await,
        }
    }
}

impl Gate {
    /// Begins to decide a request.
    pub(crate) fn begin(&self, request: &Request<'_>, protocol: Protocol) -> Result<Begun<'_>, RequestError> {
        let since = self.clock.now();
        let step = self.engine.begin(request, since);
        let step = step.inspect_err(|_| self.metrics.observe_bad_request(protocol))?;
        self.ring();
        let counts = Counts::of(request);
        Ok(Begun { gate: self, step, lease: None, reserved: None, protocol, counts, since })
    }

    /// Begins to decide a request whose cost is an estimate. What is reserved counts for the
    /// client, if there is one.
    pub(crate) fn begin_reserve(
        &self,
        client: Option<ReservationClient>,
        request: &Request<'_>,
        life: Span,
        protocol: Protocol,
    ) -> Result<Begun<'_>, RequestError> {
        let since = self.clock.now();
        let step = self.engine.begin_reserve_for(client, request, life, since);
        let (step, reserved) = step.inspect_err(|_| self.metrics.observe_bad_request(protocol))?;
        self.ring();
        Ok(Begun { gate: self, step, lease: None, reserved, protocol, counts: Counts::Decided, since })
    }

    /// Settles a reservation. The verdict tells how the limits stand that were charged, and whether the shared count has not confirmed it yet.
    pub(crate) async fn settle(
        &self,
        reservation: &Reservation,
        cost: u64,
        id: Option<RequestId<'_>>,
        protocol: Protocol,
    ) -> Result<(Verdict, Settlement), SettleError> {
        let since = self.clock.now();
        let step = self.engine.begin_settle_once(reservation, cost, id, since);
        let (step, settlement) = step.inspect_err(|_| self.metrics.observe_bad_request(protocol))?;
        self.ring();
        let (lease, reserved, counts) = (None, None, Counts::Settled);
        let begun = Begun { gate: self, step, lease, reserved, protocol, counts, since };
        let granted = begun.granted().await;
        let Ended { verdict, settle_error, .. } = begun.end(&granted);
        settle_error.map_or(Ok((verdict, settlement)), Err)
    }

    /// Begins to decide a request that holds what it is given.
    pub(crate) fn begin_hold(
        &self,
        request: &Request<'_>,
        protocol: Protocol,
    ) -> Result<Begun<'_>, RequestError> {
        let since = self.clock.now();
        let step = self.engine.begin_hold(request, since);
        let (step, lease) = step.inspect_err(|_| self.metrics.observe_bad_request(protocol))?;
        Ok(Begun { gate: self, step, lease, reserved: None, protocol, counts: Counts::of(request), since })
    }

    /// Ends what a lease holds here, and says what shared counters are to be told.
    pub(crate) fn begin_release(&self, lease: &Lease, protocol: Protocol) -> Result<Released, ReleaseError> {
        let released = self.engine.release(lease, self.clock.now());
        released.inspect_err(|_| self.metrics.observe_bad_request(protocol))
    }

    /// Ends what a lease holds. False if it held nothing any more.
    pub(crate) async fn release(&self, released: Released) -> Result<bool, Failure> {
        let granted = match released.questions.as_slice() {
            [] => Vec::new(),
            questions => self.ask(questions).await,
        };
        has_held(&released, &granted)
    }

    /// Decides a call about which shared counters were asked.
    pub(crate) fn conclude_throttle(&self, throttle: &Throttle, granted: Granted, since: Time) -> Decision {
        let decided_by = if granted.is_ok() { DecidedBy::Authority } else { DecidedBy::FailLocal };
        if throttle.cost() > 0 {
            self.metrics.observe_shared(decided_by);
        }
        let decision = self.engine.resume_throttle(throttle, granted, self.clock.now());
        self.observe_throttles(std::slice::from_ref(throttle), &[decision], since);
        decision
    }

    /// Decides a call that this process counts alone. Where counters are shared, its numbers are too large for that: whoever runs the server is told so, now and then.
    pub(crate) fn decide_unshared_throttle(&self, throttle: &Throttle) -> Decision {
        let now = self.clock.now();
        if self.store.is_some() && self.unshared_throttles.is_to_be_told(now) {
            let burst = throttle.limit().capacity();
            tracing::warn!(
                burst,
                "CL.THROTTLE was called with numbers that are too large for a count that is shared: each process counts by itself"
            );
        }
        let decision = self.engine.decide_throttle(throttle, now);
        self.observe_throttles(std::slice::from_ref(throttle), &[decision], now);
        decision
    }
}

/// Whether anything was held of what was released. Nobody knows that before every shared counter has answered.
pub(crate) fn has_held(released: &Released, granted: &[Granted]) -> Result<bool, Failure> {
    granted.iter().try_fold(released.here, |held, granted| Ok(held | (*granted)?.decision.is_allowed()))
}
