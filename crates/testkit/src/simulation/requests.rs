//! Requests: takes of one or several keys, all or nothing, bookings and resets, as the engine of the product makes them.

use tollgate_core::Cost;
use tollgate_store::authority::{Act, Grant, Question};
use tollgate_store::lease::Spent;

use super::draw::{MS, START};
use super::events::Event;
use super::extras::Verb;
use super::judge::Moment;
use super::network::Asking;
use super::world::World;

/// A request that waits for the authority.
#[derive(Debug)]
pub(super) struct Waiting {
    parts: Vec<Part>,
    /// How many questions have no answer yet.
    unanswered: usize,
}

/// What a request charges one key.
#[derive(Clone, Debug)]
struct Part {
    key: usize,
    verb: Charging,
    units: u64,
    /// What the node had itself: lent until all have answered, or spent if it is booked.
    spent: Option<Spent>,
    spent_at: Moment,
    /// What was here, if nothing was on its way to or from here.
    here: Option<u64>,
    /// The number of the question for the others, if there are any.
    ticket: Option<u64>,
    granted: Option<Granted>,
}

/// Whether a charge can be denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charging {
    Take,
    Book,
}

/// An answer to the question about a part.
#[derive(Clone, Debug)]
struct Granted {
    question: Question,
    grant: Grant,
    decided: Moment,
}

impl Part {
    fn units_here(&self) -> u64 {
        self.spent.as_ref().map_or(0, Spent::units)
    }

    fn units_asked(&self) -> u64 {
        self.units - self.units_here()
    }

    fn is_granted(&self) -> bool {
        let is_allowed = |granted: &Granted| granted.grant.decision.is_allowed();
        self.ticket.is_none() || self.granted.as_ref().is_some_and(is_allowed)
    }
}

