//! The run: events in the order of their moments, and what follows from each.

use std::sync::Arc;

use tollgate_core::{Span, Time};

use super::authority::Authority;
use super::draw::{Dice, MS, START, Schedule, Terms};
use super::events::{Event, Plan};
use super::judge::{Judge, Moment};
use super::lent::Lent;
use super::network::{OnWayBack, PATIENCE_NS};
use super::node::Node;
use super::outcome::{Outcome, Violation};

/// So often in the life of a lease, a node looks after its purses.
pub(super) const TENDS: u64 = 8;
const TENDS_MAX: u64 = 64;
/// How far somebody sets the authority's clock ahead or back at most, where it goes both ways.
const OFFSET_NS_MAX: u64 = 30_000 * MS;

pub(super) struct World<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) dice: Dice,
    /// Draws what there is besides takes of one key.
    pub(super) extra_dice: Dice,
    pub(super) now: u64,
    pub(super) planned: Plan,
    pub(super) nodes: Vec<Node>,
    pub(super) authority: Authority,
    /// How far the authority's clock is ahead of the beginning's, and how much of that it has jumped forward.
    pub(super) offset_ns: i64,
    pub(super) jumped_ns: u64,
    pub(super) has_changed: bool,
    /// One for each key.
    pub(super) judges: Vec<Judge>,
    /// What nodes have given up and the authority has not seen yet: an account of its own, since a node's may be wrong.
    pub(super) on_way_back: Vec<OnWayBack>,
    /// What nodes have lent to requests that are not decided yet, in an account of its own.
    pub(super) lent: Vec<Lent>,
    /// Units that were lent to requests and came back too late.
    pub(super) lost_when_put_back: u64,
    pub(super) tickets: u64,
    pub(super) requests: u64,
    pub(super) outcome: Outcome,
}

/// Runs the schedule to its end, or to the first violation.
pub fn run(schedule: &Schedule) -> Result<Outcome, Box<Violation>> {
    let mut world = World::new(schedule);
    let result = world.play().and_then(|()| world.wind_up());
    world.outcome.spent_of_leases = world.judges.iter().map(|judge| judge.spent).sum();
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
        let keys = schedule.extras.keys;
        let mut world = World {
            schedule,
            dice,
            extra_dice: schedule.extra_dice(),
            now: START,
            planned: Plan::default(),
            nodes,
            authority: Authority::new(&schedule.first.shared, keys),
            offset_ns: 0,
            jumped_ns: 0,
            has_changed: false,
            judges: (0..keys).map(|_| Judge::new(schedule)).collect(),
            on_way_back: Vec::new(),
            lent: Vec::new(),
            lost_when_put_back: 0,
            tickets: 0,
            requests: 0,
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
        while let Some((at, event)) = self.planned.pop() {
            self.now = at;
            self.outcome.events += 1;
            let told = self.schedule.is_told.then(|| format!("{event:?}"));
            self.happen(event)?;
            self.misfortune();
            if let Some(told) = told {
                let keys = 0..self.schedule.extras.keys;
                let units: Vec<Vec<(u64, u64)>> =
                    keys.map(|key| self.nodes.iter().map(|node| node.units(key, at)).collect()).collect();
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
            Event::Arrive(sent) => self.arrive(&sent),
            Event::Reply { node, epoch, ticket, grant, decided } => {
                if self.nodes[node].epoch != epoch {
                    return Ok(()); // There is nobody who could hear it.
                }
                if let Some(thawed) = self.frozen(node) {
                    self.plan(thawed, Event::Reply { node, epoch, ticket, grant, decided });
                    return Ok(());
                }
                self.reply(node, ticket, &grant, decided)
            }
            Event::GiveUp { node, epoch, ticket } => {
                if let Some(thawed) = self.frozen(node) {
                    self.plan(thawed, Event::GiveUp { node, epoch, ticket });
                    return Ok(());
                }
                if self.nodes[node].epoch != epoch {
                    return Ok(());
                }
                match self.nodes[node].give_up(ticket, self.now) {
                    (_, Some(request)) => self.answered(node, (request, ticket), None),
                    (was_waiting, None) => {
                        self.outcome.denied += u64::from(was_waiting);
                        Ok(())
                    }
                }
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
            Event::PutBack { node, epoch, key, spent } => {
                if let Some(thawed) = self.frozen(node) {
                    self.plan(thawed, Event::PutBack { node, epoch, key, spent });
                } else if self.nodes[node].epoch == epoch {
                    self.put_back(node, key, Some(spent))?;
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

    /// When everybody comes at once.
    pub(super) fn rush_after(&self) -> u64 {
        (self.schedule.ends_at - START) * 3 / 4
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

    /// How long a node will still be frozen, if it is. Not beyond the end.
    pub(super) fn frozen(&self, node: usize) -> Option<u64> {
        let until = self.nodes[node].frozen_until.min(self.schedule.ends_at + 2 * self.schedule.life_ns);
        until.checked_sub(self.now).filter(|&left| left > 0)
    }

    pub(super) fn tend_ns(&self) -> u64 {
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

    pub(super) fn authority_time(&self) -> Time {
        let now = self.now.checked_add_signed(self.offset_ns).unwrap();
        Time::from_ticks(now / 1_000)
    }

    /// Now, in microseconds, on a clock that jumps forward with the authority's and never back.
    fn judged_us(&self) -> u64 {
        (self.now + self.jumped_ns) / 1_000
    }

    /// Now, for the judge of a key.
    pub(super) fn moment(&self, key: usize) -> Moment {
        self.judges[key].moment(self.judged_us())
    }

    pub(super) fn plan(&mut self, delay: u64, event: Event) {
        self.planned.push(self.now + delay, event);
    }
}
