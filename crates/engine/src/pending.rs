//! A request whose limits are not all this process's own.
//!
//! The limits of this process are asked first: if one of them denies, nobody else has to be asked. Then the authority is asked for all the
//! others at once. Whoever carries the questions brings the grants back, or says why there are none, and only then is
//! it known whether the request passes. If it does not, whatever was taken on the way is given back.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Cost, Decision, Holder, Intent, Limit, Outcome, Refund, Span, Tick, Time};
use tollgate_policy::{FailMode, Snapshot};
use tollgate_store::authority::{Act, Directed, Failure, Grant, OnceAct, OnceId, Question};
use tollgate_store::{Charge, Key};

use crate::engine::Engine;
use crate::fleet::Keeper;
use crate::ids::{Mark, What};
use crate::lease::HeldThere;
use crate::leasing::SpentHere;
use crate::meeting::Sighted;
use crate::reservation::{Charged, Claim, Closed, SettleEnd, SettleError, Settlement};
use crate::verdict::{Answer, DecidedBy, Force, Ruling, Status, Usual};

/// When to try again what nobody could decide: an authority that is away may be back soon.
const CLOSED_WAIT: Span = Span::from_ticks(1_000_000_000);

/// A request that waits for an authority. The default is one that asks for nothing and has taken nothing.
#[derive(Debug, Default)]
#[must_use = "what was taken on the way is only given back by Engine::resume or Engine::abandon"]
pub struct Pending {
    pub(crate) answer: Answer,
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    pub(crate) now: Time,
    pub(crate) has_lenient_quota: bool,
    /// What was taken from limits of this process.
    pub(crate) taken: Usual<Taken>,
    /// What was spent of leases.
    pub(crate) spent: Usual<SpentHere>,
    /// What is to be booked on limits of this process if their denials count, which those of quota rules need not.
    pub(crate) unbooked: Usual<Taken>,
    /// What was looked at to find hot keys.
    pub(crate) sighted: Sighted,
    pub(crate) asked: Usual<Asked>,
    /// One for each that is asked.
    pub(crate) questions: Usual<Directed>,
    /// The keys of what this process may come to hold, by ruling: whoever releases it has to name them.
    pub(crate) hold_keys: Vec<(usize, Vec<u8>)>,
    /// Whether it is noted what is taken.
    pub(crate) is_reserving: bool,
    /// The room for the reservation that it will become.
    pub(crate) claim: Option<Claim>,
    /// The reservation that it settles, if it settles one, and what becomes of it.
    pub(crate) settles: Option<Box<(Closed, Settlement)>>,
}

/// Units of a limit of this process.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Which ruling they belong to.
    pub(crate) index: usize,
    pub(crate) key: Key,
    pub(crate) limit: Limit,
    pub(crate) units: u64,
    pub(crate) since: Time,
    pub(crate) holder: Option<Holder>,
    /// Under which name the id of the request is remembered, if it has one.
    pub(crate) id: Option<u128>,
}

/// How a shared limit is asked for a request with an id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedOnce {
    pub(crate) id: OnceId,
    /// How the share of this process remembers it,
    pub(crate) here: Mark,
    /// and how it is counted that the shared counter does.
    pub(crate) there: Mark,
    /// When the share of this process was charged for it before, if it was.
    pub(crate) share: Option<Time>,
}

/// A limit that is shared, and what becomes of it if nobody answers.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Which ruling it belongs to.
    pub(crate) index: usize,
    pub(crate) key: Key,
    pub(crate) limit: Limit,
    pub(crate) cost: Cost,
    /// How many units besides are this process's own, so that it need not ask for them.
    pub(crate) part: u64,
    pub(crate) intent: Intent,
    /// Whether it is to be booked if it is denied and that counts, which a quota rule's denial need not.
    pub(crate) books_later: bool,
    /// Whether it is told to settle what was reserved, which is done once.
    pub(crate) settles: bool,
    pub(crate) terms: FailTerms,
    /// Where this process keeps what it has of the limit, if units of it are leased.
    pub(crate) purse: Option<u64>,
    /// The id of the request at this counter, if it has one.
    pub(crate) once: Option<Box<AskedOnce>>,
}

