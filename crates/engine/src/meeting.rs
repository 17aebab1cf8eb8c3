//! A request meets its limits: which they are, what each is asked, and what they say together.

use std::ops::Range;

use smallvec::SmallVec;
use tollgate_core::{Cost, Decision, Intent, Limit, Outcome, Time};
use tollgate_policy::{
    Allowance, Domain, Entry, LeaseTerms, Overshoot, Place, PlaceIndex, PlacedLimit, Quota, RuleId, Snapshot,
};
use tollgate_store::Charge;
use tollgate_store::authority::Pin;
use tollgate_store::hot::Leasing;

use crate::account::AccountOf;
use crate::engine::{Engine, Inquiry, Purpose, Scratch};
use crate::fleet::SharedCounter;
use crate::key::KeyBuffer;
use crate::key_acts::Treatment;
use crate::pending::FailTerms;
use crate::request::{Descriptor, Known, Request, RequestError, Subject};
use crate::verdict::{Answer, DecidedBy, Force, Ruling, Status, Unmatched, Usual};

mod acts;
mod approach;
mod repeating;
mod resetting;
mod settling;
mod sharing;
mod sighting;

pub(crate) use self::acts::Stash;
pub(crate) use self::approach::Ahead;
use self::approach::Approach;
use self::repeating::Repeating;
use self::settling::Settling;
pub(crate) use self::sighting::Sighted;

/// Stands where a decision is about to be written.
const UNDECIDED: Decision = Decision { outcome: Outcome::Never, limit: 0, remaining: 0, reset_after: None };

/// A request and the limits that it meets.
pub(crate) struct Meeting<'a> {
    engine: &'a Engine,
    request: &'a Request<'a>,
    /// The rules that it meets, once they are found.
    snapshot: Option<&'a Snapshot>,
    now: Time,
    answer: Answer,
    /// One for each ruling of the answer.
    charges: Usual<Charge<'a>>,
    /// Charges, by their index, whose counters were kept under another limit before, and under which. Nearly always there are none.
    carried_over: SmallVec<[(usize, &'a Limit); 1]>,
    /// Charges that others share, in order.
    shared: SmallVec<[Shared<'a>; 1]>,
    /// Whether a quota rule admits the request whatever its counters say, because it only counts.
    has_lenient_quota: bool,
    /// What operators do to the keys of the request, one for each descriptor; empty if nothing.
    treatments: Usual<Treatment>,
    /// Whether that denies it.
    is_banned: bool,
    /// Whether it is noted what the limits take.
    is_reserving: bool,
    /// What is settled, if something is.
    settling: Option<Box<Settling<'a>>>,
    /// What is remembered of it, if it comes with an id.
    repeating: Option<Box<Repeating<'a>>>,
}

/// A charge on a counter that others share.
struct Shared<'a> {
    /// Which one.
    index: usize,
    counter: SharedCounter,
    pin: Option<Pin>,
    /// Who it is written down for, where that is kept.
    account: Option<AccountOf<'a>>,
    terms: FailTerms,
    /// How its units are leased, where they are.
    leased: Option<LeaseTerms>,
    /// Whether they ever are.
    leasing: Leasing,
    /// Whether it is known that this process has not enough to spend.
    is_tried: bool,
}

/// What is at hand while limits are met.
struct Supplies<'a, 'b> {
    /// The names of limits that others take the place of.
    replaced: &'b [&'a str],
    stash: &'a Stash,
    key_buffer: &'b mut KeyBuffer,
}

/// How a charge is to be made: what the caller has said about it.
#[derive(Clone, Copy)]
struct Terms {
    cost: u64,
    /// The descriptor carries the cost itself: it is known only now, after the fact.
    carried: bool,
    refund: bool,
}

