//! Requests that hold what they are given, and give it back by their lease.

use std::iter;
use std::sync::Arc;

use tollgate_core::Time;
use tollgate_policy::Snapshot;
use tollgate_store::authority::{Act, Directed, Question};

use super::{Borrowed, Engine, Inquiry, Purpose, Resumed, Step};
use crate::key::{Counted, KeyBuffer};
use crate::lease::{Hold, Lease, ReleaseError};
use crate::request::{Request, RequestError, Subject};
use crate::verdict::{Answer, Status, Verdict};

/// What became of a lease that was released.
#[derive(Debug, Default)]
pub struct Released {
    /// Whether it held anything in this process.
    pub here: bool,
    /// What the authority is to be told: whether it held anything there, it will answer.
    pub questions: Vec<Directed>,
}

impl Engine {
    /// As [`Engine::begin`], for a request that holds what it is given: see [`Engine::acquire`].
    pub fn begin_hold(
        &self,
        request: &Request<'_>,
        now: Time,
    ) -> Result<(Step, Option<Lease>), RequestError> {
        let step = self.step(&Inquiry { request, purpose: Purpose::Hold, now })?;
        let lease = match &step {
            Step::Ready(verdict) => self.lease(request, verdict),
            Step::Pending(_) => None,
        };
        Ok((step, lease))
    }

    /// Decides a request that holds what it is given until it is released, or until a deadline: at least one of its limits must be
    /// one on how many may be at it at the same time.
    pub fn acquire(
        &self,
        request: &Request<'_>,
        now: Time,
    ) -> Result<(Verdict, Option<Lease>), RequestError> {
        match self.begin_hold(request, now)? {
            (Step::Ready(verdict), lease) => Ok((verdict, lease)),
            (Step::Pending(pending), _) => {
                let Resumed { verdict, lease, .. } = self.resume(pending, &[], now);
                Ok((verdict, lease))
            }
        }
    }

    /// Ends what a lease holds. It holds nothing here any more if it was released before or is past its deadline. A lease that no
    /// process of the fleet gave out is an error, and changes nothing.
    pub fn release(&self, lease: &Lease, now: Time) -> Result<Released, ReleaseError> {
        let mut released = Released::default();
        for hold in self.leases.holds(lease, &self.sealer, self.fleet.is_some())? {
            match hold {
                Hold::Here { key, holder } => {
                    let key = self.ledger.key(key);
                    released.here |= self.ledger.release(key, self.leases.any_limit(), holder, now);
                }
                Hold::Shared { name, holder, pinned } => {
                    let limit = Arc::clone(self.leases.any_shared_limit());
                    let question = Question { key: name, limit, act: Act::Release(holder), account: None };
                    released.questions.push((question, self.pin_of(iter::once(pinned))));
                }
            }
        }
        Ok(released)
    }

    /// The lease on what was just given to be held.
    fn lease(&self, request: &Request<'_>, verdict: &Verdict) -> Option<Lease> {
        let (mut scratch, mut lease) = (Borrowed::take(), None);
        for &(index, holder) in &verdict.answer.holders {
            let snapshot = verdict.snapshot.as_deref();
            if let Some(key) = hold_key(request, &verdict.answer, snapshot, index, &mut scratch.0.key) {
                lease.get_or_insert_with(|| self.leases.start()).add(key, holder);
            }
        }
        self.sealed(lease)
    }

    /// A lease as it is given out: only this process and its fleet can make one.
    pub(super) fn sealed(&self, lease: Option<Lease>) -> Option<Lease> {
        lease.map(|lease| lease.sealed(&self.sealer))
    }
}

/// The key of the counter that a ruling is about.
pub(crate) fn hold_key<'s>(
    request: &Request<'_>,
    answer: &Answer,
    snapshot: Option<&Snapshot>,
    index: usize,
    key_buffer: &'s mut KeyBuffer,
) -> Option<&'s [u8]> {
    let ruling = answer.rulings.get(index)?;
    let place = snapshot?.place(ruling.place?);
    let limit = place.limits().get(ruling.limit_index)?;
    match request.subject {
        Subject::Policy { key, .. } => Some(key_buffer.of(place, limit, Counted::Key(key))),
        Subject::Descriptors { descriptors, .. } => {
            let meets = |status: &Status| matches!(status, Status::Limited(range) if range.contains(&index));
            let at = answer.statuses.iter().position(meets)?;
            Some(key_buffer.of(place, limit, Counted::Entries(descriptors.get(at)?.entries)))
        }
    }
}
