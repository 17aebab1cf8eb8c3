//! A node: the purses of the product, a clock of its own, and what it has asked.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{SharedLimit, Span, Time};
use tollgate_store::authority::{Act, Failure, Grant, Question, SharedKey};
use tollgate_store::lease::{Census, Counted, Errand, Leased, Purses, PursesSettings, Spent, Wanted};

use super::draw::{Dice, Schedule};
use super::requests::Waiting;

/// The hash of the first key, and how far apart those of the others are.
const FIRST_KEY: u64 = 7;
const KEY_STEP: u64 = 1_000;

/// The hash of a key.
pub(super) fn key_hash(key: usize) -> u64 {
    FIRST_KEY + key as u64 * KEY_STEP
}

/// Which key a counter is of.
pub(super) fn key_index(key: SharedKey) -> usize {
    usize::try_from((key.0 - u128::from(FIRST_KEY)) / u128::from(KEY_STEP)).unwrap()
}

/// What a node has asked the authority.
pub(super) struct Ticket {
    pub(super) question: Question,
    /// The errand, if nobody waits for the answer.
    errand: Option<Errand>,
    /// The request that waits for the answer, if one does.
    request: Option<u64>,
    /// Whether the answer is still wanted.
    pub(super) is_waiting: bool,
}

/// A lease that was granted after the node had given it up, by which the question that undoes it is recognised.
struct UnwantedLease {
    key: SharedKey,
    number: u64,
    units: u64,
    at: Time,
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
    /// The requests that wait for the authority, by number.
    pub(super) requests: HashMap<u64, Waiting>,
    unwanted: Vec<UnwantedLease>,
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
            requests: HashMap::new(),
            unwanted: Vec::new(),
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
        self.requests.clear();
        self.unwanted.clear();
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
        let gained = (now - super::draw::START).cast_signed() * self.gain_ppm / 1_000_000;
        Time::from_ticks((now + self.offset).checked_add_signed(gained).unwrap())
    }

    pub(super) fn spend(&self, key: usize, units: u64, is_lent: bool, now: u64) -> Option<Spent> {
        let wanted = Wanted { key: key_hash(key), units, is_lent, limit: &self.limit };
        self.purses.spend(wanted, self.clock(now), || Leased {
            key: SharedKey(key_hash(key).into()),
            pin: None,
            limit: Arc::clone(&self.limit),
            budget: self.budget,
            node_max: self.units_max,
            account: None,
        })
    }

    /// What it has of units that are more than that.
    pub(super) fn spend_part(&self, key: usize, units: u64, is_lent: bool, now: u64) -> Option<Spent> {
        let wanted = Wanted { key: key_hash(key), units, is_lent, limit: &self.limit };
        self.purses.spend_part(&wanted, self.clock(now))
    }

    /// What was lent is spent.
    pub(super) fn keep(&self, key: usize, spent: &Spent) {
        self.purses.keep(key_hash(key), spent);
    }

    /// Returns how many of the units are lost.
    pub(super) fn put_back(&self, key: usize, spent: &Spent, now: u64) -> u64 {
        self.purses.put_back(key_hash(key), spent, self.clock(now))
    }

    /// Gives up its leases of a key.
    pub(super) fn give_up_leases(&self, key: usize, now: u64) {
        self.purses.give_up(key_hash(key), self.clock(now));
    }

    pub(super) fn question(&self, key: usize, act: Act) -> Question {
        let key = SharedKey(key_hash(key).into());
        Question { key, limit: Arc::clone(&self.limit), act, account: None }
    }

    /// Units here, and here or on the way.
    pub(super) fn units(&self, key: usize, now: u64) -> (u64, u64) {
        self.purses.units(key_hash(key), self.clock(now))
    }

    /// Keeps what was asked in mind, under a number.
    pub(super) fn ask(
        &mut self,
        number: u64,
        question: Question,
        errand: Option<Errand>,
        request: Option<u64>,
    ) {
        self.tickets.insert(number, Ticket { question, errand, request, is_waiting: true });
    }

    /// Which lease this undoes, if it undoes one.
    pub(super) fn undoes(&mut self, question: &Question) -> Option<u64> {
        let Act::GiveBack { units, counted_at, .. } = question.act else { return None };
        let is_it = |lease: &UnwantedLease| {
            lease.key == question.key && lease.units == units && lease.at == counted_at
        };
        let at = self.unwanted.iter().position(is_it)?;
        Some(self.unwanted.swap_remove(at).number)
    }

    /// No answer is waited for any more. Says whether one was, and which request it was for.
    pub(super) fn give_up(&mut self, number: u64, now: u64) -> (bool, Option<u64>) {
        let clock = self.clock(now);
        let Some(ticket) = self.tickets.get_mut(&number).filter(|ticket| ticket.is_waiting) else {
            return (false, None);
        };
        ticket.is_waiting = false;
        let request = ticket.request.take();
        if let Some(errand) = ticket.errand.take() {
            self.purses.settle(errand, Err(Failure::TimedOut), clock);
        }
        (true, request)
    }

    /// An answer has come, for the first time: says whether it was wanted, and what is to be done if not.
    pub(super) fn hear(&mut self, number: u64, grant: &Grant, now: u64) -> Option<Heard> {
        let clock = self.clock(now);
        let ticket = self.tickets.remove(&number)?;
        if !ticket.is_waiting {
            let undo = ticket.question.undo(grant);
            return Some(Heard::TooLate(ticket.question, undo));
        }
        if let Some(errand) = ticket.errand {
            let key = key_index(ticket.question.key);
            let before = self.units(key, now).0;
            self.purses.settle(errand, Ok(grant), clock);
            if let Act::Lease { number, .. } = ticket.question.act
                && self.units(key, now).0 == before
            {
                let (key, units, at) = (ticket.question.key, grant.leased, grant.at);
                self.unwanted.push(UnwantedLease { key, number, units, at });
            }
            return Some(Heard::Errand);
        }
        self.purses.know(key_hash(key_index(ticket.question.key)), grant, clock);
        Some(Heard::Answer(ticket.question, ticket.request))
    }
}

pub(super) enum Heard {
    /// To a question of a request, if one waits.
    Answer(Question, Option<u64>),
    Errand,
    /// No request waits any more: what was granted is given back.
    TooLate(Question, Option<Act>),
}

fn purses(schedule: &Schedule, dice: &mut Dice) -> Purses {
    let settings = PursesSettings {
        stripes: 1,
        life: Span::from_ticks(schedule.life_ns),
        ..PursesSettings::new(dice.next())
    };
    Purses::new(settings)
}
