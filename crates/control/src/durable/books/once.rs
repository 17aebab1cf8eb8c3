//! The ids of requests: what was counted under one is not counted again.

use tollgate_core::{Ask, Cost, Outcome, Refund, State, Time};
use tollgate_store::authority::{Act, Grant, OnceAct, OnceId, SharedKey};

use super::super::Answer;
use super::{Asked, Books};

/// For so long an id is remembered.
const ID_LIFE_US: u64 = 600_000_000;

/// What is remembered under an id at one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct KnownId {
    /// What the id is bound to.
    pub(in super::super) fingerprint: u64,
    /// How many requests have it in common that were not denied elsewhere.
    pub(in super::super) users: u64,
    /// Whether the limit admitted it. A booking is counted in any case.
    pub(in super::super) is_allowed: bool,
    /// When it was counted, in ticks.
    pub(in super::super) counted_at: Time,
    pub(in super::super) deadline_us: u64,
    pub(in super::super) is_changed: bool,
}

impl Books {
    pub(in super::super) fn put_id(&mut self, key: SharedKey, number: u64, known: KnownId) {
        self.ids.insert((key, number), known);
    }

    /// Those that have to be written. One without users is to be forgotten.
    pub(in super::super) fn changed_ids(&self) -> impl Iterator<Item = (SharedKey, u64, &KnownId)> {
        let all = self.ids.iter().map(|((key, number), known)| (*key, *number, known));
        all.filter(|(_, _, known)| known.is_changed)
    }

    /// Does something for the id of a request, once.
    pub(super) fn once(&mut self, asked: &Asked<'_>, state: &mut State, id: OnceId, act: OnceAct) -> Answer {
        let place = (asked.question.key, id.number);
        let is_known = |known: &&KnownId| known.users > 0 && known.deadline_us > self.now_us;
        let known = self.ids.get(&place).filter(is_known).copied();
        let first = match act {
            OnceAct::Take(cost) => Act::Take(cost),
            OnceAct::Book(cost) => Act::Book(cost),
            OnceAct::GiveBack { units, counted_at } => Act::GiveBack { units, counted_at, undoes: false },
            OnceAct::Undo { units, undoes } => {
                self.undo(asked, state, (id, known), (units, undoes));
                return Ok(asked.grant(asked.standing(state, Outcome::ALLOWED)));
            }
        };
        if let Some(known) = known {
            return Ok(self.repeat(asked, state, id, known));
        }
        let grant = self.act(asked, state, first)?;
        let is_allowed = grant.decision.is_allowed();
        if is_allowed || !matches!(act, OnceAct::Take(_)) {
            let known = KnownId {
                fingerprint: id.fingerprint,
                users: 1,
                is_allowed,
                counted_at: asked.at,
                deadline_us: self.now_us.saturating_add(ID_LIFE_US),
                is_changed: true,
            };
            self.ids.insert(place, known);
        }
        Ok(grant)
    }

    /// The answer to a request that was counted before, or to another one with its id.
    fn repeat(&mut self, asked: &Asked<'_>, state: &mut State, id: OnceId, known: KnownId) -> Grant {
        let decision = if known.fingerprint == id.fingerprint {
            let users = known.users.saturating_add(1);
            let known = KnownId { users, is_changed: true, ..known };
            self.ids.insert((asked.question.key, id.number), known);
            if known.is_allowed {
                asked.standing(state, Outcome::ALLOWED)
            } else {
                // A booking beyond the limit was counted and denied: how the key stands now is the answer.
                asked.limit.limit().decide(state, Ask::peek(Cost::ZERO, asked.key_at))
            }
        } else {
            asked.standing(state, Outcome::Busy)
        };
        Grant { is_repeated: true, ..asked.grant(decision) }
    }

    /// One who has the id was denied elsewhere. After the last, nothing was counted.
    fn undo(
        &mut self,
        asked: &Asked<'_>,
        state: &mut State,
        (id, known): (OnceId, Option<KnownId>),
        (units, undoes): (u64, bool),
    ) {
        let Some(known) = known.filter(|known| known.fingerprint == id.fingerprint) else { return };
        let users = known.users.saturating_sub(1);
        self.ids.insert((asked.question.key, id.number), KnownId { users, is_changed: true, ..known });
        if users == 0 {
            self.give_back(
                asked,
                state,
                Refund { units, counted_at: known.counted_at, undoes, now: asked.at },
            );
        }
    }
}
