//! The run: events in the order of their moments, and what follows from each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tollgate_core::{Cost, LeaseRest, Span, Time};
use tollgate_store::authority::{Act, Grant, Question};
use tollgate_store::lease::{Counted, Errand, Spent};

use super::authority::Authority;
use super::draw::{Dice, MS, START, Schedule, Terms};
use super::judge::Judge;
use super::node::{Heard, Node, Part};
use super::outcome::{Outcome, Violation};

/// How long an answer is waited for.
const PATIENCE_NS: u64 = 20 * MS;
/// So often in the life of a lease, a node looks after its purses.
const TENDS: u64 = 8;
const TENDS_MAX: u64 = 64;
/// How far somebody sets the authority's clock ahead or back at most, where it goes both ways.
const OFFSET_NS_MAX: u64 = 30_000 * MS;
/// The most errands that a node takes at once.
const ERRANDS_MAX: usize = 16;

#[derive(Debug)]
enum Event {
    Request,
    Arrive { node: usize, epoch: u64, ticket: u64, question: Question },
    Reply { node: usize, epoch: u64, ticket: u64, grant: Grant, judged_us: u64 },
    GiveUp { node: usize, epoch: u64, ticket: u64 },
    Tend { node: usize },
    PutBack { node: usize, epoch: u64, spent: Spent },
    Rush,
    Beat { node: usize },
    BeatArrives { node: usize, epoch: u64, number: u64 },
    BeatAnswered { node: usize, epoch: u64, number: u64, counted: Counted },
}

struct Planned {
    at: u64,
    turn: u64,
    event: Event,
}

struct World<'a> {
    schedule: &'a Schedule,
    dice: Dice,
    now: u64,
    turn: u64,
    planned: BinaryHeap<Reverse<Planned>>,
    nodes: Vec<Node>,
    authority: Authority,
    /// How far the authority's clock is ahead of the beginning's, and how much of that it has jumped forward.
    offset_ns: i64,
    jumped_ns: u64,
    has_changed: bool,
    judge: Judge,
    /// What nodes have given up and the authority has not seen yet: an account of its own, since a node's may be wrong.
    on_way_back: Vec<OnWayBack>,
    /// Units that were lent to requests and came back too late.
    lost_when_put_back: u64,
    tickets: u64,
    outcome: Outcome,
}

/// What is left of a lease, on its way to the authority.
#[derive(Clone, Copy, Debug)]
struct OnWayBack {
    node: usize,
    epoch: u64,
    lease: u64,
    units: u64,
    /// Until when the authority takes it, by its own clock.
    deadline: Time,
}

/// Runs the schedule to its end, or to the first violation.
pub fn run(schedule: &Schedule) -> Result<Outcome, Box<Violation>> {
    let mut world = World::new(schedule);
    let result = world.play().and_then(|()| world.wind_up());
    world.outcome.spent_of_leases = world.judge.spent;
    match result {
        Ok(()) => Ok(world.outcome),
        Err(what) => {
            let (seed, events, schedule) = (schedule.seed, world.outcome.events, schedule.clone());
            Err(Violation { seed, events, what, schedule }.into())
        }
    }
}

