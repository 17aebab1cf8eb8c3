//! A node: the purses of the product, a clock of its own, and what it has asked.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{SharedLimit, Span, Time};
use tollgate_store::authority::{Act, Failure, Grant, Question, SharedKey};
use tollgate_store::lease::{Census, Counted, Errand, Leased, Purses, PursesSettings, Spent, Wanted};

use super::draw::{Dice, Schedule};

/// The one key there is.
const KEY: u64 = 7;

/// What a node has asked the authority.
pub(super) struct Ticket {
    pub(super) question: Question,
    /// The errand, if nobody waits for the answer.
    errand: Option<Errand>,
    /// What the node had itself of what a request wants.
    part: Option<Part>,
    /// Whether the answer is still wanted.
    pub(super) is_waiting: bool,
}

/// What a node had itself of what a request wants, and lends to it until the authority has answered for the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) spent: Option<Spent>,
    pub(super) lent_us: u64,
    /// What was here, if nothing was on its way to or from here.
    pub(super) here: Option<u64>,
}

pub(super) struct Node {
    pub(super) purses: Purses,
    /// Counts its lives: what is said to one does not reach the next.
    pub(super) epoch: u64,
    pub(super) frozen_until: u64,
    pub(super) limit: Arc<SharedLimit>,
    pub(super) budget: u64,
    units_max: u64,
    /// How far its clock is ahead, and how many millionths it gains.
    offset: u64,
    gain_ppm: i64,
    pub(super) tickets: HashMap<u64, Ticket>,
    /// What it knows of the others, if it has to find out, and the question about that which has no answer.
    census: Option<Census>,
    beat: Option<(u64, Time)>,
}

impl Node {
    pub(super) fn new(schedule: &Schedule, dice: &mut Dice) -> Node {
        let drift = schedule.faults.drift_ppm;
        let mut node = Node {
            purses: purses(schedule, dice),
            epoch: 0,
            frozen_until: 0,
            limit: Arc::clone(&schedule.first.shared),
            budget: schedule.first.budget,
            units_max: schedule.node_max,
            offset: dice.below(3_600_000_000_000),
            gain_ppm: dice.below(2 * drift + 1).cast_signed() - drift.cast_signed(),
            tickets: HashMap::new(),
            census: None,
            beat: None,
        };
        node.restart(schedule, dice);
        node
    }

    /// Forgets everything.
    pub(super) fn restart(&mut self, schedule: &Schedule, dice: &mut Dice) {
        self.purses = purses(schedule, dice);
        self.census = schedule.has_census.then(|| Census::new(Span::from_ticks(schedule.beat_ns())));
        self.beat = None;
        if self.census.is_none() {
            self.purses.set_nodes(u32::try_from(schedule.nodes).unwrap());
        }
        self.tickets.clear();
        self.epoch += 1;
    }

    /// Tells that it is there, under a number. What is not answered by now is not waited for.
    pub(super) fn beat(&mut self, number: u64, now: u64) {
        let clock = self.clock(now);
        if let Some((_, sent_at)) = self.beat.replace((number, clock)) {
            self.hear_count(sent_at, None);
        }
    }

    /// Hears how many there are.
    pub(super) fn counted(&mut self, number: u64, counted: Counted) {
        if let Some((_, sent_at)) = self.beat.take_if(|beat| beat.0 == number) {
            self.hear_count(sent_at, Some(counted));
        }
    }

    fn hear_count(&mut self, sent_at: Time, counted: Option<Counted>) {
        if let Some(census) = &mut self.census {
            census.tell(sent_at, counted);
            self.purses.set_leasing_until(census.is_counted_until().unwrap_or_default());
            self.purses.set_nodes(census.nodes());
        }
    }

    /// Looks after its purses.
    pub(super) fn tend(&self, now: u64) {
        self.purses.tend(self.clock(now));
    }

    /// What its clock shows.
    pub(super) fn clock(&self, now: u64) -> Time {
        let gained = i128::from(now - super::draw::START) * i128::from(self.gain_ppm) / 1_000_000;
        Time::from_ticks(u64::try_from(i128::from(now + self.offset) + gained).unwrap())
    }

    pub(super) fn spend(&self, units: u64, is_lent: bool, now: u64) -> Option<Spent> {
        let wanted = Wanted { key: KEY, units, is_lent, limit: &self.limit };
        self.purses.spend(wanted, self.clock(now), || Leased {
            key: SharedKey(KEY.into()),
            pin: None,
            limit: Arc::clone(&self.limit),
            budget: self.budget,
            node_max: self.units_max,
            account: None,
        })
    }

    /// What it has of units that are more than that.
    pub(super) fn spend_part(&self, units: u64, now: u64) -> Option<Spent> {
        let wanted = Wanted { key: KEY, units, is_lent: true, limit: &self.limit };
        self.purses.spend_part(&wanted, self.clock(now))
    }

    /// What was lent is spent.
    pub(super) fn keep(&self, spent: &Spent) {
        self.purses.keep(KEY, spent);
    }

    /// Returns how many of the units are lost.
    pub(super) fn put_back(&self, spent: &Spent, now: u64) -> u64 {
        self.purses.put_back(KEY, spent, self.clock(now))
    }

    pub(super) fn question(&self, act: Act) -> Question {
        Question { key: SharedKey(KEY.into()), limit: Arc::clone(&self.limit), act, account: None }
    }

    /// Units here, and here or on the way.
    pub(super) fn units(&self, now: u64) -> (u64, u64) {
        self.purses.units(KEY, self.clock(now))
    }

    /// Keeps what was asked in mind, under a number.
    pub(super) fn ask(
        &mut self,
        number: u64,
        question: Question,
        errand: Option<Errand>,
        part: Option<Part>,
    ) {
        self.tickets.insert(number, Ticket { question, errand, part, is_waiting: true });
    }

    /// Nobody waits for an answer any more. Says whether anybody did, and what was lent meanwhile.
    pub(super) fn give_up(&mut self, number: u64, now: u64) -> (bool, Option<Part>) {
        let clock = self.clock(now);
        let Some(ticket) = self.tickets.get_mut(&number).filter(|ticket| ticket.is_waiting) else {
            return (false, None);
        };
        ticket.is_waiting = false;
        let part = ticket.part.take();
        if let Some(errand) = ticket.errand.take() {
            self.purses.settle(errand, Err(Failure::TimedOut), clock);
        }
        (true, part)
    }

    /// An answer has come, for the first time: says whether it was wanted, and what is to be done if not.
    pub(super) fn hear(&mut self, number: u64, grant: &Grant, now: u64) -> Option<Heard> {
        let clock = self.clock(now);
        let ticket = self.tickets.remove(&number)?;
        if !ticket.is_waiting {
            return Some(Heard::TooLate(ticket.question.undo(grant)));
        }
        if let Some(errand) = ticket.errand {
            self.purses.settle(errand, Ok(grant), clock);
            return Some(Heard::Errand);
        }
        self.purses.know(KEY, grant, clock);
        Some(Heard::Answer(ticket.question, ticket.part))
    }
}

pub(super) enum Heard {
    /// To somebody who waited, and what the node had itself.
    Answer(Question, Option<Part>),
    Errand,
    /// Nobody waits: what was granted is given back.
    TooLate(Option<Act>),
}

fn purses(schedule: &Schedule, dice: &mut Dice) -> Purses {
    let settings = PursesSettings {
        stripes: 1,
        life: Span::from_ticks(schedule.life_ns),
        ..PursesSettings::new(dice.next())
    };
    Purses::new(settings)
}
