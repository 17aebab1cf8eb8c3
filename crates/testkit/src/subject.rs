//! What can be tested: anything that answers for many keys. And the two plainest of them.

use std::collections::HashMap;

use tollgate_core::{Ask, Decision, Limit, Refund, State, Time};

/// Something that answers questions for many keys.
pub trait Subject {
    /// Answers a question about `key`.
    fn decide(&mut self, key: &[u8], limit: &Limit, ask: Ask) -> Decision;

    /// Gives units of `key` back.
    fn give_back(&mut self, key: &[u8], limit: &Limit, refund: Refund);

    /// The units of `key` that count as used, where that can be asked.
    fn used(&mut self, _key: &[u8], _limit: &Limit, _now: Time) -> Option<u64> {
        None
    }
}

/// The algorithms themselves, with a map of whole states around them.
#[derive(Debug, Default)]
pub struct States {
    by_key: HashMap<Vec<u8>, State>,
}

impl States {
    fn of(&mut self, key: &[u8], limit: &Limit) -> &mut State {
        self.by_key.entry(key.to_vec()).or_insert_with(|| limit.fresh())
    }
}

impl Subject for States {
    fn decide(&mut self, key: &[u8], limit: &Limit, ask: Ask) -> Decision {
        limit.decide(self.of(key, limit), ask)
    }

    fn give_back(&mut self, key: &[u8], limit: &Limit, refund: Refund) {
        limit.give_back(self.of(key, limit), refund);
    }

    fn used(&mut self, key: &[u8], limit: &Limit, now: Time) -> Option<u64> {
        Some(limit.used(self.of(key, limit), now))
    }
}

/// The algorithms on packed words, with a map of words around them. It forgets a word as soon as it may.
#[derive(Debug, Default)]
pub struct Words {
    by_key: HashMap<Vec<u8>, u64>,
}

impl Words {
    fn of(&mut self, key: &[u8], now: Time) -> u64 {
        self.by_key.retain(|_, word| *word > now.ticks());
        self.by_key.get(key).copied().unwrap_or(0)
    }
}

impl Subject for Words {
    fn decide(&mut self, key: &[u8], limit: &Limit, ask: Ask) -> Decision {
        let (decision, changed) = limit.decide_word(self.of(key, ask.now), ask);
        if let Some(word) = changed {
            self.by_key.insert(key.to_vec(), word);
        }
        decision
    }

    fn give_back(&mut self, key: &[u8], limit: &Limit, refund: Refund) {
        let word = limit.give_back_word(self.of(key, refund.now), refund);
        self.by_key.insert(key.to_vec(), word);
    }

    fn used(&mut self, key: &[u8], limit: &Limit, now: Time) -> Option<u64> {
        Some(limit.used(&limit.unpack(self.of(key, now)), now))
    }
}