impl Asked {
    /// Whether it is a peek that the units in hand suffice for: a request would be spent of them, whatever the
    /// authority has left. It is asked only how much that is.
    fn suffices_here(&self) -> bool {
        self.intent == Intent::Peek && self.part > 0 && self.cost == Cost::ZERO
    }
}

/// What a rule says about an authority that is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailTerms {
    pub(crate) mode: FailMode,
    /// The part of the limit that this process then spends, if it is not that of the others.
    pub(crate) percent: Option<u8>,
}

/// What is left to do once a request is answered.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// What the authority is to be told, and nobody waits for.
    pub(crate) tell: Vec<Directed>,
    /// What is held now, elsewhere.
    pub(crate) held: SmallVec<[HeldThere; 1]>,
    /// What the authority said to a settlement.
    pub(crate) settling: Settling,
    /// Whether the id of the request belongs to another one.
    pub(crate) is_conflict: bool,
}

/// What became of the operations of a settlement, one for each shared limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settling {
    /// Whether one of them was done.
    is_done: bool,
    /// Whether the reservation had been settled before.
    is_refused: bool,
    /// Whether one could neither be done nor kept.
    is_unkept: bool,
}

impl Settling {
    /// How the settlement ends, where some of it may be retried.
    pub(crate) fn end(self, is_pending: bool) -> SettleEnd {
        match self {
            Settling { is_refused: true, .. } => SettleEnd::Failed(SettleError::Settled),
            Settling { is_unkept: true, is_done: false, .. } if !is_pending => {
                SettleEnd::Failed(SettleError::Unavailable)
            }
            _ if is_pending => SettleEnd::Pending,
            _ => SettleEnd::Confirmed,
        }
    }
}

impl Pending {
    /// What an authority has to be asked, all at once.
    pub fn questions(&self) -> &[Directed] {
        &self.questions
    }

    /// Rulings of which this process holds something, or may have to if nobody answers.
    pub(crate) fn held_here(&self) -> Usual<usize> {
        let taken = self.taken.iter().map(|taken| (taken.index, &taken.limit));
        let asked = self.asked.iter().map(|asked| (asked.index, &asked.limit));
        let is_held = |&(_, limit): &(usize, &Limit)| matches!(limit, Limit::Concurrency(_));
        taken.chain(asked).filter(is_held).map(|(index, _)| index).collect()
    }

    /// Gives back what this process has taken, as if nobody had asked.
    pub(crate) fn abandon(self, engine: &Engine, now: Time) {
        give_back_here(engine, &self.taken, now);
        for once in self.asked.iter().filter_map(|asked| asked.once.as_deref()) {
            engine.ids.let_go(once.there.name, now);
        }
        engine.put_back(&self.spent, now);
        // A settlement is due, also without its caller.
        for question in self.questions.into_iter().filter(|(question, _)| counts_once(question)) {
            engine.keep_unconfirmed(question, now);
        }
    }

