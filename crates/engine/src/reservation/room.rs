//! How many reservations may be open, in how much memory: all together, and of one key, tenant or
//! client.
//!
//! The table of open reservations is finite, and every reservation stays in it until it is settled
//! or expires. Without bounds below that of the whole table, one client that reserves and never
//! settles keeps all others from reserving. So a key (a counter that is charged), a tenant (the key
//! of a policy, or the entry that the rules name) and a client (where the caller names one) have a
//! part of the table each, in number and in bytes. Keys and tenants can be invented, so only the
//! part of a client bounds an attacker.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::{Span, Time};
use tollgate_store::Key;

use super::{Charged, Open};
use crate::request::{RequestError, ReservationScope};

/// What a reservation takes in the table besides what it says of itself: its places in the map and in the order of ends.
const PLACES_BYTES: usize = 128;
/// What a key, a tenant or a client takes: its place among those of the reservation, and in the map
/// of all.
const SCOPE_BYTES: usize = 2 * mem::size_of::<Scope>() + mem::size_of::<Taken>();

/// How many reservations may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationSettings {
    /// The most that are open at a time.
    pub open_max: usize,
    /// The most memory that they take together.
    pub bytes_max: usize,
    /// One key takes at most one of so many parts of both.
    pub key_parts: usize,
    /// One tenant takes at most one of so many parts of both. More parts than for a key: a key may be shared by several tenants,
    /// and none of them may use it up alone.
    pub tenant_parts: usize,
    /// One client takes at most one of so many parts of both. See
    /// [`Engine::begin_reserve_for`](crate::Engine::begin_reserve_for).
    pub client_parts: usize,
}

impl ReservationSettings {
    /// The parts of which a key takes one at most: 65,536 reservations, in 32 MiB.
    pub const KEY_PARTS: usize = 8;
    /// The parts of which a tenant takes one at most: 32,768 reservations, in 16 MiB.
    pub const TENANT_PARTS: usize = 16;
    /// The parts of which a client takes one at most: 262,144 reservations, in 128 MiB.
    pub const CLIENT_PARTS: usize = 2;
}

/// Tells apart the clients that reserve, such as by their addresses. The engine only compares it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReservationClient(pub u64);

impl Default for ReservationSettings {
    /// Half a million, in a quarter of a gibibyte: 800 a second that are open for ten minutes each.
    fn default() -> ReservationSettings {
        ReservationSettings {
            open_max: 1 << 19,
            bytes_max: 256 << 20,
            key_parts: ReservationSettings::KEY_PARTS,
            tenant_parts: ReservationSettings::TENANT_PARTS,
            client_parts: ReservationSettings::CLIENT_PARTS,
        }
    }
}

/// Whose part of the table a reservation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// A counter that is charged.
    Key(Key),
    /// A tenant, by the keyed hash of its name.
    Tenant(Key),
    /// A client that the caller has named.
    Client(ReservationClient),
}

impl Scope {
    fn of(self) -> ReservationScope {
        match self {
            Scope::Key(_) => ReservationScope::Key,
            Scope::Tenant(_) => ReservationScope::Tenant,
            Scope::Client(_) => ReservationScope::Client,
        }
    }
}

/// What one key, tenant or client has open.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    open: usize,
    bytes: usize,
}

/// How much is open or about to be.
#[derive(Debug)]
pub(super) struct Room {
    settings: ReservationSettings,
    open: AtomicUsize,
    bytes: AtomicUsize,
    /// What each key, tenant and client has. Those that have nothing are not in it, so it is
    /// bounded by the reservations.
    scopes: Mutex<HashMap<Scope, Taken>>,
    refused: AtomicU64,
}

/// What a caller wants to reserve.
#[derive(Debug)]
pub(crate) struct Estimate {
    pub(crate) subject: Box<[u8]>,
    pub(crate) cost: u64,
    pub(crate) life: Span,
}

/// A place for one reservation, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Nothing for a reservation that needs no place.
    place: Option<Place>,
    pub(super) subject: Box<[u8]>,
    pub(super) cost: u64,
    pub(super) life: Span,
    pub(super) expires_at: Time,
}

/// What a claim takes, and gives back when it is dropped.
#[derive(Debug)]
struct Place {
    room: Arc<Room>,
    bytes: usize,
    /// Whose parts it takes, and how many bytes of each.
    scopes: Box<[Scope]>,
    scope_bytes: usize,
}

impl Room {
    pub(super) fn new(settings: ReservationSettings) -> Room {
        let (open, bytes, refused) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicU64::new(0));
        Room { settings, open, bytes, scopes: Mutex::default(), refused }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn refuse(&self, error: RequestError) -> RequestError {
        self.refused.fetch_add(1, Ordering::Relaxed);
        error
    }

