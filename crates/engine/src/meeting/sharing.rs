//! A request some of whose limits others share: those of this process are asked, and the questions to the authority are put together.

use std::sync::Arc;

use tollgate_core::{Ask, Cost, Decision, Holder, Intent, Limit, Outcome, Time};
use tollgate_policy::Snapshot;
use tollgate_store::Charge;
use tollgate_store::authority::{Act, Directed, Pin, Question};

use super::repeating::once_act;
use super::{Meeting, Shared};
use crate::account::AccountOf;
use crate::engine::Scratch;
use crate::fleet::{Keeper, SharedCounter};
use crate::ids::{Memory, What};
use crate::leasing::{LeasedCharge, SpentHere, SpentLeased};
use crate::pending::{Asked, AskedOnce, FailTerms, Pending, Taken, act, never, unasked};
use crate::request::RequestError;
use crate::verdict::{DecidedBy, Force, Usual};

/// A request that is taken apart: what this process has decided, and what is asked.
struct Parts<'m> {
    /// Whether the limits of this process admit it.
    passes: bool,
    /// Whether a quota rule is to be booked on.
    any_books_quota: bool,
    memory: Option<Memory<'m>>,
    taken: Usual<Taken>,
    spent: Usual<SpentHere>,
    asked: Usual<Asked>,
    questions: Usual<Directed>,
}