    /// Puts the grants to the other answers, and says whether the request passes.
    pub(crate) fn settle(
        &mut self,
        engine: &Engine,
        grants: &[Result<Grant, Failure>],
        now: Time,
    ) -> (bool, Settled) {
        let mut settled = Settled::default();
        let asked = std::mem::take(&mut self.asked);
        for (at, asked) in asked.iter().enumerate() {
            match grants.get(at).copied().unwrap_or(Err(Failure::NotAsked)) {
                Ok(grant) => {
                    settled.is_conflict |= asked.once.is_some() && grant.is_conflict();
                    self.answer.is_repeated |= grant.is_repeated;
                    self.accept(asked, &grant, self.questions[at].0.limit.tick());
                    if let Some(purse) = asked.purse {
                        engine.know_leased((self.keeper(at), purse), asked.intent, &grant, now);
                    }
                }
                Err(failure) => {
                    let is_kept = engine.keep_fact(&self.questions[at], failure, now);
                    end_asked(engine, asked, is_kept, now);
                    settled.settling.is_unkept |= asked.settles && !is_kept;
                    self.answer.is_pending |= is_kept;
                    self.fall_back(engine, (asked, at), (failure, is_kept), now);
                }
            }
        }
        for seen in &self.sighted {
            engine.hot.judge(seen, self.answer.rulings[seen.index].is_over(), now);
        }
        self.excuse_quotas();
        let passes = !settled.is_conflict && !self.answer.rulings.iter().any(Ruling::denies);
        for (at, asked) in asked.iter().enumerate() {
            if let Some(Ok(grant)) = grants.get(at) {
                let is_kept = self.keep_granted((at, asked), grant, passes, &mut settled);
                end_asked(engine, asked, is_kept, now);
            }
        }
        for (at, asked) in asked.iter().enumerate().filter(|(_, asked)| asked.books_later) {
            if self.answer.rulings[asked.index].denies() && !settled.is_conflict {
                self.book(engine, asked, at, now, &mut settled);
            }
        }
        for Taken { index, key, limit, units, .. } in &self.unbooked {
            if self.answer.rulings[*index].denies() {
                engine.ledger.decide(&Charge::book(*key, limit, Cost::new(*units)), now);
            }
        }
        let is_excused = |taken: &Taken| self.answer.rulings[taken.index].force == Force::Excused;
        // What was spent before anybody asked stays spent, whoever denies.
        let is_booked =
            |taken: &Taken| asked.iter().any(|asked| asked.books_later && asked.index == taken.index);
        let is_undone = |taken: &Taken| is_excused(taken) || !passes && !is_booked(taken);
        let (undone, kept): (Usual<Taken>, Usual<Taken>) =
            std::mem::take(&mut self.taken).into_iter().partition(is_undone);
        give_back_here(engine, &undone, now);
        for id in kept.iter().filter_map(|taken| taken.id) {
            engine.ids.confirm(id, now);
        }
        for taken in &undone {
            let peek = Charge::peek(taken.key, &taken.limit, Cost::new(taken.units));
            self.answer.rulings[taken.index].decision = engine.ledger.decide(&peek, now);
        }
        // A limit that denies what is missing takes nothing of what was here either, though its denial may not count.
        let is_put_back = |here: &SpentHere| {
            let ruling = &self.answer.rulings[here.index];
            !passes || ruling.force == Force::Excused || ruling.is_over()
        };
        let (put_back, kept_here): (Usual<SpentHere>, Usual<SpentHere>) =
            std::mem::take(&mut self.spent).into_iter().partition(is_put_back);
        engine.put_back(&put_back, now);
        engine.keep(&kept_here);
        if self.is_reserving {
            self.note_kept(&asked, &kept, &kept_here);
        }
        self.answer.holders.extend(kept.iter().filter_map(|taken| Some((taken.index, taken.holder?))));
        (passes, settled)
    }

    /// Notes what this process has taken, by itself or of what it had in hand.
    fn note_kept(&mut self, asked: &[Asked], kept: &[Taken], kept_here: &[SpentHere]) {
        for Taken { index, key, limit, since: at, .. } in kept {
            let is_share = asked.iter().any(|asked| asked.index == *index);
            self.answer.charged.push(if is_share {
                Charged::Share { key: *key, limit: Box::new(limit.clone()), at: *at }
            } else {
                Charged::Here { key: *key, at: *at }
            });
        }
        // Where the authority has given some of it too, that is noted as a whole.
        let is_noted = |here: &&SpentHere| {
            let is_there =
                |charged: &Charged| matches!(charged, Charged::There(there) if there.name == here.name);
            let is_share = kept.iter().any(|taken| taken.index == here.index);
            let is_asked = asked.iter().any(|asked| asked.index == here.index);
            is_asked && (is_share || self.answer.charged.iter().any(is_there))
        };
        let unnoted: Usual<&SpentHere> = kept_here.iter().filter(|here| !is_noted(here)).collect();
        for SpentHere { name, keeper, spent, .. } in unnoted {
            self.answer.charged.push(Charged::there(*name, *keeper, spent.counted_at));
        }
    }