impl World<'_> {
    /// A request, and the plan of the next one. Before a rush, few come.
    pub(super) fn next_request(&mut self) -> Result<(), String> {
        let elapsed = self.now - START;
        let is_quiet =
            self.schedule.rush > 0 && (self.rush_after() / 2..self.rush_after()).contains(&elapsed);
        let gap = self.dice.below(2 * self.schedule.gap_ns) * if is_quiet { 8 } else { 1 } + 1;
        if self.now + gap < self.schedule.ends_at {
            self.plan(gap, Event::Request);
        }
        self.request()
    }

    /// A request at one of the nodes.
    pub(super) fn request(&mut self) -> Result<(), String> {
        let count = self.nodes.len() as u64;
        let first = self.dice.below(10) < self.schedule.skew;
        let node = if first { 0 } else { usize::try_from(self.dice.below(count)).unwrap() };
        if self.frozen(node).is_some() {
            return Ok(()); // It goes to nobody.
        }
        let units = self.dice.between(1, self.schedule.cost_max);
        let puts_back = self.dice.happens(self.schedule.puts_back);
        let (verb, keys) = self.schedule.extras.next(&mut self.extra_dice);
        match verb {
            Verb::Take => self.take(node, &keys, units, puts_back)?,
            Verb::Book => self.book(node, &keys, units)?,
            Verb::Reset => self.reset(node, &keys)?,
        }
        self.run_errands(node);
        Ok(())
    }

    /// Takes units of all keys, or of none.
    fn take(&mut self, node: usize, keys: &[usize], units: u64, puts_back: bool) -> Result<(), String> {
        // Where there is one key, what is here is spent: there is nothing that could deny it.
        let is_lent = puts_back || keys.len() > 1;
        let mut parts = Vec::with_capacity(keys.len());
        for &key in keys {
            parts.push(self.charge(node, (key, units), Charging::Take, is_lent)?);
        }
        if parts.iter().any(|part| part.units_asked() > 0) {
            self.wait_for(node, parts);
            return Ok(());
        }
        for Part { key, units, spent, spent_at, .. } in parts {
            let Some(spent) = spent else { continue };
            if puts_back {
                let (epoch, delay) = (self.nodes[node].epoch, self.dice.below(50 * MS));
                self.plan(delay, Event::PutBack { node, epoch, key, spent });
                continue;
            }
            if is_lent {
                self.nodes[node].keep(key, &spent);
                self.ends_loan(node, key, &spent);
            }
            self.judges[key].passes(spent_at, units)?;
        }
        Ok(())
    }

    /// Books what is spent already: what is here is spent, the authority books the others.
    fn book(&mut self, node: usize, keys: &[usize], units: u64) -> Result<(), String> {
        for &key in keys {
            let part = self.charge(node, (key, units), Charging::Book, false)?;
            self.judges[key].books_here(part.units_here());
            if part.units_asked() > 0 {
                self.wait_for(node, vec![part]);
            }
        }
        Ok(())
    }

    /// A node gives up what it has of the keys, and the authority forgets what it has counted.
    fn reset(&mut self, node: usize, keys: &[usize]) -> Result<(), String> {
        for &key in keys {
            self.give_up_leases(node, key)?;
            let question = self.nodes[node].question(key, Act::Reset);
            self.send(node, &question, Asking::Nothing);
        }
        Ok(())
    }

    fn give_up_leases(&mut self, node: usize, key: usize) -> Result<(), String> {
        self.nodes[node].give_up_leases(key, self.now);
        match self.nodes[node].units(key, self.now).0 {
            0 => Ok(()),
            units => {
                Err(format!("node {node} still has {units} units of key {key}, all of which it gave up"))
            }
        }
    }

    /// Spends or lends what a node has of units: all, some, or none.
    fn charge(
        &mut self,
        node: usize,
        (key, units): (usize, u64),
        verb: Charging,
        is_lent: bool,
    ) -> Result<Part, String> {
        let spent_at = self.moment(key);
        let (mut here, mut is_lent) = (None, is_lent);
        let spent = self.nodes[node].spend(key, units, is_lent, self.now).or_else(|| {
            let (units_here, out) = self.nodes[node].units(key, self.now);
            here = (units_here == out).then_some(units_here);
            is_lent = verb == Charging::Take;
            self.nodes[node].spend_part(key, units, is_lent, self.now)
        });
        for (lease, units) in spent.iter().flat_map(Spent::parts) {
            self.judges[key].spends(lease, units, self.now)?;
        }
        if let Some(spent) = spent.as_ref().filter(|_| is_lent) {
            self.lends(node, key, spent);
        }
        Ok(Part { key, verb, units, spent, spent_at, here, ticket: None, granted: None })
    }

    /// Asks the authority for what a node has not, and has the request wait for the answers.
    fn wait_for(&mut self, node: usize, mut parts: Vec<Part>) {
        self.requests += 1;
        let request = self.requests;
        let mut unanswered = 0;
        for part in &mut parts {
            let cost = Cost::new(part.units_asked());
            if cost == Cost::ZERO {
                continue;
            }
            let act = match part.verb {
                Charging::Take => Act::Take(cost),
                Charging::Book => Act::Book(cost),
            };
            let question = self.nodes[node].question(part.key, act);
            part.ticket = Some(self.send(node, &question, Asking::For(request)));
            unanswered += 1;
        }
        self.nodes[node].requests.insert(request, Waiting { parts, unanswered });
    }

    /// A question of a request is answered, or no answer is waited for any more. With the last one, it is decided.
    pub(super) fn answered(
        &mut self,
        node: usize,
        (request, ticket): (u64, u64),
        answer: Option<(Question, Grant, Moment)>,
    ) -> Result<(), String> {
        let Some(waiting) = self.nodes[node].requests.get_mut(&request) else { return Ok(()) };
        waiting.unanswered -= 1;
        if let Some(part) = waiting.parts.iter_mut().find(|part| part.ticket == Some(ticket)) {
            part.granted = answer.map(|(question, grant, decided)| Granted { question, grant, decided });
        }
        if waiting.unanswered > 0 {
            return Ok(());
        }
        let Some(Waiting { parts, .. }) = self.nodes[node].requests.remove(&request) else { return Ok(()) };
        if let [part] = parts.as_slice()
            && part.verb == Charging::Book
        {
            return self.booked(node, part);
        }
        if parts.iter().all(Part::is_granted) {
            return parts.iter().try_for_each(|part| self.passes(node, part));
        }
        self.outcome.denied += 1;
        parts.iter().try_for_each(|part| self.is_denied(node, part))
    }

    /// A booking has its answer, or none in time. A node that hears of debt spends nothing of its leases any more.
    fn booked(&mut self, node: usize, part: &Part) -> Result<(), String> {
        let (Some(Granted { grant, .. }), Some(ticket)) = (&part.granted, part.ticket) else {
            return Ok(());
        };
        self.outcome.booked += part.units;
        self.judges[part.key].acknowledges(part.units, part.units_here(), ticket)?;
        if !grant.decision.is_allowed() {
            self.give_up_leases(node, part.key)?;
            self.run_errands(node);
        }
        Ok(())
    }

    /// A request passes: what was lent is spent.
    fn passes(&mut self, node: usize, part: &Part) -> Result<(), String> {
        let asked = part.units_asked();
        if let Some(ticket) = part.ticket {
            self.outcome.taken += asked;
            self.judges[part.key].takes(ticket, asked)?;
        }
        if let Some(spent) = &part.spent {
            self.nodes[node].keep(part.key, spent);
            self.ends_loan(node, part.key, spent);
            self.judges[part.key].passes(part.spent_at, spent.units())?;
        }
        if let Some(granted) = &part.granted {
            self.judges[part.key].passes(granted.decided, asked)?;
        }
        Ok(())
    }

    /// A request does not pass: what was lent is put back, and what was granted is undone.
    fn is_denied(&mut self, node: usize, part: &Part) -> Result<(), String> {
        if let (Some(Granted { question, grant, .. }), Some(ticket)) = (&part.granted, part.ticket) {
            let (wanted, rest) = (part.units, grant.decision.remaining);
            if let Some(here) = part.here.filter(|here| !part.is_granted() && rest + here >= wanted) {
                return Err(format!("{wanted} units are denied, though {here} were here and {rest} there"));
            }
            self.undo(node, question, question.undo(grant), ticket);
        }
        self.put_back(node, part.key, part.spent)
    }

    /// Has the authority undo what it granted to a question. The engine gives back all that was granted to a denied request, even what has come back by
    /// itself until then: more than here by the time that the request took, at most, which the bound does not count.
    pub(super) fn undo(&mut self, node: usize, question: &Question, undo: Option<Act>, ticket: u64) {
        // Undone after the clock was set back, it would be too much, by that time at most. That is not what is tried here.
        let Some(act) = undo.filter(|_| self.schedule.faults.clock_step == 0) else { return };
        let grant = if let Act::Lease { number, .. } = question.act { number } else { ticket };
        let question = Question { act, limit: self.nodes[node].limit.clone(), ..question.clone() };
        self.send(node, &question, Asking::ToUndo(grant));
    }

    /// A node gets back what it has lent.
    pub(super) fn put_back(&mut self, node: usize, key: usize, spent: Option<Spent>) -> Result<(), String> {
        let Some(spent) = spent else { return Ok(()) };
        self.ends_loan(node, key, &spent);
        self.lost_when_put_back += self.nodes[node].put_back(key, &spent, self.now);
        spent.parts().try_for_each(|(lease, units)| self.judges[key].puts_back(lease, units))
    }
}
