//! Questions and answers between nodes and the authority, and what the network makes of them.

use tollgate_core::{LeaseRest, Span, Time};
use tollgate_store::authority::{Act, Grant, Question};
use tollgate_store::lease::Errand;

use super::authority::Done;
use super::draw::MS;
use super::events::{Event, Sent};
use super::judge::{Ends, Moment};
use super::node::{Heard, key_index};
use super::world::World;

/// How long an answer is waited for.
pub(super) const PATIENCE_NS: u64 = 20 * MS;
/// The most errands that a node takes at once.
const ERRANDS_MAX: usize = 16;

/// What is left of a lease, on its way to the authority.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnWayBack {
    pub(super) node: usize,
    pub(super) epoch: u64,
    pub(super) key: usize,
    pub(super) lease: u64,
    pub(super) units: u64,
    /// Until when the authority takes it, by its own clock.
    pub(super) deadline: Time,
}

/// What a question is asked for.
#[derive(Debug)]
pub(super) enum Asking {
    /// A request waits for the answer.
    For(u64),
    Errand(Errand),
    /// A lease or an earlier question whose grant is not wanted.
    ToUndo(u64),
    Nothing,
}

impl World<'_> {
    pub(super) fn run_errands(&mut self, node: usize) {
        for errand in self.nodes[node].purses.take_errands(ERRANDS_MAX) {
            self.send(node, &errand.question.0.clone(), Asking::Errand(errand));
        }
    }

    /// Sends a question on its way, and plans the end of all patience. Returns its number.
    pub(super) fn send(&mut self, node: usize, question: &Question, asking: Asking) -> u64 {
        self.tickets += 1;
        let (ticket, epoch) = (self.tickets, self.nodes[node].epoch);
        let (errand, request, undoes) = match asking {
            Asking::For(request) => (None, Some(request), None),
            Asking::Errand(errand) => (Some(errand), None, self.nodes[node].undoes(question)),
            Asking::ToUndo(grant) => (None, None, Some(grant)),
            Asking::Nothing => (None, None, None),
        };
        self.nodes[node].ask(ticket, question.clone(), errand, request);
        if let Act::Return(LeaseRest { number: lease, units, deadline, .. }) = question.act
            && self.on_way_back.iter().all(|on_way| on_way.lease != lease)
        {
            let key = key_index(question.key);
            self.on_way_back.push(OnWayBack { node, epoch, key, lease, units, deadline });
            self.forgets_loans(lease);
        }
        self.plan(PATIENCE_NS, Event::GiveUp { node, epoch, ticket });
        // These have no number by which a second time could be told: there the driver relies on its connection, which repeats nothing.
        let may_repeat = !matches!(question.act, Act::GiveBack { .. } | Act::Book(_) | Act::Reset);
        let sent = Sent { node, epoch, ticket, question: question.clone(), departed_at: self.now, undoes };
        self.carry(may_repeat, || Event::Arrive(sent.clone()));
        ticket
    }

    /// The network: loses, repeats, delays.
    pub(super) fn carry(&mut self, may_repeat: bool, event: impl Fn() -> Event) {
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
    pub(super) fn arrive(&mut self, sent: &Sent) -> Result<(), String> {
        let Sent { node, epoch, ticket, ref question, .. } = *sent;
        let now = self.authority_time();
        let asks_anew = matches!(question.act, Act::Take(_) | Act::Lease { .. } | Act::Book(_));
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
        let key = key_index(question.key);
        match question.act {
            Act::Lease { number, .. } => {
                let life_ns = self.schedule.life_ns;
                let ends = Ends {
                    deadline: now.plus(Span::from_ticks(life_ns / 1_000)),
                    dies_at: self.now + life_ns,
                    in_hand_until: self.in_hand_until(sent, now),
                };
                self.judges[key].granted(number, grant.leased, ends);
            }
            Act::Take(cost) if grant.decision.is_allowed() => {
                let ends = Ends { deadline: now, dies_at: self.now, in_hand_until: self.now };
                self.judges[key].granted(ticket, cost.units(), ends);
            }
            _ => {}
        }
        self.judge(sent, key, done)?;
        let decided = self.moment(key);
        self.carry(true, || Event::Reply { node, epoch, ticket, grant, decided });
        Ok(())
    }

    /// Judges what the authority has done besides granting.
    fn judge(&mut self, sent: &Sent, key: usize, done: Done) -> Result<(), String> {
        let now = self.authority_time();
        let judge = &mut self.judges[key];
        match done {
            Done::Nothing => Ok(()),
            Done::Returned { lease, units, effect } => {
                self.outcome.returned += units;
                judge.returned(lease, units, effect, now)
            }
            Done::Undone { units, effect } => {
                self.outcome.undone += units;
                sent.undoes.map_or(Ok(()), |grant| judge.undone(grant, units, effect))
            }
            Done::Booked { units, before, after } => {
                judge.books(sent.ticket, units, (before, after), sent.question.limit.limit())
            }
            Done::Reset => {
                self.outcome.resets += 1;
                judge.resets();
                Ok(())
            }
        }
    }

    /// An answer arrives at its node.
    pub(super) fn reply(
        &mut self,
        node: usize,
        ticket: u64,
        grant: &Grant,
        decided: Moment,
    ) -> Result<(), String> {
        match self.nodes[node].hear(ticket, grant, self.now) {
            None | Some(Heard::Errand | Heard::Answer(_, None)) => Ok(()),
            Some(Heard::TooLate(question, undo)) => {
                self.undo(node, &question, undo, ticket);
                Ok(())
            }
            Some(Heard::Answer(question, Some(request))) => {
                self.answered(node, (request, ticket), Some((question, *grant, decided)))
            }
        }
    }

    /// A node tells that it is there.
    pub(super) fn beat(&mut self, node: usize) {
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
}