    /// The most that a key, a tenant or a client may have.
    fn bound(&self, scope: Scope) -> Taken {
        let parts = match scope {
            Scope::Key(_) => self.settings.key_parts,
            Scope::Tenant(_) => self.settings.tenant_parts,
            Scope::Client(_) => self.settings.client_parts,
        };
        let parts = parts.max(1);
        Taken { open: (self.settings.open_max / parts).max(1), bytes: self.settings.bytes_max / parts }
    }

    fn scopes(&self) -> MutexGuard<'_, HashMap<Scope, Taken>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// A place for a reservation. It has to be there before anything is taken.
    pub(super) fn new(room: &Arc<Room>, estimate: Estimate, now: Time) -> Result<Claim, RequestError> {
        let bytes = mem::size_of::<Open>() + PLACES_BYTES + estimate.subject.len();
        let settings = &room.settings;
        let open = room.open.fetch_add(1, Ordering::Relaxed);
        let taken = room.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Whatever happens, it gives back what it has counted.
        let place = Place { room: Arc::clone(room), bytes, scopes: Box::default(), scope_bytes: 0 };
        if open >= settings.open_max || taken + bytes > settings.bytes_max {
            return Err(room.refuse(RequestError::TooManyReservations));
        }
        Ok(Claim { place: Some(place), ..Claim::without_place(estimate, now) })
    }

    /// The claim of a reservation that takes nothing, and so need not be remembered.
    pub(super) fn without_place(estimate: Estimate, now: Time) -> Claim {
        let Estimate { subject, cost, life } = estimate;
        Claim { place: None, subject, cost, life, expires_at: now.plus(life) }
    }

    /// Takes a part of what these keys, tenants and client may have, for a reservation that charges
    /// so many limits at most.
    pub(crate) fn take_parts(&mut self, scopes: HashSet<Scope>, charges: usize) -> Result<(), RequestError> {
        let Some(place) = &mut self.place else { return Ok(()) };
        let room = Arc::clone(&place.room);
        place.grow(charges * mem::size_of::<Charged>() + scopes.len() * SCOPE_BYTES);
        if room.bytes() > room.settings.bytes_max {
            return Err(room.refuse(RequestError::TooManyReservations));
        }
        let mut taken = room.scopes();
        let is_full = |scope: &Scope| {
            let (bound, has) = (room.bound(*scope), taken.get(scope).copied().unwrap_or_default());
            has.open >= bound.open || has.bytes + place.bytes > bound.bytes
        };
        if let Some(full) = refusing(&scopes, is_full) {
            return Err(room.refuse(RequestError::TooManyReservationsOf(full)));
        }
        for &scope in &scopes {
            let has = taken.entry(scope).or_default();
            *has = Taken { open: has.open + 1, bytes: has.bytes + place.bytes };
        }
        (place.scopes, place.scope_bytes) = (scopes.into_iter().collect(), place.bytes);
        Ok(())
    }

    /// Counts memory that the reservation turns out to need.
    pub(super) fn grow(&mut self, bytes: usize) {
        if let Some(place) = &mut self.place {
            place.grow(bytes);
        }
    }
}

/// Which scope refuses a reservation, if one does. A full client or tenant refuses alone. Keys
/// refuse only if all of them are full: one user can fill a counter that all users share, and must
/// not keep the others from reserving.
fn refusing(scopes: &HashSet<Scope>, is_full: impl Fn(&Scope) -> bool) -> Option<ReservationScope> {
    let of = |kind| scopes.iter().filter(move |scope| scope.of() == kind);
    for kind in [ReservationScope::Client, ReservationScope::Tenant] {
        if of(kind).any(&is_full) {
            return Some(kind);
        }
    }
    let mut keys = of(ReservationScope::Key).peekable();
    (keys.peek().is_some() && keys.all(is_full)).then_some(ReservationScope::Key)
}

impl Place {
    fn grow(&mut self, bytes: usize) {
        self.room.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.room.open.fetch_sub(1, Ordering::Relaxed);
        if self.scopes.is_empty() {
            return;
        }
        let mut taken = self.room.scopes();
        for scope in &self.scopes {
            if let Some(has) = taken.get_mut(scope) {
                *has = Taken {
                    open: has.open.saturating_sub(1),
                    bytes: has.bytes.saturating_sub(self.scope_bytes),
                };
                if has.open == 0 {
                    taken.remove(scope);
                }
            }
        }
    }
}