impl<'a> Meeting<'a> {
    pub(crate) fn new(engine: &'a Engine, inquiry: &Inquiry<'a>) -> Meeting<'a> {
        let Inquiry { request, purpose, now } = *inquiry;
        let settling = match purpose {
            Purpose::Settle(dues) => Some(Box::new(Settling::new(dues))),
            Purpose::Pass | Purpose::Hold | Purpose::Reserve { .. } => None,
        };
        Meeting {
            engine,
            request,
            snapshot: None,
            now,
            answer: Answer::default(),
            charges: SmallVec::new(),
            carried_over: SmallVec::new(),
            shared: SmallVec::new(),
            has_lenient_quota: false,
            treatments: SmallVec::new(),
            is_banned: false,
            is_reserving: matches!(purpose, Purpose::Reserve { .. }),
            settling,
            repeating: request.id.filter(|_| !request.peek).map(|id| Box::new(Repeating::new(id))),
        }
    }

    /// Has the memory fetched that deciding will look at.
    pub(crate) fn prefetch(&self) {
        self.engine.ledger.prefetch(&self.charges);
    }

    /// What the limits have said.
    pub(crate) fn into_answer(self) -> Answer {
        self.answer
    }

    /// Finds the limits of the request, unless it is banned. `own` are those that it brings along, in the order of its descriptors.
    pub(crate) fn arrange(
        &mut self,
        snapshot: &'a Snapshot,
        own: &'a [Quota],
        stash: &'a Stash,
        key_buffer: &mut KeyBuffer,
    ) -> Result<(), RequestError> {
        if self.engine.key_acts.any() {
            self.treat(snapshot, key_buffer);
        }
        if self.is_banned { Ok(()) } else { self.find(snapshot, own, stash, key_buffer) }
    }

    /// Finds the limits of the request, banned or not.
    pub(crate) fn find(
        &mut self,
        snapshot: &'a Snapshot,
        own: &'a [Quota],
        stash: &'a Stash,
        key_buffer: &mut KeyBuffer,
    ) -> Result<(), RequestError> {
        self.snapshot = Some(snapshot);
        match self.request.subject {
            Subject::Descriptors { domain, descriptors } => {
                if let Some(domain) = snapshot.domain(domain).filter(|domain| domain.enabled()) {
                    let mut supplies = Supplies { replaced: &[], stash, key_buffer };
                    self.descriptors((snapshot, domain), descriptors, own, &mut supplies);
                } else {
                    let status = domain_status(snapshot, domain);
                    self.answer.statuses.resize(descriptors.len(), status);
                }
            }
            Subject::Policy { name, key, tier } => {
                let place_index = snapshot.policy(name).ok_or_else(|| unknown_policy(snapshot, name))?;
                let place = snapshot.place(place_index);
                check_tier(place, tier)?;
                if let Err(status) = self.check_in_force(place) {
                    self.answer.statuses.push(status);
                } else {
                    let approach = self.approach_policy(snapshot, place_index, (key, tier), key_buffer);
                    let terms = Terms { cost: self.request.cost, carried: false, refund: false };
                    self.meet(&approach, terms, &mut Supplies { replaced: &[], stash, key_buffer });
                }
            }
        }
        Ok(())
    }

    fn descriptors(
        &mut self,
        (snapshot, domain): (&'a Snapshot, &'a Domain),
        descriptors: &'a [Descriptor<'a>],
        own: &'a [Quota],
        supplies: &mut Supplies<'a, '_>,
    ) {
        let mut approaches: Usual<Result<Approach<'a>, Status>> = SmallVec::new();
        for (at, descriptor) in descriptors.iter().enumerate() {
            approaches.push(self.approach((snapshot, domain), at, descriptor, supplies.key_buffer));
        }
        let replaced: Usual<&'a str> = replaced_names(&approaches);
        let Supplies { stash, key_buffer, .. } = supplies;
        let mut supplies = Supplies { replaced: &replaced, stash, key_buffer };
        let mut own = own.iter();
        for (descriptor, approach) in descriptors.iter().zip(&approaches) {
            let terms = Terms {
                cost: descriptor.cost.unwrap_or(self.request.cost),
                carried: descriptor.cost.is_some(),
                refund: descriptor.refund,
            };
            if descriptor.limit.is_some() {
                let bytes = supplies.key_buffer.of_own_limit(domain.name(), descriptor.entries);
                self.meet_own(own.next(), bytes, descriptor.entries, terms);
                continue;
            }
            match approach {
                Ok(approach) => self.meet(approach, terms, &mut supplies),
                Err(status) => self.answer.statuses.push(status.clone()),
            }
        }
    }

    /// Whether a rule is in force. If not, the error is what became of the descriptor.
    fn check_in_force(&self, place: &Place) -> Result<(), Status> {
        let is_bypassed =
            || self.settling.is_none() && self.engine.switches.bypasses_rule(place.id(), self.now);
        match place.rule().enabled {
            false => Err(Status::NoLimit),
            true if is_bypassed() => Err(Status::SwitchedOff),
            true => Ok(()),
        }
    }

    /// Meets the limits of one place.
    fn meet(&mut self, approach: &Approach<'a>, terms: Terms, supplies: &mut Supplies<'a, '_>) {
        let Approach { place_index, place, counted, tier, standing, pin, .. } = *approach;
        let engine = self.engine;
        let first = self.answer.rulings.len();
        let mut unlimited = false;
        for (limit_index, (placed, &key)) in place.limits().iter().zip(&approach.keys).enumerate() {
            let is_replaced = || placed.name().is_some_and(|name| supplies.replaced.contains(&name));
            let quota = match approach.allowance(limit_index, placed) {
                Allowance::Unlimited => {
                    unlimited = true;
                    continue;
                }
                Allowance::Quota(_) if is_replaced() => continue,
                Allowance::Quota(quota) => approach.boosted(placed, quota, supplies.stash),
            };
            let (mut counter, mut percentile) = (None, 0);
            // Most need no more of the key than its hash.
            if engine.shares(placed.consistency()) || placed.enforce_percent() < 100 {
                let bytes = supplies.key_buffer.of(place, placed, counted);
                counter = engine.shared_counter(bytes, quota, placed.consistency());
                if placed.enforce_percent() < 100 {
                    percentile = engine.rollout().percentile(bytes);
                }
            }
            let Some((limit, due)) = self.due(key, &mut counter, &quota.limit) else { continue };
            let force = match place.rule() {
                _ if terms.refund => Force::Refund,
                rule if rule.shadow_mode || percentile >= placed.enforce_percent() => Force::Shadow,
                rule if rule.quota_mode => Force::Quota,
                _ => Force::Enforced,
            };
            let charge_index = self.charges.len();
            if let Some(counter) = counter {
                let terms = FailTerms { mode: placed.fail_mode(), percent: placed.local_percent() };
                let (index, (leased, leasing)) = (charge_index, self.engine.leases(key, quota));
                // The count remembers the id, so the count is asked.
                let leased = leased.filter(|_| self.repeating.is_none());
                let (mut pin, mut account) = (pin, None);
                if placed.is_durable() {
                    pin = Some(Pin::DATABASE);
                    account = Some(AccountOf { tenant: approach.tenant, counted, place, limit_index });
                }
                let is_tried = false;
                self.shared.push(Shared { index, counter, pin, account, terms, leased, leasing, is_tried });
            } else {
                let before = placed.counted_before(tier, standing.is_some(), &quota.limit, self.now);
                self.carried_over.extend(before.map(|was| (charge_index, was)));
            }
            let intent = intent(self.request.peek, limit, placed.overshoot(), terms.carried);
            let (cost, intent, force) = self.settled((Cost::new(terms.cost), intent, force), due);
            let shadow = matches!(force, Force::Shadow | Force::Refund);
            let charge = Charge { key, limit, cost, intent, shadow };
            self.add(Some((place_index, limit_index, place.counter(tier))), quota, charge, force);
        }
        self.has_lenient_quota |= place.rule().quota_mode
            && self.answer.rulings.len() > first
            && self.answer.rulings[first..].iter().all(|ruling| ruling.force == Force::Shadow);
        self.answer.statuses.push(match self.answer.rulings.len() {
            last if last > first => Status::Limited(first..last),
            _ if unlimited => Status::Unlimited,
            _ => Status::NoLimit,
        });
    }

    /// Meets a limit that the request brought along.
    fn meet_own(&mut self, quota: Option<&'a Quota>, key: &[u8], entries: &[Entry<'_>], terms: Terms) {
        let Some(quota) = quota else { return self.answer.statuses.push(Status::NoLimit) };
        let index = self.charges.len();
        let mut counter = self.engine.shared_counter(key, quota, None);
        let ledger_key = self.engine.ledger.key_of_caller(key);
        let Some((limit, due)) = self.due(ledger_key, &mut counter, &quota.limit) else {
            return self.answer.statuses.push(Status::NoLimit);
        };
        self.shared.extend(counter.map(|counter| {
            let pin = self.engine.pin_of(entries.iter().map(|(_, value)| value.as_bytes()));
            let (leased, leasing) = (None, Leasing::Never);
            let (account, terms, is_tried) = (None, FailTerms::default(), false);
            Shared { index, counter, pin, account, terms, leased, leasing, is_tried }
        }));
        let intent = intent(self.request.peek, limit, Overshoot::ByCaller, terms.carried);
        let force = if terms.refund { Force::Refund } else { Force::Enforced };
        let (cost, intent, force) = self.settled((Cost::new(terms.cost), intent, force), due);
        let charge = Charge { key: ledger_key, limit, cost, intent, shadow: force == Force::Refund };
        let first = self.answer.rulings.len();
        self.add(None, quota, charge, force);
        self.answer.statuses.push(Status::Limited(first..first + 1));
    }

    fn add(
        &mut self,
        from: Option<(PlaceIndex, usize, RuleId)>,
        quota: &Quota,
        charge: Charge<'a>,
        force: Force,
    ) {
        self.answer.rulings.push(Ruling {
            place: from.map(|(place, _, _)| place),
            limit_index: from.map_or(0, |(_, limit, _)| limit),
            counter: from.map(|(_, _, counter)| counter),
            units: quota.units,
            period: quota.period,
            cost: charge.cost.units(),
            decision: UNDECIDED,
            decided_by: DecidedBy::Ledger,
            decided_at: None,
            force,
        });
        self.charges.push(charge);
    }

    /// Whether any of the limits is one on how many may be at it at the same time.
    pub(crate) fn has_something_to_hold(&self) -> bool {
        self.charges.iter().any(|charge| matches!(charge.limit, Limit::Concurrency(_)))
    }

    /// Asks all limits, and says whether the request passes.
    pub(crate) fn decide(&mut self, scratch: &mut Scratch) -> bool {
        self.carry_over();
        self.give_back();
        self.excuse_quotas();
        if let ([charge], [ruling]) = (self.charges.as_slice(), self.answer.rulings.as_mut_slice()) {
            // Alone, a limit needs no probing. One that holds is asked by name, below.
            if !matches!(charge.limit, Limit::Concurrency(_)) {
                ruling.decision = self.engine.ledger.decide(charge, self.now);
                return charge.shadow || ruling.decision.is_allowed();
            }
        }
        let Scratch { decisions, holders, .. } = scratch;
        let passes = self.engine.ledger.acquire_all(&self.charges, self.now, decisions, holders);
        for (ruling, decision) in self.answer.rulings.iter_mut().zip(decisions.iter()) {
            ruling.decision = *decision;
        }
        self.answer
            .holders
            .extend(holders.iter().enumerate().filter_map(|(at, holder)| holder.map(|holder| (at, holder))));
        passes
    }

    /// Brings along what was counted under other limits. Not before the request is decided: others may be decided between, and may
    /// bring the same counters along for limits of theirs.
    fn carry_over(&self) {
        for &(index, was) in &self.carried_over {
            if let Some(charge) = self.charges.get(index) {
                self.engine.ledger.carry_over(charge.key, was, charge.limit, self.now);
            }
        }
    }

    /// Units that come back do so whatever becomes of the rest; after that, the limit is only looked at. What is held comes back
    /// by its name, or at its deadline: some units of some holder would be somebody else's.
    fn give_back(&mut self) {
        for index in 0..self.charges.len() {
            if self.answer.rulings[index].force != Force::Refund {
                continue;
            }
            let charge = self.charges[index];
            let is_taken = charge.intent != Intent::Peek && !matches!(charge.limit, Limit::Concurrency(_));
            if is_taken && !self.is_shared(index) {
                let refund = self.refund_here(index);
                self.engine.ledger.give_back(charge.key, charge.limit, refund);
            }
            let charge = &mut self.charges[index];
            (charge.cost, charge.intent) = (Cost::ZERO, Intent::Peek);
        }
    }

    /// Where some quota rules admit the request, those that do not are only looked at. Where none does, all deny.
    fn excuse_quotas(&mut self) {
        if self.answer.rulings.iter().all(|ruling| ruling.force != Force::Quota) {
            return;
        }
        let quotas = self.answer.statuses.iter().filter_map(|status| self.quota(status));
        // Of those that others share, nothing is known yet: they may admit.
        let (over, admitting): (Usual<_>, Usual<_>) = quotas.partition(|range| self.is_over(range.clone()));
        if admitting.is_empty() && !self.has_lenient_quota {
            return;
        }
        for index in over.into_iter().flatten() {
            self.charges[index].intent = Intent::Peek;
            self.charges[index].shadow = true;
            if self.answer.rulings[index].force == Force::Quota {
                self.answer.rulings[index].force = Force::Excused;
            }
        }
    }

    /// The rulings on a descriptor that meets a quota rule.
    fn quota(&self, status: &Status) -> Option<Range<usize>> {
        let Status::Limited(range) = status else { return None };
        let is_quota = self.answer.rulings[range.clone()].iter().any(|ruling| ruling.force == Force::Quota);
        is_quota.then(|| range.clone())
    }

    /// Whether any limit denies that counts.
    fn is_over(&self, range: Range<usize>) -> bool {
        range.filter(|&index| !self.charges[index].shadow && !self.is_shared(index)).any(|index| {
            let peek = Charge { intent: Intent::Peek, ..self.charges[index] };
            !self.engine.ledger.decide(&peek, self.now).is_allowed()
        })
    }
}

