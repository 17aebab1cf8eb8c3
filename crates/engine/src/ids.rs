//! The request ids that one process remembers: bounded of all and of one tenant, and forgotten after ten minutes.
//!
//! An entry stands for one charge of one request on one counter. For a counter of this process it is the memory that tells a repeat from
//! a new request. For a shared counter that memory is with the count; the entry here only bounds how many ids a tenant can have written.
//!
//! A request that also waits for a shared count may still be denied after a counter here was charged, and a repeat may arrive meanwhile.
//! So an entry counts its users: the charge is undone when the last of them was denied and none was admitted.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::Time;

use crate::request::RequestError;
use crate::request_id::RequestId;
use crate::reservation::Settlement;

/// The most entries that are found to be over at once: others wait for the lock meanwhile.
const EXPIRED_AT_ONCE_MAX: usize = 1_024;

/// How many request ids a process remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestIdSettings {
    /// The most memory that they take together.
    pub bytes_max: usize,
    /// One tenant has at most one of so many parts of it.
    pub tenant_parts: usize,
}

impl RequestIdSettings {
    /// What one remembered id takes: its places in the map, in the order of ends, and in the count of its tenant.
    pub const ID_BYTES: usize = 2 * mem::size_of::<(u128, Entry)>()
        + 2 * mem::size_of::<(Time, u128)>()
        + 2 * mem::size_of::<(u64, usize)>();
    /// The parts of which a tenant has one at most.
    pub const TENANT_PARTS: usize = 4;

    fn ids_max(self) -> usize {
        self.bytes_max / RequestIdSettings::ID_BYTES
    }

    fn tenant_ids_max(self) -> usize {
        (self.ids_max() / self.tenant_parts.max(1)).max(1)
    }
}

impl Default for RequestIdSettings {
    fn default() -> RequestIdSettings {
        RequestIdSettings { bytes_max: 128 << 20, tenant_parts: RequestIdSettings::TENANT_PARTS }
    }
}

/// Numbers about request ids, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestIdStats {
    /// Those that are remembered: one for each counter that was charged.
    pub held: usize,
    /// The memory that they take.
    pub bytes: usize,
    /// Requests that were repeats of what was charged before, ever.
    pub repeated: u64,
    /// Requests that came with the id of another one, ever.
    pub conflicts: u64,
    /// Requests that were refused because too many ids were remembered, ever.
    pub refused: u64,
}

/// What is remembered under an id at one counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// What the request was.
    fingerprint: u64,
    tenant: u64,
    expires_at: Time,
    /// How many requests wait for a shared count that have this charge in common.
    users: u32,
    /// Whether one of them, or the only one, was admitted.
    is_confirmed: bool,
    what: What,
}

/// What has happened under an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A counter of this process was charged at this moment. A booking is charged even if it is over the limit.
    Here {
        /// When.
        at: Time,
        /// What the limit said.
        is_allowed: bool,
    },
    /// A shared counter was asked.
    There,
    /// A reservation was settled.
    Settled {
        /// What became of it.
        settlement: Settlement,
        /// Whether the shared count has not confirmed it.
        is_pending: bool,
    },
}

/// Under which name something is remembered, for which request, and whose part it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) name: u128,
    pub(crate) fingerprint: u64,
    pub(crate) tenant: u64,
}

/// All request ids that this process remembers.
#[derive(Debug)]
pub(crate) struct Ids {
    settings: RequestIdSettings,
    /// Makes names that no caller can foresee.
    naming_key: [u8; 32],
    table: Mutex<Table>,
    repeated: AtomicU64,
    conflicts: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<u128, Entry>,
    /// Those whose end comes first, first.
    ends: BTreeSet<(Time, u128)>,
    /// How many each tenant has. Those that have none are not in it.
    tenants: HashMap<u64, usize>,
}

/// The table, as long as one request looks and writes.
pub(crate) struct Memory<'a> {
    ids: &'a Ids,
    table: MutexGuard<'a, Table>,
    now: Time,
}

impl Ids {
    pub(crate) fn new(settings: RequestIdSettings) -> Result<Ids, getrandom::Error> {
        let mut naming_key = [0; 32];
        getrandom::fill(&mut naming_key)?;
        let [repeated, conflicts, refused] = [0; 3].map(AtomicU64::new);
        Ok(Ids { settings, naming_key, table: Mutex::default(), repeated, conflicts, refused })
    }

    /// The name of an id at a place of this process. `nth` counts the charges of one request at the same place.
    pub(crate) fn name(&self, place: &[u8], nth: u64, id: RequestId<'_>) -> u128 {
        let mut hasher = blake3::Hasher::new_keyed(&self.naming_key);
        hasher.update(&(place.len() as u64).to_le_bytes());
        hasher.update(place);
        hasher.update(&nth.to_le_bytes());
        hasher.update(id.as_str().as_bytes());
        let mut name = [0; 16];
        hasher.finalize_xof().fill(&mut name);
        u128::from_le_bytes(name)
    }