impl<'a> World<'a> {
    fn new(schedule: &'a Schedule) -> World<'a> {
        let mut dice = Dice::new(!schedule.seed);
        let nodes = (0..schedule.nodes).map(|_| Node::new(schedule, &mut dice)).collect();
        let mut world = World {
            schedule,
            dice,
            now: START,
            turn: 0,
            planned: BinaryHeap::new(),
            nodes,
            authority: Authority::new(&schedule.first.shared),
            offset_ns: 0,
            jumped_ns: 0,
            has_changed: false,
            judge: Judge::new(schedule),
            on_way_back: Vec::new(),
            lost_when_put_back: 0,
            tickets: 0,
            outcome: Outcome::default(),
        };
        world.plan(0, Event::Request);
        for node in 0..world.nodes.len() {
            let first = world.dice.below(world.tend_ns());
            world.plan(first, Event::Tend { node });
            if schedule.has_census {
                // They come one after the other.
                let joins_after = world.dice.below((schedule.ends_at - START) / 2) * world.dice.below(2);
                world.nodes[node].frozen_until = START + joins_after;
                let first = joins_after + world.dice.below(schedule.beat_ns());
                world.plan(first, Event::Beat { node });
            }
        }
        if schedule.rush > 0 {
            world.plan(world.rush_after(), Event::Rush);
        }
        world
    }

    fn play(&mut self) -> Result<(), String> {
        while let Some(Reverse(Planned { at, event, .. })) = self.planned.pop() {
            self.now = at;
            self.outcome.events += 1;
            let told = self.schedule.is_told.then(|| format!("{event:?}"));
            self.happen(event)?;
            self.misfortune();
            if let Some(told) = told {
                let units: Vec<(u64, u64)> = self.nodes.iter().map(|node| node.units(at)).collect();
                let since_us = (at - START) / 1_000;
                println!("{since_us:>12} us  units here, and here or on the way: {units:?}  {told}");
            }
            self.check()?;
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Request => self.next_request(),
            Event::Arrive { node, epoch, ticket, question } => self.arrive(node, epoch, ticket, &question),
            Event::Reply { node, epoch, ticket, grant, judged_us } => {
                if self.nodes[node].epoch != epoch {
                    return Ok(()); // There is nobody who could hear it.
                }
                if let Some(thawed) = self.frozen(node) {
                    self.plan(thawed, Event::Reply { node, epoch, ticket, grant, judged_us });
                    return Ok(());
                }
                self.reply(node, ticket, &grant, judged_us)
            }
            Event::GiveUp { node, epoch, ticket } => {
                if let Some(thawed) = self.frozen(node) {
                    self.plan(thawed, Event::GiveUp { node, epoch, ticket });
                } else if self.nodes[node].epoch == epoch {
                    let (was_waiting, part) = self.nodes[node].give_up(ticket, self.now);
                    self.outcome.denied += u64::from(was_waiting);
                    self.put_back(node, part.and_then(|part| part.spent))?;
                }
                Ok(())
            }
            Event::Tend { node } => {
                if self.frozen(node).is_none() {
                    self.nodes[node].tend(self.now);
                    self.run_errands(node);
                }
                if self.now < self.last_tend() {
                    self.plan(self.tend_ns(), Event::Tend { node });
                }
                Ok(())
            }
            Event::PutBack { node, epoch, spent } => {
                if let Some(thawed) = self.frozen(node) {
                    self.plan(thawed, Event::PutBack { node, epoch, spent });
                } else if self.nodes[node].epoch == epoch {
                    self.put_back(node, Some(spent))?;
                }
                Ok(())
            }
            Event::Rush => {
                // The worst moment for it: what was leased under the other rules comes back while many are counted under these.
                if self.schedule.changes_at_once() && self.schedule.changes() {
                    self.has_changed = true;
                    self.change_rules();
                }
                (0..self.schedule.rush).try_for_each(|_| self.request())
            }
            Event::Beat { node } => {
                self.beat(node);
                Ok(())
            }
            Event::BeatArrives { node, epoch, number } => {
                let name = epoch * self.schedule.nodes + node as u64;
                let interval = Span::from_ticks(self.schedule.beat_ns() / 1_000);
                let counted = self.authority.count(name, interval, self.authority_time());
                self.carry(true, || Event::BeatAnswered { node, epoch, number, counted });
                Ok(())
            }
            Event::BeatAnswered { node, epoch, number, counted } => {
                // A frozen node hears it when it wakes, and by then it has been given up.
                if self.nodes[node].epoch == epoch && self.frozen(node).is_none() {
                    self.nodes[node].counted(number, counted);
                }
                Ok(())
            }
        }
    }

    /// A node gets back what it has lent.
    fn put_back(&mut self, node: usize, spent: Option<Spent>) -> Result<(), String> {
        let Some(spent) = spent else { return Ok(()) };
        self.lost_when_put_back += self.nodes[node].put_back(&spent, self.now);
        spent.parts().try_for_each(|(lease, units)| self.judge.puts_back(lease, units))
    }

    /// A node tells that it is there.
    fn beat(&mut self, node: usize) {
        if self.now < self.schedule.ends_at {
            let thawed = self.frozen(node).unwrap_or(0);
            self.plan(thawed.max(self.schedule.beat_ns()), Event::Beat { node });
        }
        if self.frozen(node).is_none() {
            self.tickets += 1;
            let (number, epoch) = (self.tickets, self.nodes[node].epoch);
            self.nodes[node].beat(number, self.now);
            self.carry(true, || Event::BeatArrives { node, epoch, number });
        }
    }

    /// When everybody comes at once.
    fn rush_after(&self) -> u64 {
        (self.schedule.ends_at - START) * 3 / 4
    }

    /// A request, and the plan of the next one. Before a rush, few come.
    fn next_request(&mut self) -> Result<(), String> {
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
    fn request(&mut self) -> Result<(), String> {
        let count = self.nodes.len() as u64;
        let first = self.dice.below(10) < self.schedule.skew;
        let node = if first { 0 } else { usize::try_from(self.dice.below(count)).unwrap() };
        if self.frozen(node).is_some() {
            return Ok(()); // It goes to nobody.
        }
        let units = self.dice.between(1, self.schedule.cost_max);
        let puts_back = self.dice.happens(self.schedule.puts_back);
        let spent = self.nodes[node].spend(units, puts_back, self.now);
        if let Some(spent) = spent {
            for (lease, units) in spent.parts() {
                self.judge.spends(lease, units, self.now)?;
            }
            if puts_back {
                let (epoch, delay) = (self.nodes[node].epoch, self.dice.below(50 * MS));
                self.plan(delay, Event::PutBack { node, epoch, spent });
            } else {
                self.judge.passes(self.judged_us(), units)?;
            }
        } else {
            self.ask_for(node, units)?;
        }
        self.run_errands(node);
        Ok(())
    }

    /// Asks for units that a node has not, or not all of them.
    fn ask_for(&mut self, node: usize, units: u64) -> Result<(), String> {
        let (here, out) = self.nodes[node].units(self.now);
        let spent = self.nodes[node].spend_part(units, self.now);
        for (lease, units) in spent.iter().flat_map(Spent::parts) {
            self.judge.spends(lease, units, self.now)?;
        }
        let others = units - spent.as_ref().map_or(0, Spent::units);
        let question = self.nodes[node].question(Act::Take(Cost::new(others)));
        let part = Part { spent, lent_us: self.judged_us(), here: (here == out).then_some(here) };
        self.send(node, &question, None, Some(part));
        Ok(())
    }

    fn run_errands(&mut self, node: usize) {
        for errand in self.nodes[node].purses.take_errands(ERRANDS_MAX) {
            self.send(node, &errand.question.0.clone(), Some(errand), None);
        }
    }

    /// Sends a question on its way, and plans the end of all patience.
    fn send(&mut self, node: usize, question: &Question, errand: Option<Errand>, part: Option<Part>) {
        self.tickets += 1;
        let (ticket, epoch) = (self.tickets, self.nodes[node].epoch);
        self.nodes[node].ask(ticket, question.clone(), errand, part);
        if let Act::Return(LeaseRest { number: lease, units, deadline, .. }) = question.act
            && self.on_way_back.iter().all(|on_way| on_way.lease != lease)
        {
            self.on_way_back.push(OnWayBack { node, epoch, lease, units, deadline });
        }
        self.plan(PATIENCE_NS, Event::GiveUp { node, epoch, ticket });
        // What is undone has no number by which a second time could be told: there the driver relies on its connection, which repeats nothing.
        let may_repeat = !matches!(question.act, Act::GiveBack { .. });
        self.carry(may_repeat, || Event::Arrive { node, epoch, ticket, question: question.clone() });
    }

    /// The network: loses, repeats, delays.
    fn carry(&mut self, may_repeat: bool, event: impl Fn() -> Event) {
        let faults = self.schedule.faults;
        let copies = u8::from(!self.dice.happens(faults.loss));
        let copies = if may_repeat && self.dice.happens(faults.repeat) { copies + 1 } else { copies };
        for _ in 0..copies {
            let times = if self.dice.happens(faults.late) { 50 } else { 1 };
            let delay = self.dice.below(faults.latency_ns * times) + 1;
            self.plan(delay, event());
        }
    }

    /// A question arrives at the authority.
    fn arrive(&mut self, node: usize, epoch: u64, ticket: u64, question: &Question) -> Result<(), String> {
        let now = self.authority_time();
        let asks_anew = matches!(question.act, Act::Take(_) | Act::Lease { .. });
        if self.has_changed && self.schedule.changes_at_once() && asks_anew {
            // Who asks under what was in force before would have what others count now trimmed: all have changed, and such questions are lost.
            let is_in_force = question.limit == self.schedule.changed.shared;
            if !is_in_force {
                return Ok(());
            }
        }
        let (grant, done) = self.authority.answer(question, now);
        if let Act::Return(rest) = question.act {
            self.on_way_back.retain(|on_way| on_way.lease != rest.number);
        }
        match question.act {
            Act::Lease { number, .. } => {
                let deadline = now.plus(Span::from_ticks(self.schedule.life_ns / 1_000));
                self.judge.granted(number, grant.leased, deadline, self.now + self.schedule.life_ns);
            }
            Act::Take(cost) if grant.decision.is_allowed() => {
                self.judge.granted(ticket, cost.units(), now, self.now);
            }
            _ => {}
        }
        if let Some((lease, units)) = done.returned {
            self.outcome.returned += units;
            self.judge.returned(lease, units, now)?;
        }
        let judged_us = self.judged_us();
        self.carry(true, || Event::Reply { node, epoch, ticket, grant, judged_us });
        Ok(())
    }

    fn reply(&mut self, node: usize, ticket: u64, grant: &Grant, judged_us: u64) -> Result<(), String> {
        match self.nodes[node].hear(ticket, grant, self.now) {
            None | Some(Heard::Errand | Heard::TooLate(None)) => {}
            // Undone after somebody has set the clock back, it would be too much, by that time at most. That is not what is tried here.
            Some(Heard::TooLate(Some(Act::GiveBack { .. }))) if self.schedule.faults.clock_step > 0 => {}
            Some(Heard::TooLate(Some(act))) => {
                let question = self.nodes[node].question(act);
                self.send(node, &question, None, None);
            }
            Some(Heard::Answer(question, part)) => {
                if let Act::Take(cost) = question.act {
                    self.decided(node, (ticket, cost.units()), part, grant, judged_us)?;
                }
            }
        }
        Ok(())
    }

    /// The authority has decided about what a node had not itself.
    fn decided(
        &mut self,
        node: usize,
        (ticket, units): (u64, u64),
        part: Option<Part>,
        grant: &Grant,
        judged_us: u64,
    ) -> Result<(), String> {
        let Some(Part { spent, lent_us, here }) = part else { return Ok(()) };
        if !grant.decision.is_allowed() {
            self.outcome.denied += 1;
            let wanted = units + spent.as_ref().map_or(0, Spent::units);
            let rest = grant.decision.remaining;
            if let Some(here) = here.filter(|here| rest + here >= wanted) {
                return Err(format!("{wanted} units are denied, though {here} were here and {rest} there"));
            }
            return self.put_back(node, spent);
        }
        self.outcome.taken += units;
        self.judge.takes(ticket, units)?;
        if let Some(spent) = spent {
            self.nodes[node].keep(&spent);
            self.judge.passes(lent_us, spent.units())?;
        }
        self.judge.passes(judged_us, units)
    }

    /// Things that just happen.
    fn misfortune(&mut self) {
        let faults = self.schedule.faults;
        // Where nodes count themselves, one of them has bad luck: if all stand still, they take it for an authority that was away.
        let unlucky = if self.schedule.has_census { 1 } else { self.schedule.nodes };
        let node = usize::try_from(self.dice.below(unlucky)).unwrap();
        if self.dice.happens(faults.crash) {
            self.nodes[node].restart(self.schedule, &mut self.dice);
        }
        if self.dice.happens(faults.freeze) {
            let span = self.dice.below(2 * self.schedule.life_ns);
            self.nodes[node].frozen_until = self.now + span;
        }
        if self.dice.happens(faults.clock_step) {
            self.step_clock();
        }
        if self.dice.happens(faults.change) {
            self.has_changed = true;
        }
        if self.has_changed {
            self.change_rules();
        }
    }

    /// One node learns of the rules that have changed, or all of them.
    fn change_rules(&mut self) {
        let nodes = if self.schedule.changes_at_once() {
            0..self.nodes.len()
        } else {
            let node = usize::try_from(self.dice.below(self.schedule.nodes)).unwrap();
            node..node + 1
        };
        let Terms { shared, budget, .. } = &self.schedule.changed;
        for node in &mut self.nodes[nodes] {
            node.limit = Arc::clone(shared);
            node.budget = *budget;
        }
    }

    /// Somebody sets the authority's clock: not so far that it would be forgotten what came back. Windows are judged by its time, so there it
    /// only goes forward.
    fn step_clock(&mut self) {
        let step = self.dice.below(self.schedule.life_ns) / 1_000 * 1_000;
        let goes_forward = self.dice.happens(500) || self.schedule.has_windows();
        let signed = if goes_forward { step.cast_signed() } else { -step.cast_signed() };
        if !self.schedule.has_windows() && (self.offset_ns + signed).unsigned_abs() > OFFSET_NS_MAX {
            return;
        }
        self.offset_ns += signed;
        self.jumped_ns += step * u64::from(goes_forward);
    }

    fn check(&self) -> Result<(), String> {
        if self.schedule.has_census {
            let (out, units_max) = (self.units_out(), self.schedule.units_max());
            return if out <= units_max {
                Ok(())
            } else {
                Err(format!("all nodes together have {out} units, and may have {units_max}"))
            };
        }
        let units_max = self.schedule.node_units_max();
        for (number, node) in self.nodes.iter().enumerate() {
            let (here, out) = node.units(self.now);
            let out = out.max(here + self.units_on_way_back(number));
            if out > units_max {
                return Err(format!("node {number} has {out} units, and may have {units_max}"));
            }
        }
        Ok(())
    }

    /// What a node has given up and the authority would still take.
    fn units_on_way_back(&self, number: usize) -> u64 {
        let (epoch, authority_time) = (self.nodes[number].epoch, self.authority_time());
        let is_its = |on_way: &&OnWayBack| on_way.node == number && on_way.epoch == epoch;
        // Its clock may have been set back, which no node knows.
        let is_alive = |on_way: &&OnWayBack| {
            authority_time <= on_way.deadline && self.judge.is_alive(on_way.lease, self.now)
        };
        self.on_way_back.iter().filter(is_its).filter(is_alive).map(|on_way| on_way.units).sum()
    }

    fn units_out(&self) -> u64 {
        self.nodes.iter().map(|node| node.units(self.now).1).sum()
    }

    /// After everything: nothing is left anywhere, and where nothing went wrong, nothing was lost.
    fn wind_up(&mut self) -> Result<(), String> {
        let lost = self.judge.lost();
        let stated = self.lost_when_put_back;
        if self.schedule.loses_nothing() && self.tend_ns() <= self.schedule.life_ns / TENDS && lost > stated {
            return Err(format!(
                "{lost} units were granted, and neither spent nor given back, {stated} of them too late"
            ));
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let (units, out) = node.units(self.now);
            let keys = node.purses.keys();
            if (units, out, keys) != (0, 0, 0) {
                return Err(format!("node {number} still has {units} of {out} units in {keys} purses"));
            }
        }
        Ok(())
    }

    /// How long a node will still be frozen, if it is. Not beyond the end.
    fn frozen(&self, node: usize) -> Option<u64> {
        let until = self.nodes[node].frozen_until.min(self.schedule.ends_at + 2 * self.schedule.life_ns);
        until.checked_sub(self.now).filter(|&left| left > 0)
    }

    fn tend_ns(&self) -> u64 {
        // Not too often in a long run.
        (self.schedule.life_ns / TENDS).max((self.schedule.ends_at - START) / TENDS_MAX)
    }

    /// By when every purse must be empty and forgotten.
    fn last_tend(&self) -> u64 {
        self.schedule.ends_at
            + 5 * self.schedule.life_ns
            + 4 * PATIENCE_NS
            + 100 * self.schedule.faults.latency_ns
    }

    fn authority_time(&self) -> Time {
        let now = self.now.checked_add_signed(self.offset_ns).unwrap();
        Time::from_ticks(now / 1_000)
    }

    /// Now, in microseconds, on a clock that jumps forward with the authority's and never back.
    fn judged_us(&self) -> u64 {
        (self.now + self.jumped_ns) / 1_000
    }

    fn plan(&mut self, delay: u64, event: Event) {
        self.turn += 1;
        self.planned.push(Reverse(Planned { at: self.now + delay, turn: self.turn, event }));
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Planned) -> bool {
        self.turn == other.turn
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Planned) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Planned) -> std::cmp::Ordering {
        (self.at, self.turn).cmp(&(other.at, other.turn))
    }
}