    /// Keeps what was granted if the request passes, and else has it given back. Says whether the counter keeps what it has counted.
    fn keep_granted(
        &mut self,
        (at, asked): (usize, &Asked),
        grant: &Grant,
        passes: bool,
        settled: &mut Settled,
    ) -> bool {
        let (question, pin) = &self.questions[at];
        let is_taken = match question.act {
            Act::Take(cost) => cost != Cost::ZERO && grant.decision.is_allowed(),
            Act::Once(_, OnceAct::Take(_)) => grant.decision.is_allowed(),
            // What is booked was spent, unless the request is an error.
            Act::Once(..) => settled.is_conflict && !grant.is_conflict(),
            _ => false,
        };
        let ruling = &mut self.answer.rulings[asked.index];
        let is_kept = (passes || asked.books_later && !settled.is_conflict) && ruling.force != Force::Excused;
        if is_taken && !is_kept {
            ruling.decision.remaining =
                ruling.decision.remaining.saturating_add(ruling.cost).min(ruling.decision.limit);
            settled.tell.extend(undo(question, grant).map(|undo| (undo, *pin)));
        } else if is_taken {
            let held = |holder| HeldThere { name: question.key, holder, pin: *pin };
            settled.held.extend(grant.holder.map(held));
        }
        let is_booked = matches!(question.act, Act::Book(cost) if cost != Cost::ZERO);
        if self.is_reserving && (is_booked || is_taken && is_kept) {
            self.answer.charged.push(Charged::there(question.key, Keeper::at(*pin), grant.at));
        }
        if asked.settles {
            let is_refused = grant.decision.outcome == Outcome::Busy;
            settled.settling.is_refused |= is_refused;
            settled.settling.is_done |= !is_refused;
        }
        match question.act {
            Act::Once(_, OnceAct::Take(_)) => is_taken && is_kept || asked.books_later,
            _ => !settled.is_conflict,
        }
    }

    /// Writes down what is spent already, where it was denied.
    fn book(&self, engine: &Engine, asked: &Asked, at: usize, now: Time, settled: &mut Settled) {
        match self.answer.rulings[asked.index].decided_by {
            DecidedBy::Authority => {
                let (question, pin) = self.questions[at].clone();
                let act = match &asked.once {
                    Some(once) => Act::Once(once.id, OnceAct::Book(asked.cost)),
                    None => Act::Book(asked.cost),
                };
                settled.tell.push((Question { act, ..question }, pin));
            }
            DecidedBy::FailLocal => {
                let limit = engine.share_of(self.keeper(at), &asked.limit, asked.terms.percent);
                engine.ledger.decide(&Charge::book(asked.key, &limit, asked.cost), now);
            }
            _ => {}
        }
    }

    /// Who was asked a question.
    fn keeper(&self, at: usize) -> Keeper {
        Keeper::at(self.questions[at].1)
    }

    fn accept(&mut self, asked: &Asked, grant: &Grant, tick: Tick) {
        let ruling = &mut self.answer.rulings[asked.index];
        (ruling.decision, ruling.decided_by) = (grant.decision, DecidedBy::Authority);
        if asked.suffices_here() {
            (ruling.decision.outcome, ruling.decided_by) = (Outcome::ALLOWED, DecidedBy::Lease);
        }
        // What is here and was not spent can be had besides.
        let is_spent =
            asked.intent == Intent::Book || asked.intent == Intent::Take && grant.decision.is_allowed();
        if !is_spent {
            let decision = &mut ruling.decision;
            decision.remaining = decision.remaining.saturating_add(asked.part).min(decision.limit);
        }
        ruling.decided_at = Some(Time::from_ticks(grant.at.ticks().saturating_mul(tick.length_ns())));
    }

