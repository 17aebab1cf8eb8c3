//! Requests that come with an id, so that they can be repeated.
//!
//! Before anything is charged, each counter is looked up under the id. One that has counted the request before is only looked at: it
//! admits. The others are asked like those of any request, and remember the id if they are charged.

use tollgate_core::{Cost, Intent, Limit, Outcome};
use tollgate_store::authority::{Act, OnceAct, OnceId};
use tollgate_store::{Charge, Key};

use super::Meeting;
use crate::engine::Engine;
use crate::ids::{Mark, Memory, What};
use crate::pending::{AskedOnce, Taken};
use crate::request::{Request, RequestError, Subject};
use crate::request_id::{RequestId, at_shared, fingerprint};
use crate::verdict::{Force, Usual};

/// A request that comes with an id.
pub(super) struct Repeating<'a> {
    id: RequestId<'a>,
    charged: Usual<OnceCharge<'a>>,
}

/// One of its charges.
struct OnceCharge<'a> {
    /// Which one, as it was before anything was looked up.
    index: usize,
    charge: Charge<'a>,
    is_refund: bool,
    /// How it is remembered in this process, be it of its own counter or of its share of one.
    here: Mark,
    /// And where others share the counter.
    there: Option<(Mark, OnceId)>,
    /// What was remembered here.
    recalled: Option<What>,
}

impl<'a> Meeting<'a> {
    /// The memory of request ids, if the request has one.
    pub(crate) fn memory(&self) -> Option<Memory<'a>> {
        self.repeating.as_ref().map(|_| self.engine.ids.memory(self.now))
    }

    /// Looks every counter up under the id of the request. Those that have counted it are only looked at from here on.
    pub(crate) fn recall(&mut self, memory: &Memory<'_>) -> Result<(), RequestError> {
        let Some(mut repeating) = self.repeating.take() else { return Ok(()) };
        let counted = || self.charges.first().map_or(0, |charge| place(charge.key, charge.limit));
        let (id, tenant) = (repeating.id, self.engine.ids_tenant(self.request).unwrap_or_else(counted));
        let fingerprint = fingerprint(self.request);
        let mut more = 0;
        for index in 0..self.charges.len() {
            let charge = self.charges[index];
            if charge.intent == Intent::Peek || charge.cost == Cost::ZERO {
                continue;
            }
            if matches!(charge.limit, Limit::Concurrency(_)) {
                return Err(RequestError::HeldNotRepeated);
            }
            let place = place(charge.key, charge.limit);
            let nth = repeating.charged.iter().filter(|before| before.place() == place).count() as u64;
            let mark = |name| Mark { name, fingerprint, tenant };
            let here = mark(self.engine.ids.name(&place.to_le_bytes(), nth, id));
            let there = self.shared.iter().find(|shared| shared.index == index).map(|shared| {
                let shared_key = shared.counter.name;
                let name = self.engine.ids.name(&shared_key.0.to_le_bytes(), nth, id);
                (mark(name), at_shared(shared_key, id, nth, fingerprint))
            });
            let recalled = memory.recall(here)?;
            let is_held = match there {
                Some((there, _)) => memory.recall(there)?.is_some(),
                None => false,
            };
            more += usize::from(recalled.is_none() && !is_held);
            let is_refund = self.answer.rulings[index].force == Force::Refund;
            repeating.charged.push(OnceCharge { index, charge, is_refund, here, there, recalled });
        }
        memory.check_room(tenant, more)?;
        for once in repeating.charged.iter().filter(|once| once.there.is_none()) {
            if let Some(What::Here { is_allowed, .. }) = once.recalled {
                let charge = &mut self.charges[once.index];
                (charge.cost, charge.intent) = (Cost::ZERO, Intent::Peek);
                charge.shadow |= is_allowed;
                self.answer.is_repeated = true;
            }
        }
        self.repeating = Some(repeating);
        Ok(())
    }

    /// Remembers what the counters of this process have counted, for good.
    pub(crate) fn remember(&mut self, memory: &mut Memory<'_>, passes: bool) {
        let Some(repeating) = self.repeating.take() else { return };
        self.remember_here(&repeating, memory, |meeting, index| {
            passes && meeting.answer.rulings[index].decision.is_allowed()
        });
        self.repeating = Some(repeating);
    }

    /// As [`Meeting::remember`], for a request that shared counters may still deny: what was taken may have to be undone.
    pub(super) fn remember_taken(&mut self, memory: &mut Memory<'_>, taken: &mut Usual<Taken>) {
        let Some(repeating) = self.repeating.take() else { return };
        self.remember_here(&repeating, memory, |_, _| false);
        for once in repeating.charged.iter().filter(|once| once.there.is_none()) {
            if let Some(What::Here { at, is_allowed: true }) = once.recalled
                && once.charge.intent == Intent::Take
                && !once.is_refund
            {
                memory.share(once.here, What::Here { at, is_allowed: true });
                let Charge { key, limit, cost, .. } = once.charge;
                let (index, limit, units, holder) = (once.index, limit.clone(), cost.units(), None);
                let id = Some(once.here.name);
                taken.push(Taken { index, key, limit, units, since: at, holder, id });
            } else if let Some(taken) = taken.iter_mut().find(|taken| taken.index == once.index) {
                memory.share(once.here, What::Here { at: self.now, is_allowed: true });
                taken.id = Some(once.here.name);
            }
        }
        self.repeating = Some(repeating);
    }

    /// Remembers what was booked and given back here, and what was taken for good.
    fn remember_here(
        &mut self,
        repeating: &Repeating<'_>,
        memory: &mut Memory<'_>,
        is_taken: impl Fn(&Meeting<'_>, usize) -> bool,
    ) {
        for once in repeating.charged.iter().filter(|once| once.there.is_none()) {
            let ruling = &mut self.answer.rulings[once.index];
            match once.recalled {
                Some(What::Here { is_allowed: true, .. }) => ruling.decision.outcome = Outcome::ALLOWED,
                Some(_) => {}
                None => {
                    let is_allowed = once.is_refund || ruling.decision.is_allowed();
                    let is_charged = match once.charge.intent {
                        _ if once.is_refund => true,
                        Intent::Book => self.charges[once.index].intent == Intent::Book,
                        _ => is_taken(self, once.index),
                    };
                    if is_charged {
                        memory.remember(once.here, What::Here { at: self.now, is_allowed });
                    }
                }
            }
        }
    }

    /// How a shared counter is asked once, and what this process remembers of that.
    pub(super) fn once(&self, index: usize) -> Option<AskedOnce> {
        let once = self.repeating.as_ref()?.charged.iter().find(|once| once.index == index)?;
        let (there, id) = once.there?;
        let share = match once.recalled {
            Some(What::Here { at, .. }) => Some(at),
            _ => None,
        };
        Some(AskedOnce { id, here: once.here, there, share })
    }
}

