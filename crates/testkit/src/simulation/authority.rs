//! The authority: one counter, decided by `core` at the authority's tick, as the scripts do answer for answer.

use tollgate_core::{Ask, Cost, Decision, LeaseRest, Outcome, Refund, SharedLimit, Span, State, Time};
use tollgate_store::authority::{Act, Grant, Question};
use tollgate_store::lease::{Counted, PRESENT_FOR};

/// That a lease came back is remembered for so long after its deadline, in microseconds.
const REMEMBERED: Span = Span::from_ticks(60_000_000);

/// One counter.
pub(super) struct Authority {
    state: State,
    /// The leases that came back, and their deadlines.
    returned: Vec<(u64, Time)>,
    /// Who has told that it is there, and when; and since when somebody always was.
    present: Vec<(u64, Time)>,
    present_since: Time,
}

/// What was done besides answering.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    /// Units that came back, and of which lease.
    pub(super) returned: Option<(u64, u64)>,
}

impl Authority {
    pub(super) fn new(limit: &SharedLimit) -> Authority {
        Authority {
            state: limit.limit().fresh(),
            returned: Vec::new(),
            present: Vec::new(),
            present_since: Time::default(),
        }
    }

    /// A node tells that it is there, under a name, as it does once in an interval.
    pub(super) fn count(&mut self, name: u64, interval: Span, now: Time) -> Counted {
        let present_for = Span::from_ticks(interval.ticks() * u64::from(PRESENT_FOR));
        self.present.retain(|&(_, told_at)| now.since(told_at) < present_for);
        if self.present.is_empty() {
            self.present_since = now;
        }
        self.present.retain(|&(other, _)| other != name);
        self.present.push((name, now));
        let kept_for = Span::from_ticks(now.since(self.present_since).ticks() * 1_000);
        Counted { nodes: u32::try_from(self.present.len()).unwrap(), kept_for }
    }

    /// Answers a question at a moment of its own time.
    pub(super) fn answer(&mut self, question: &Question, now: Time) -> (Grant, Done) {
        let limit = question.limit.limit();
        let (mut leased, mut done) = (0, Done::default());
        let decision = match question.act {
            Act::Take(cost) => limit.decide(&mut self.state, Ask::take(cost, now)),
            Act::Lease { units, nodes, .. } => {
                let (decision, granted) = limit.lease(&mut self.state, units, nodes.into(), now);
                leased = granted;
                decision
            }
            Act::GiveBack { units, counted_at, undoes } => {
                limit.give_back(&mut self.state, Refund { units, counted_at, undoes, now });
                self.look(limit, now)
            }
            Act::Return(rest) => {
                let is_taken = self.takes_back(rest, now);
                if is_taken {
                    let LeaseRest { units, counted_at, number, .. } = rest;
                    limit.give_back(&mut self.state, Refund { counted_at, ..Refund::at_once(units, now) });
                    done.returned = Some((number, units));
                }
                let outcome = if is_taken { Outcome::ALLOWED } else { Outcome::Busy };
                Decision { outcome, ..self.look(limit, now) }
            }
            Act::Peek(_) | Act::Book(_) | Act::Release(_) | Act::Reset => self.look(limit, now),
        };
        (Grant { decision, at: now, holder: None, leased }, done)
    }

    /// Once, and in time.
    fn takes_back(&mut self, rest: LeaseRest, now: Time) -> bool {
        self.returned.retain(|&(_, deadline)| deadline.plus(REMEMBERED) >= now);
        let is_new = self.returned.iter().all(|&(number, _)| number != rest.number);
        let takes = now <= rest.deadline && is_new;
        if takes {
            self.returned.push((rest.number, rest.deadline));
        }
        takes
    }

    fn look(&mut self, limit: &tollgate_core::Limit, now: Time) -> Decision {
        limit.decide(&mut self.state, Ask::peek(Cost::ZERO, now))
    }
}