    /// Locks the table until the guard is dropped.
    pub(crate) fn memory(&self, now: Time) -> Memory<'_> {
        // A panic of another thread is not a reason to stop deciding.
        Memory { ids: self, table: self.table.lock().unwrap_or_else(PoisonError::into_inner), now }
    }

    /// One that had the charge in common was admitted, or is retried until it is.
    pub(crate) fn confirm(&self, name: u128, now: Time) {
        if let Some(entry) = self.memory(now).table.entries.get_mut(&name) {
            entry.users = entry.users.saturating_sub(1);
            entry.is_confirmed = true;
        }
    }

    /// A request that shared the charge was denied. Returns when the charge was made if no other request keeps it.
    pub(crate) fn let_go(&self, name: u128, now: Time) -> Option<Time> {
        let table = &mut self.memory(now).table;
        let entry = table.entries.get_mut(&name)?;
        entry.users = entry.users.saturating_sub(1);
        let (is_over, what) = (entry.users == 0 && !entry.is_confirmed, entry.what);
        if !is_over {
            return None;
        }
        table.forget(name);
        match what {
            What::Here { at, .. } => Some(at),
            What::There | What::Settled { .. } => None,
        }
    }

    /// A settlement has ended: it is confirmed, or retried until it is.
    pub(crate) fn settled(&self, name: u128, is_pending: bool, now: Time) {
        if let Some(entry) = self.memory(now).table.entries.get_mut(&name)
            && let What::Settled { is_pending: was_pending, .. } = &mut entry.what
        {
            *was_pending = is_pending;
        }
    }

    /// Forgets what was not done.
    pub(crate) fn forget(&self, name: u128, now: Time) {
        self.memory(now).table.forget(name);
    }

    pub(crate) fn count_repeat(&self) {
        self.repeated.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn conflict(&self) -> RequestError {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
        RequestError::IdConflict
    }

    /// Forgets what is over.
    pub(crate) fn tend(&self, now: Time) {
        let table = &mut self.memory(now).table;
        for _ in 0..EXPIRED_AT_ONCE_MAX {
            let Some(&(end, name)) = table.ends.first() else { return };
            if end > now {
                return;
            }
            table.forget(name);
        }
    }

    pub(crate) fn stats(&self) -> RequestIdStats {
        let held = self.table.lock().unwrap_or_else(PoisonError::into_inner).entries.len();
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        RequestIdStats {
            held,
            bytes: held * RequestIdSettings::ID_BYTES,
            repeated: load(&self.repeated),
            conflicts: load(&self.conflicts),
            refused: load(&self.refused),
        }
    }
}

impl Memory<'_> {
    /// What is remembered under a name, if anything. That of another request is an error.
    pub(crate) fn recall(&self, mark: Mark) -> Result<Option<What>, RequestError> {
        match self.table.entries.get(&mark.name) {
            Some(entry) if entry.expires_at <= self.now => Ok(None),
            Some(entry) if entry.fingerprint != mark.fingerprint => Err(self.ids.conflict()),
            Some(entry) => Ok(Some(entry.what)),
            None => Ok(None),
        }
    }

    /// Whether so many more may be remembered for a tenant.
    pub(crate) fn check_room(&self, tenant: u64, more: usize) -> Result<(), RequestError> {
        let settings = self.ids.settings;
        let has = self.table.tenants.get(&tenant).copied().unwrap_or(0);
        let is_full =
            self.table.entries.len() + more > settings.ids_max() || has + more > settings.tenant_ids_max();
        if is_full && more > 0 {
            self.ids.refused.fetch_add(1, Ordering::Relaxed);
            return Err(RequestError::TooManyIds);
        }
        Ok(())
    }

    /// Remembers what has happened for good.
    pub(crate) fn remember(&mut self, mark: Mark, what: What) {
        self.put(mark, what, 0);
    }

    /// Remembers what has happened, for a request that may still be denied. One that is remembered already has another user.
    pub(crate) fn share(&mut self, mark: Mark, what: What) {
        match self.table.entries.get_mut(&mark.name) {
            Some(entry) if entry.expires_at > self.now => entry.users = entry.users.saturating_add(1),
            _ => self.put(mark, what, 1),
        }
    }

    fn put(&mut self, mark: Mark, what: What, users: u32) {
        let Mark { name, fingerprint, tenant } = mark;
        self.table.forget(name);
        let expires_at = self.now.plus(RequestId::LIFE);
        let is_confirmed = users == 0;
        self.table.entries.insert(name, Entry { fingerprint, tenant, expires_at, users, is_confirmed, what });
        self.table.ends.insert((expires_at, name));
        *self.table.tenants.entry(tenant).or_default() += 1;
    }
}

impl Table {
    fn forget(&mut self, name: u128) {
        let Some(entry) = self.entries.remove(&name) else { return };
        self.ends.remove(&(entry.expires_at, name));
        if let Some(has) = self.tenants.get_mut(&entry.tenant) {
            *has -= 1;
            if *has == 0 {
                self.tenants.remove(&entry.tenant);
            }
        }
    }
}