impl Meeting<'_> {
    /// Whether the authority has to be asked about any of the limits.
    pub(crate) fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    pub(super) fn is_shared(&self, index: usize) -> bool {
        self.shared.iter().any(|shared| shared.index == index)
    }

    /// Decides a request that meets one limit, of which this process has enough units to spend. That is how nearly all requests on leased limits
    /// are decided: none of what the others need is built for them.
    pub(crate) fn spend_alone(&mut self) -> bool {
        let ([charge], [shared]) = (self.charges.as_slice(), self.shared.as_mut_slice()) else {
            return false;
        };
        let ruling = &mut self.answer.rulings[shared.index];
        let is_plain = charge.intent == Intent::Take && ruling.force == Force::Enforced;
        let Some(terms) = shared.leased.filter(|_| is_plain) else { return false };
        let Shared { index, ref counter, pin, account, .. } = *shared;
        let leased = LeasedCharge {
            index,
            charge: *charge,
            intent: charge.intent,
            counter,
            pin,
            account,
            terms,
            is_lent: false,
        };
        let spent = self.engine.spend_leased(&leased, self.now);
        shared.is_tried = true;
        let Some(SpentLeased { decision, counted_at, .. }) = spent else { return false };
        (ruling.decision, ruling.decided_by) = (decision, DecidedBy::Lease);
        let (name, keeper) = (shared.counter.name, Keeper::at(pin));
        self.note_spent(name, keeper, counted_at);
        true
    }

    /// Asks the limits of this process. Those that others share are asked only if the request passes here, but for what has happened
    /// already: units that are booked or given back.
    pub(crate) fn part(
        mut self,
        scratch: &mut Scratch,
        snapshot: Option<Arc<Snapshot>>,
    ) -> Result<Pending, RequestError> {
        let mut memory = self.memory();
        if let Some(memory) = &memory {
            self.recall(memory)?;
        }
        let sighted = self.sight();
        self.carry_over();
        let refunds: Usual<Option<Act>> = self.shared.iter().map(|shared| self.refund(shared)).collect();
        self.give_back();
        let booking: Usual<usize> = self.booking_quotas().collect();
        self.excuse_quotas();
        let excused = booking.into_iter().filter(|&index| self.charges[index].intent == Intent::Peek);
        let unbooked: Usual<Taken> = excused.map(|index| self.units(index, None)).collect();
        let (passes, mut taken) = self.take_here(scratch);
        self.note_booked_here();
        if let Some(memory) = &mut memory {
            self.remember_taken(memory, &mut taken);
        }
        let shared = std::mem::take(&mut self.shared);
        let books_quota = |shared: &Shared<'_>| self.is_booking_quota(shared.index);
        let any_books_quota = !unbooked.is_empty() || shared.iter().any(books_quota);
        let mut parts = Parts {
            passes,
            any_books_quota,
            memory,
            taken,
            spent: Usual::new(),
            asked: Usual::new(),
            questions: Usual::new(),
        };
        for (shared, refund) in shared.into_iter().zip(refunds) {
            self.part_shared(shared, refund, &mut parts);
        }
        let Parts { taken, spent, asked, questions, .. } = parts;
        let Meeting { answer, now, has_lenient_quota, is_reserving, .. } = self;
        let hold_keys = Vec::new();
        Ok(Pending {
            answer,
            snapshot,
            now,
            has_lenient_quota,
            taken,
            spent,
            unbooked,
            sighted,
            asked,
            questions,
            hold_keys,
            is_reserving,
            claim: None,
            settles: None,
        })
    }

    /// Puts the question about one shared limit together, unless this process can answer it.
    fn part_shared(&mut self, shared: Shared<'_>, refund: Option<Act>, parts: &mut Parts<'_>) {
        let books_later = self.is_booking_quota(shared.index);
        let Shared { index, counter, pin, account, terms, leased, is_tried, .. } = shared;
        let Charge { key, limit, cost, intent, .. } = self.charges[index];
        let is_quota = self.answer.rulings[index].force == Force::Quota;
        let passes = parts.passes;
        let (is_asked, intent) = match intent {
            // Whether it denies the request is not known before all have answered.
            _ if books_later => (true, Intent::Take),
            Intent::Book => (true, intent),
            _ if refund.is_some() || passes => (true, intent),
            // Whether another quota rule admits is what a booking on a quota rule depends on.
            _ => (is_quota && parts.any_books_quota, Intent::Peek),
        };
        let charge = self.charges[index];
        let leased = leased.map(|terms| LeasedCharge {
            index,
            charge,
            intent,
            counter: &counter,
            pin,
            account,
            terms,
            is_lent: intent != Intent::Book,
        });
        let purse = leased.as_ref().map(LeasedCharge::purse);
        // What other servers have spent and booked since is known to the authority alone: a peek asks it.
        let may_spend = passes && refund.is_none() && !books_later && !is_tried && intent != Intent::Peek;
        let leased_here = leased.as_ref().filter(|_| may_spend);
        if leased_here.is_some_and(|leased| self.answer_leased(leased, &mut parts.spent)) {
            return;
        }
        if !is_asked {
            let ruling = &mut self.answer.rulings[index];
            let decision = if is_never(limit, cost) { never(limit) } else { unasked(limit) };
            (ruling.decision, ruling.decided_by) = (decision, DecidedBy::Nobody);
            return;
        }
        let once = self.once(index).filter(|_| intent != Intent::Peek || refund.is_some());
        if let Some(once) = &once
            && self.begin_once(once, (terms, pin), (index, intent), parts)
        {
            return;
        }
        let may_part = passes && refund.is_none() && !books_later;
        let part = leased.filter(|_| may_part).and_then(|leased| self.engine.spend_part(&leased, self.now));
        let (part, here) = part.map_or((0, None), |part| (part.units, part.here));
        parts.spent.extend(here);
        let cost = Cost::new(cost.units().saturating_sub(part));
        let settles = matches!(refund, Some(Act::Settle(_)));
        let act = refund.unwrap_or_else(|| act(intent, cost));
        let act = once.map_or(act, |once| once_act(once.id, act));
        let limit = limit.clone();
        parts.asked.push(Asked {
            index,
            key,
            limit,
            cost,
            part,
            intent,
            books_later,
            settles,
            terms,
            purse,
            once: once.map(Box::new),
        });
        let SharedCounter { name: key, limit } = counter;
        let account = account.map(AccountOf::written);
        parts.questions.push((Question { key, limit, act, account }, pin));
    }

    /// Remembers that a shared counter is asked under the id of the request. True if the share of this process answers instead.
    fn begin_once(
        &mut self,
        once: &AskedOnce,
        (terms, pin): (FailTerms, Option<Pin>),
        (index, intent): (usize, Intent),
        parts: &mut Parts<'_>,
    ) -> bool {
        let is_here = self.answer_by_share(once, (&terms, pin), (index, intent), &mut parts.taken);
        if let Some(memory) = &mut parts.memory {
            memory.share(if is_here { once.here } else { once.there }, What::There);
        }
        is_here
    }

    /// Answers by the share of this process, if that has counted the request under its id before: the count was away then.
    fn answer_by_share(
        &mut self,
        once: &AskedOnce,
        (terms, pin): (&FailTerms, Option<Pin>),
        (index, intent): (usize, Intent),
        taken: &mut Usual<Taken>,
    ) -> bool {
        let Some(since) = once.share.filter(|_| intent == Intent::Take) else { return false };
        let Charge { key, limit, cost, .. } = self.charges[index];
        let limit = self.engine.share_of(Keeper::at(pin), limit, terms.percent);
        let decision = self.engine.ledger.decide(&Charge::peek(key, &limit, Cost::ZERO), self.now);
        let ruling = &mut self.answer.rulings[index];
        ruling.decision = Decision { outcome: Outcome::ALLOWED, ..decision };
        ruling.decided_by = DecidedBy::FailLocal;
        self.answer.is_repeated = true;
        let (units, holder, id) = (cost.units(), None, Some(once.here.name));
        taken.push(Taken { index, key, limit, units, since, holder, id });
        true
    }

    /// Answers by what this process has of a limit, if that is enough.
    fn answer_leased(&mut self, leased: &LeasedCharge<'_>, lent: &mut Usual<SpentHere>) -> bool {
        let Some(spent) = self.engine.spend_leased(leased, self.now) else { return false };
        if spent.here.is_none() && leased.intent == Intent::Book {
            self.note_spent(leased.counter.name, Keeper::at(leased.pin), spent.counted_at);
        }
        lent.extend(spent.here);
        let ruling = &mut self.answer.rulings[leased.index];
        (ruling.decision, ruling.decided_by) = (spent.decision, DecidedBy::Lease);
        true
    }

    /// Charges on quota rules of this process for what is spent already.
    fn booking_quotas(&self) -> impl Iterator<Item = usize> {
        let is_here = |&index: &usize| !self.is_shared(index) && self.is_booking_quota(index);
        (0..self.charges.len()).filter(is_here)
    }

    /// Whether a charge on a quota rule is for what is spent already.
    fn is_booking_quota(&self, index: usize) -> bool {
        self.charges[index].intent == Intent::Book && self.answer.rulings[index].force == Force::Quota
    }

    /// The units that a charge is about.
    fn units(&self, index: usize, holder: Option<Holder>) -> Taken {
        let Charge { key, limit, cost, .. } = self.charges[index];
        Taken { index, key, limit: limit.clone(), units: cost.units(), since: self.now, holder, id: None }
    }

    /// Takes what the limits of this process admit, if all do.
    fn take_here(&mut self, scratch: &mut Scratch) -> (bool, Usual<Taken>) {
        let here: Usual<usize> = (0..self.charges.len()).filter(|&index| !self.is_shared(index)).collect();
        let charges: Usual<Charge<'_>> = here.iter().map(|&index| self.charges[index]).collect();
        let Scratch { decisions, holders, .. } = scratch;
        let passes = self.engine.ledger.acquire_all(&charges, self.now, decisions, holders);
        let mut taken = Usual::new();
        for (at, &index) in here.iter().enumerate() {
            let (charge, decision) = (&charges[at], decisions[at]);
            self.answer.rulings[index].decision = decision;
            let is_taken =
                charge.intent == Intent::Take && charge.cost != Cost::ZERO && decision.is_allowed();
            if passes && is_taken {
                taken.push(self.units(index, holders.get(at).copied().flatten()));
            }
        }
        (passes, taken)
    }
}

/// Whether a limit admits a cost never, however little was used. That is known without asking.
fn is_never(limit: &Limit, cost: Cost) -> bool {
    let decision = limit.decide(&mut limit.fresh(), Ask::peek(cost, Time::default()));
    decision.outcome == Outcome::Never
}