    /// The authority has not answered: the rule says what happens then. What is kept will be charged, so it is not denied for want of an answer.
    fn fall_back(
        &mut self,
        engine: &Engine,
        (asked, at): (&Asked, usize),
        (failure, is_kept): (Failure, bool),
        now: Time,
    ) {
        self.answer.failure.get_or_insert(failure);
        let (decision, decided_by) = match asked.terms.mode {
            _ if asked.suffices_here() => {
                (Decision { remaining: asked.part, ..unasked(&asked.limit) }, DecidedBy::Lease)
            }
            // Its caller is told that nothing was changed.
            _ if asked.settles && !is_kept => (closed(asked), DecidedBy::FailClosed),
            FailMode::Local => (self.decide_here(engine, (asked, at), now), DecidedBy::FailLocal),
            FailMode::Open | FailMode::Closed if is_kept => (unasked(&asked.limit), DecidedBy::Pending),
            FailMode::Open => (unasked(&asked.limit), DecidedBy::FailOpen),
            FailMode::Closed => (closed(asked), DecidedBy::FailClosed),
        };
        let ruling = &mut self.answer.rulings[asked.index];
        (ruling.decision, ruling.decided_by) = (decision, decided_by);
    }

    /// Decides by this process's share of the limit.
    fn decide_here(&mut self, engine: &Engine, (asked, at): (&Asked, usize), now: Time) -> Decision {
        let limit = engine.share_of(self.keeper(at), &asked.limit, asked.terms.percent);
        let charge =
            Charge { key: asked.key, limit: &limit, cost: asked.cost, intent: asked.intent, shadow: false };
        if let Some(once) = &asked.once {
            return self.decide_once(engine, (asked, once), &charge, now);
        }
        let (decision, holder) = match asked.intent {
            Intent::Take => engine.ledger.acquire(charge.key, charge.limit, charge.cost, now),
            Intent::Peek | Intent::Book => (engine.ledger.decide(&charge, now), None),
        };
        if self.is_reserving && asked.intent == Intent::Book && asked.cost != Cost::ZERO {
            let (key, limit) = (asked.key, Box::new(limit.clone()));
            self.answer.charged.push(Charged::Share { key, limit, at: now });
        }
        if asked.intent == Intent::Take && decision.is_allowed() && asked.cost != Cost::ZERO {
            let units = asked.cost.units();
            let (index, key) = (asked.index, asked.key);
            self.taken.push(Taken { index, key, limit, units, since: now, holder, id: None });
        }
        decision
    }

    /// As [`Pending::decide_here`], of a request with an id: the share is charged once.
    fn decide_once(
        &mut self,
        engine: &Engine,
        (asked, once): (&Asked, &AskedOnce),
        charge: &Charge<'_>,
        now: Time,
    ) -> Decision {
        let mut memory = engine.ids.memory(now);
        // Another request may have come in between.
        let recalled = memory.recall(once.here).ok().flatten();
        if let Some(What::Here { .. }) = recalled {
            self.answer.is_repeated = true;
        }
        let decision = match recalled {
            Some(What::Here { is_allowed: true, .. }) => {
                let peek = Charge { cost: Cost::ZERO, intent: Intent::Peek, ..*charge };
                Decision { outcome: Outcome::ALLOWED, ..engine.ledger.decide(&peek, now) }
            }
            Some(_) => engine.ledger.decide(&Charge { intent: Intent::Peek, ..*charge }, now),
            None => engine.ledger.decide(charge, now),
        };
        let is_allowed = decision.is_allowed();
        match charge.intent {
            Intent::Take if is_allowed => {
                memory.share(once.here, What::Here { at: now, is_allowed });
                let Charge { key, limit, cost, .. } = *charge;
                let (index, limit, units, id) = (asked.index, limit.clone(), cost.units(), once.here.name);
                let taken = Taken { index, key, limit, units, since: now, holder: None, id: Some(id) };
                self.taken.push(taken);
            }
            Intent::Book if recalled.is_none() => {
                memory.remember(once.here, What::Here { at: now, is_allowed });
            }
            _ => {}
        }
        decision
    }