impl Engine {
    /// Whose part of the ids a request takes, if it names a tenant.
    pub(crate) fn ids_tenant(&self, request: &Request<'_>) -> Option<u64> {
        let of = |tenant: &[u8]| self.ledger.key(tenant).number(0);
        match request.subject {
            Subject::Policy { key, .. } => Some(of(key)),
            Subject::Descriptors { domain, descriptors } => {
                let snapshot = self.snapshot();
                let domain = snapshot.as_ref()?.domain(domain)?;
                let tenant = descriptors.iter().find_map(|each| domain.tenant_of(each.entries));
                tenant.map(|tenant| of(tenant.as_bytes()))
            }
        }
    }
}

impl<'a> Repeating<'a> {
    pub(super) fn new(id: RequestId<'a>) -> Repeating<'a> {
        Repeating { id, charged: Usual::new() }
    }
}

impl OnceCharge<'_> {
    fn place(&self) -> u64 {
        place(self.charge.key, self.charge.limit)
    }
}

/// Which counter of this process.
fn place(key: Key, limit: &Limit) -> u64 {
    key.number(limit.shape())
}

/// What a shared counter is asked under an id.
pub(super) fn once_act(id: OnceId, act: Act) -> Act {
    match act {
        Act::Take(cost) if cost != Cost::ZERO => Act::Once(id, OnceAct::Take(cost)),
        Act::Book(cost) if cost != Cost::ZERO => Act::Once(id, OnceAct::Book(cost)),
        Act::GiveBack { units, counted_at, .. } if units > 0 => {
            Act::Once(id, OnceAct::GiveBack { units, counted_at })
        }
        act => act,
    }
}
