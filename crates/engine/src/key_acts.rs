//! What operators do to single keys for a while: ban them, or let them have more.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use thiserror::Error;
use tollgate_core::Time;
use tollgate_policy::put_part;
use tollgate_store::Ledger;

use crate::key::KeyBuffer;
use crate::request::Descriptor;

/// The most acts at the same time.
pub const KEY_ACTS_MAX: usize = 100_000;

/// What is done to one key until a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAct {
    /// Which key.
    pub subject: KeySubject,
    /// Until just before this moment.
    pub until: Time,
    /// What is done.
    pub what: KeyActKind,
}

/// A key, as requests name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeySubject {
    /// A key under a named policy.
    Policy {
        /// The policy.
        name: String,
        /// The key.
        key: Vec<u8>,
    },
    /// Descriptors of just these entries.
    Descriptor {
        /// The domain.
        domain: String,
        /// The entries, in their order.
        entries: Vec<(String, String)>,
    },
}

/// What is done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyActKind {
    /// Requests that name it are denied, and take nothing from any limit.
    Ban,
    /// It may have so many hundredths of its limits' units and bursts.
    Boost {
        /// 200 is twice as much.
        percent: u32,
    },
}

/// More acts than [`KEY_ACTS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("at most {KEY_ACTS_MAX} keys can be banned or boosted at the same time")]
pub struct TooManyKeyActs;

/// All acts. Reads cost one load as long as there are none.
#[derive(Debug, Default)]
pub(crate) struct KeyActs {
    any: AtomicBool,
    acts: ArcSwap<Acts>,
}

/// By the hash of what is encoded of the key. Very rarely two share one.
pub(crate) type Acts = HashMap<u64, SmallVec<[Act; 1]>>;

#[derive(Debug)]
pub(crate) struct Act {
    encoded: Box<[u8]>,
    until: Time,
    what: KeyActKind,
}

/// What is done to a key at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Treatment {
    /// Until when it is banned.
    pub(crate) banned_until: Option<Time>,
    /// How many hundredths of its limits it may have.
    pub(crate) percent: Option<u32>,
}

impl KeyActs {
    pub(crate) fn set(&self, acts: Vec<KeyAct>, ledger: &Ledger) -> Result<(), TooManyKeyActs> {
        if acts.len() > KEY_ACTS_MAX {
            return Err(TooManyKeyActs);
        }
        let any = !acts.is_empty();
        let mut all = Acts::with_capacity(acts.len());
        for KeyAct { subject, until, what } in acts {
            let encoded = encode(&subject);
            let hash = ledger.key(&encoded).number(0);
            all.entry(hash).or_default().push(Act { encoded: encoded.into(), until, what });
        }
        self.acts.store(Arc::new(all));
        // Release: whoever reads `any` with Acquire also finds the acts.
        self.any.store(any, Ordering::Release);
        Ok(())
    }

    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire) // pairs with the store in `set`
    }

    /// What is done to a key whose encoding this is.
    pub(crate) fn treatment(&self, encoded: &[u8], ledger: &Ledger, now: Time) -> Treatment {
        let acts = self.acts.load();
        let found = acts.get(&ledger.key(encoded).number(0)).into_iter().flatten();
        let mut treatment = Treatment::default();
        for act in found.filter(|act| *act.encoded == *encoded && now < act.until) {
            match act.what {
                KeyActKind::Ban => treatment.banned_until = treatment.banned_until.max(Some(act.until)),
                KeyActKind::Boost { percent } => treatment.percent = treatment.percent.max(Some(percent)),
            }
        }
        treatment
    }
}

/// What the encoding of a key of each kind begins with.
const OF_POLICY: u8 = 1;
const OF_DESCRIPTOR: u8 = 2;

fn encode(subject: &KeySubject) -> Vec<u8> {
    let mut bytes = Vec::new();
    match subject {
        KeySubject::Policy { name, key } => put_policy(&mut bytes, name, key),
        KeySubject::Descriptor { domain, entries } => {
            let entries = entries.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            put_descriptor(&mut bytes, domain, entries);
        }
    }
    bytes
}

fn put_policy(bytes: &mut Vec<u8>, name: &str, key: &[u8]) {
    bytes.push(OF_POLICY);
    put_part(bytes, name.as_bytes());
    put_part(bytes, key);
}

fn put_descriptor<'e>(bytes: &mut Vec<u8>, domain: &str, entries: impl Iterator<Item = (&'e str, &'e str)>) {
    bytes.push(OF_DESCRIPTOR);
    put_part(bytes, domain.as_bytes());
    for (key, value) in entries {
        put_part(bytes, key.as_bytes());
        put_part(bytes, value.as_bytes());
    }
}

impl KeyBuffer {
    /// A key under a policy, as acts know it.
    pub(crate) fn of_policy_act(&mut self, name: &str, key: &[u8]) -> &[u8] {
        self.put(|bytes| put_policy(bytes, name, key))
    }

    /// A descriptor, as acts know it.
    pub(crate) fn of_descriptor_act(&mut self, domain: &str, descriptor: &Descriptor<'_>) -> &[u8] {
        self.put(|bytes| put_descriptor(bytes, domain, descriptor.entries.iter().copied()))
    }
}
