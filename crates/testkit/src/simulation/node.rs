//! A node: the purses of the product, a clock of its own, and what it has asked.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{SharedLimit, Span, Time};
use tollgate_store::authority::{Act, Failure, Grant, Question, SharedKey};
use tollgate_store::lease::{Errand, Leased, Purses, PursesSettings, Spent};

use super::draw::{Dice, Schedule};

/// The one key there is.
const KEY: u64 = 7;

/// What a node has asked the authority.
pub(super) struct Ticket {
    pub(super) question: Question,
    /// The errand, if nobody waits for the answer.
    errand: Option<Errand>,
    /// Whether the answer is still wanted.
    pub(super) is_waiting: bool,
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
        };
        node.restart(schedule, dice);
        node
    }

    /// Forgets everything.
    pub(super) fn restart(&mut self, schedule: &Schedule, dice: &mut Dice) {
        self.purses = purses(schedule, dice);
        self.purses.set_nodes(u32::try_from(schedule.nodes).unwrap());
        self.tickets.clear();
        self.epoch += 1;
    }

    /// What its clock shows.
    pub(super) fn clock(&self, now: u64) -> Time {
        let gained = i128::from(now - super::draw::START) * i128::from(self.gain_ppm) / 1_000_000;
        Time::from_ticks(u64::try_from(i128::from(now + self.offset) + gained).unwrap())
    }

    pub(super) fn spend(&self, units: u64, now: u64) -> Option<Spent> {
        self.purses.spend(KEY, units, self.clock(now), &self.limit, || Leased {
            key: SharedKey(KEY.into()),
            pin: None,
            limit: Arc::clone(&self.limit),
            budget: self.budget,
            node_max: self.units_max,
        })
    }

    pub(super) fn question(&self, act: Act) -> Question {
        Question { key: SharedKey(KEY.into()), limit: Arc::clone(&self.limit), act }
    }

    /// Units here, and here or on the way.
    pub(super) fn units(&self, now: u64) -> (u64, u64) {
        self.purses.units(KEY, self.clock(now))
    }

    /// Keeps what was asked in mind, under a number.
    pub(super) fn ask(&mut self, number: u64, question: Question, errand: Option<Errand>) {
        self.tickets.insert(number, Ticket { question, errand, is_waiting: true });
    }

    /// Nobody waits for an answer any more.
    pub(super) fn give_up(&mut self, number: u64, now: u64) -> bool {
        let clock = self.clock(now);
        let Some(ticket) = self.tickets.get_mut(&number).filter(|ticket| ticket.is_waiting) else {
            return false;
        };
        ticket.is_waiting = false;
        if let Some(errand) = &ticket.errand {
            self.purses.settle(errand, Err(Failure::TimedOut), clock);
        }
        true
    }

    /// An answer has come, for the first time: says whether it was wanted, and what is to be done if not.
    pub(super) fn hear(&mut self, number: u64, grant: &Grant, now: u64) -> Option<Heard> {
        let clock = self.clock(now);
        let ticket = self.tickets.remove(&number)?;
        if !ticket.is_waiting {
            return Some(Heard::TooLate(ticket.question.undo(grant)));
        }
        if let Some(errand) = &ticket.errand {
            self.purses.settle(errand, Ok(grant), clock);
            return Some(Heard::Errand);
        }
        self.purses.know(KEY, grant, clock);
        Some(Heard::Answer(ticket.question))
    }
}

pub(super) enum Heard {
    /// To somebody who waited.
    Answer(Question),
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