/// The names of all limits that others take the place of.
fn replaced_names<'a>(approaches: &[Result<Approach<'a>, Status>]) -> Usual<&'a str> {
    let limits = approaches.iter().flatten().flat_map(|approach| approach.place.limits());
    limits.flat_map(PlacedLimit::replaces).map(String::as_str).collect()
}

/// A cost that a descriptor carries was spent already and is booked; any other is asked for. A rule may say otherwise. What is
/// held is never booked: whoever holds it must be able to release it.
fn intent(peek: bool, limit: &Limit, overshoot: Overshoot, carried: bool) -> Intent {
    match overshoot {
        _ if peek => Intent::Peek,
        _ if matches!(limit, Limit::Concurrency(_)) => Intent::Take,
        Overshoot::Book => Intent::Book,
        Overshoot::ByCaller if carried => Intent::Book,
        Overshoot::ByCaller | Overshoot::Deny => Intent::Take,
    }
}

/// What becomes of descriptors whose domain asks nothing: there is none, or its rules turn it off.
fn domain_status(snapshot: &Snapshot, domain: &str) -> Status {
    match snapshot.domain(domain) {
        Some(_) => Status::NoLimit,
        None => Status::Unmatched(Unmatched::Domain),
    }
}

fn check_tier(place: &Place, tier: Option<&str>) -> Result<(), RequestError> {
    let Some(tier) = tier else { return Ok(()) };
    let names = || place.limits().iter().flat_map(PlacedLimit::tier_names);
    if names().any(|name| name == tier) {
        return Ok(());
    }
    let mut known: Vec<&str> = names().collect();
    known.sort_unstable();
    known.dedup();
    let known = Known::new(known.into_iter());
    Err(RequestError::UnknownTier { policy: place.path().to_owned(), tier: tier.to_owned(), known })
}

fn unknown_policy(snapshot: &Snapshot, name: &str) -> RequestError {
    let known = Known::new(snapshot.policy_names().iter().map(|name| &**name));
    RequestError::UnknownPolicy { name: name.to_owned(), known }
}