    /// Where some quota rules admit the request, those that do not are excused. Where none does, all deny.
    fn excuse_quotas(&mut self) {
        let is_quota = |force| matches!(force, Force::Quota | Force::Excused);
        let Answer { statuses, rulings, .. } = &mut self.answer;
        let ranges = statuses.iter().filter_map(|status| match status {
            Status::Limited(range) if rulings[range.clone()].iter().any(|ruling| is_quota(ruling.force)) => {
                Some(range.clone())
            }
            _ => None,
        });
        let (over, admitting): (Usual<_>, Usual<_>) = ranges.partition(|range| {
            rulings[range.clone()].iter().any(|ruling| is_quota(ruling.force) && ruling.is_over())
        });
        let force =
            if admitting.is_empty() && !self.has_lenient_quota { Force::Quota } else { Force::Excused };
        for ruling in over.into_iter().flatten() {
            if is_quota(rulings[ruling].force) {
                rulings[ruling].force = force;
            }
        }
    }
}

/// Whether it can be sent until the authority has confirmed it.
fn counts_once(question: &Question) -> bool {
    matches!(question.act, Act::Settle(_))
}

/// What gives back what a grant has given: all of it, since a request that is denied must not cost anything.
fn undo(question: &Question, grant: &Grant) -> Option<Question> {
    let act = match (question.act, grant.holder) {
        (Act::Take(_), Some(holder)) => Act::Release(holder),
        (Act::Take(cost), None) => Act::GiveBack { units: cost.units(), counted_at: grant.at, undoes: false },
        (Act::Once(id, OnceAct::Take(cost) | OnceAct::Book(cost)), _) => {
            Act::Once(id, OnceAct::Undo { units: cost.units(), undoes: false })
        }
        _ => return None,
    };
    Some(Question { act, ..question.clone() })
}

/// What became of a limit that was asked under an id.
fn end_asked(engine: &Engine, asked: &Asked, is_kept: bool, now: Time) {
    match &asked.once {
        Some(once) if is_kept => engine.ids.confirm(once.there.name, now),
        Some(once) => drop(engine.ids.let_go(once.there.name, now)),
        None => {}
    }
}

fn give_back_here(engine: &Engine, taken: &[Taken], now: Time) {
    for Taken { key, limit, units, since, holder, id, .. } in taken {
        if id.is_some_and(|id| engine.ids.let_go(id, now).is_none()) {
            continue; // A request with the same id keeps it.
        }
        // The authority was waited for meanwhile: another window may have begun.
        let refund = Refund { counted_at: *since, ..Refund::at_once(*units, now) };
        match holder {
            Some(holder) => drop(engine.ledger.release(*key, limit, *holder, now)),
            None => engine.ledger.give_back(*key, limit, refund),
        }
    }
}

/// The answer of a limit that nobody has asked, to a request that passes it.
pub(crate) fn unasked(limit: &Limit) -> Decision {
    let capacity = limit.capacity();
    let reset_after = (!matches!(limit, Limit::Concurrency(_))).then_some(Span::ZERO);
    Decision { outcome: Outcome::ALLOWED, limit: capacity, remaining: capacity, reset_after }
}

/// The answer of a limit that was not asked, to a cost that it admits never.
pub(crate) fn never(limit: &Limit) -> Decision {
    Decision { outcome: Outcome::Never, ..unasked(limit) }
}

fn closed(asked: &Asked) -> Decision {
    let outcome = Outcome::NotNow { retry_after: CLOSED_WAIT };
    Decision { outcome, remaining: 0, reset_after: Some(CLOSED_WAIT), ..unasked(&asked.limit) }
}

/// What a charge asks of an authority.
pub(crate) fn act(intent: Intent, cost: Cost) -> Act {
    match intent {
        Intent::Peek => Act::Peek(cost),
        Intent::Take => Act::Take(cost),
        Intent::Book => Act::Book(cost),
    }
}
