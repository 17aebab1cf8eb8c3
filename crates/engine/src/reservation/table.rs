//! The open reservations of one process: bounded in number and in bytes, and forgotten when their time is over.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::{Limit, Span, Time};
use tollgate_store::authority::SharedKey;

use super::room::{Claim, Estimate, ReservationSettings, Room};
use super::{
    Charged, Reservation, Reserved, SettleError, Settlement, TakenThere, put_number, take_chunk, take_number,
};
use crate::fleet::Keeper;
use crate::request::RequestError;
use crate::seal::{Sealed, Sealer};

/// The most reservations whose end is noticed at once: others wait for the lock meanwhile. The rest is noticed at the next look.
const EXPIRED_AT_ONCE_MAX: usize = 1_024;
/// How long the part of a name is that all have.
const HEAD_BYTES: usize = 32;
/// The longest name that says what was charged. Who has a longer one settles it where it was made.
const SEALED_BYTES_MAX: usize = 2_048;
/// Stands where the name of a reservation stands, for one that has charged nothing. Names are random: none is this.
const UNCHARGED: u128 = 0;
/// Numbers under which units come back are below 2 to the power of this, so that every authority can tell them apart.
const NUMBER_BITS: u32 = 53;
/// Stands for the settlements among what is hashed: no reservation charges so many limits.
const SENDER: u64 = u64::MAX - 1;
/// The most reservations of other processes that are remembered as being settled here.
const FOREIGN_MAX: usize = 4_096;

/// Numbers about reservations, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReservationStats {
    /// Those that are open.
    pub open: usize,
    /// The memory that they take.
    pub bytes: usize,
    /// Those that were made, ever, but for those that have charged nothing: they need no place in the table.
    pub made: u64,
    /// Those that were made and settled here, ever.
    pub settled: u64,
    /// Those that another process has made and that were settled here, ever. There they will seem to expire.
    pub settled_elsewhere: u64,
    /// Those that nobody has settled in time, ever.
    pub expired: u64,
    /// Those that were refused because too many were open, of all or of a key, a tenant or a
    /// client, ever.
    pub refused: u64,
    /// Units that came back, ever.
    pub returned_units: u64,
    /// Units that were booked beyond estimates, ever.
    pub booked_units: u64,
}

/// The reservations of one process.
#[derive(Debug)]
pub(crate) struct Reservations {
    /// The name of the process.
    process: [u8; 8],
    /// Makes names of reservations out of their numbers, which nobody else can.
    naming_key: [u8; 32],
    /// Seals what other processes may settle.
    sealer: Arc<Sealer>,
    table: Mutex<Table>,
    /// What is open or about to be.
    room: Arc<Room>,
    made: AtomicU64,
    settled: AtomicU64,
    settled_elsewhere: AtomicU64,
    expired: AtomicU64,
    returned_units: AtomicU64,
    booked_units: AtomicU64,
    /// Settlements that were begun.
    settlements: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<u128, Open>,
    /// Those whose end comes first, first.
    ends: BTreeSet<(Time, u128)>,
    /// Reservations of other processes that are being settled here and that the authority has not confirmed, and their ends. It would take the first of two settlements; the second is refused here.
    foreign: HashSet<u128>,
    foreign_ends: BTreeSet<(Time, u128)>,
}

/// An open reservation.
#[derive(Debug)]
pub(crate) struct Open {
    /// What it is about: see [`super::with_request`].
    pub(crate) subject: Box<[u8]>,
    /// The estimate.
    pub(crate) cost: u64,
    pub(crate) charged: Box<[Charged]>,
    pub(crate) life: Span,
    expires_at: Time,
    /// Its place in the table of this process. A reservation of another process has none here.
    _claim: Option<Claim>,
}

/// A reservation that is being settled.
#[derive(Debug)]
pub(crate) struct Closed {
    name: u128,
    pub(crate) open: Open,
    /// Whether another process has made it.
    pub(crate) is_foreign: bool,
    /// Under which name the id of the settlement is remembered, if it has one.
    pub(crate) id: Option<u128>,
}

/// How a settlement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettleEnd {
    /// It is done.
    Confirmed,
    /// It was done before, under the same id.
    Repeated,
    /// It is kept and retried.
    Pending,
    /// It changed nothing, and nothing will be retried.
    Failed(SettleError),
}

/// What every name of a reservation begins with.
struct Head {
    process: [u8; 8],
    name: u128,
    expires_at: Time,
}

impl Head {
    fn bytes(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.process);
        bytes[8..24].copy_from_slice(&self.name.to_le_bytes());
        bytes[24..].copy_from_slice(&self.expires_at.ticks().to_le_bytes());
        bytes
    }

    fn read(bytes: [u8; HEAD_BYTES]) -> Head {
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        Head {
            process: number(0).to_le_bytes(),
            name: u128::from(number(16)) << 64 | u128::from(number(8)),
            expires_at: Time::from_ticks(number(24)),
        }
    }
}

impl Reservations {
    pub(crate) fn new(
        settings: ReservationSettings,
        process: u64,
        sealer: Arc<Sealer>,
    ) -> Result<Reservations, getrandom::Error> {
        let mut naming_key = [0; 32];
        getrandom::fill(&mut naming_key)?;
        Ok(Reservations {
            process: process.to_le_bytes(),
            naming_key,
            sealer,
            table: Mutex::default(),
            room: Arc::new(Room::new(settings)),
            made: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            settled_elsewhere: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            returned_units: AtomicU64::new(0),
            booked_units: AtomicU64::new(0),
            settlements: AtomicU64::new(0),
        })
    }

    /// A place for a reservation. An estimate of nothing takes nothing from any limit, so it needs none.
    pub(crate) fn claim(&self, estimate: Estimate, now: Time) -> Result<Claim, RequestError> {
        if estimate.cost == 0 {
            return Ok(Claim::without_place(estimate, now));
        }
        Claim::new(&self.room, estimate, now)
    }

    /// Opens a reservation on what was charged for it. Where no limit has taken anything, settling it will change nothing, however
    /// often it is done: then it is not remembered.
    pub(crate) fn open(&self, mut claim: Claim, mut charged: Vec<Charged>) -> Reserved {
        let expires_at = claim.expires_at;
        if charged.is_empty() || claim.cost == 0 {
            return Reserved { reservation: self.uncharged(claim.cost, expires_at), expires_at };
        }
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        let name = u128::from_le_bytes(self.hash(made, u64::MAX));
        for (number, charged) in (0..).zip(&mut charged) {
            match charged {
                Charged::There(there) => {
                    there.number = self.number(made, number);
                }
                Charged::Share { .. } => claim.grow(mem::size_of::<Limit>()),
                Charged::Here { .. } => {}
            }
        }
        let subject = mem::take(&mut claim.subject);
        let Claim { cost, life, .. } = claim;
        let open = Open { subject, cost, charged: charged.into(), life, expires_at, _claim: Some(claim) };
        let reservation = self.name(name, &open);
        self.table().insert(name, open);
        Reserved { reservation, expires_at }
    }

    /// What a caller carries away of a reservation that has charged nothing: all there is to know of it, under a seal.
    fn uncharged(&self, cost: u64, expires_at: Time) -> Reservation {
        let mut bytes = Head { process: self.process, name: UNCHARGED, expires_at }.bytes().to_vec();
        put_number(&mut bytes, cost);
        self.sealer.seal(Sealed::Reservation, &mut bytes);
        Reservation(bytes)
    }

    /// A reservation that has charged nothing, if this process or its fleet has made it.
    fn read_uncharged(&self, bytes: &[u8], expires_at: Time) -> Option<Closed> {
        let sealed = self.sealer.open(Sealed::Reservation, bytes)?;
        let cost = take_number(&mut sealed.get(HEAD_BYTES..)?)?;
        let (subject, charged, life) = (Box::default(), Box::default(), Span::ZERO);
        let open = Open { subject, cost, charged, life, expires_at, _claim: None };
        Some(Closed { name: UNCHARGED, open, is_foreign: false, id: None })
    }

    /// Takes a reservation out of the table to settle it: nobody else finds it there again. What another process has made says itself what it has charged.
    pub(crate) fn close(&self, reservation: &Reservation, now: Time) -> Result<Closed, SettleError> {
        let (head, rest) = reservation.0.split_first_chunk().ok_or(SettleError::Unknown)?;
        let Head { process, name, expires_at } = Head::read(*head);
        if name == UNCHARGED {
            let closed = self.read_uncharged(&reservation.0, expires_at).ok_or(SettleError::Unknown)?;
            return if now < expires_at { Ok(closed) } else { Err(SettleError::Expired) };
        }
        if process != self.process {
            let open = self.read_foreign(&reservation.0, expires_at).ok_or(SettleError::Unknown)?;
            if now >= expires_at {
                return Err(SettleError::Expired);
            }
            let is_first = self.table().close_foreign(name, expires_at);
            return if is_first {
                Ok(Closed { name, open, is_foreign: true, id: None })
            } else {
                Err(SettleError::Settled)
            };
        }
        if !self.sealer.is_of_fleet() && !rest.is_empty() {
            return Err(SettleError::Unknown);
        }
        let mut table = self.table();
        match table.open.entry(name) {
            // Its end is what the table says, whether or not it was noticed.
            Entry::Occupied(open) if now < open.get().expires_at => {
                let open = open.remove();
                table.ends.remove(&(open.expires_at, name));
                Ok(Closed { name, open, is_foreign: false, id: None })
            }
            Entry::Vacant(_) if now < expires_at => Err(SettleError::Settled),
            Entry::Occupied(_) | Entry::Vacant(_) => Err(SettleError::Expired),
        }
    }

    /// Ends what [`Reservations::close`] began: counts a settlement, or opens the reservation again if it can still be settled.
    pub(crate) fn end(&self, closed: Closed, settlement: &Settlement, end: SettleEnd) {
        let Closed { name, open, is_foreign, .. } = closed;
        if is_foreign && end != SettleEnd::Pending {
            // The authority knows, or nothing was changed.
            self.table().forget_foreign(name, open.expires_at);
        }
        if let SettleEnd::Failed(error) = end {
            if error == SettleError::Unavailable && !is_foreign {
                self.table().insert(name, open);
            }
            return;
        }
        if end == SettleEnd::Repeated {
            return; // It is counted where it was done.
        }
        let settled = if is_foreign { &self.settled_elsewhere } else { &self.settled };
        settled.fetch_add(1, Ordering::Relaxed);
        self.returned_units.fetch_add(settlement.returned, Ordering::Relaxed);
        self.booked_units.fetch_add(settlement.booked, Ordering::Relaxed);
    }

    /// Forgets those that nobody has settled in time.
    pub(crate) fn tend(&self, now: Time) {
        let mut table = self.table();
        let mut over = Vec::new();
        while over.len() < EXPIRED_AT_ONCE_MAX
            && let Some(&(end, name)) = table.ends.first()
            && end <= now
        {
            table.ends.pop_first();
            over.extend(table.open.remove(&name));
        }
        while let Some(&(end, name)) = table.foreign_ends.first()
            && end <= now
        {
            table.forget_foreign(name, end);
        }
        self.expired.fetch_add(over.len() as u64, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> ReservationStats {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        ReservationStats {
            open: self.table().open.len(),
            bytes: self.room.bytes(),
            made: load(&self.made),
            settled: load(&self.settled),
            settled_elsewhere: load(&self.settled_elsewhere),
            expired: load(&self.expired),
            refused: self.room.refused(),
            returned_units: load(&self.returned_units),
            booked_units: load(&self.booked_units),
        }
    }

    /// What a caller carries away: which process, which reservation, and its end, so that it can be told apart whether it was settled or has expired. Where
    /// counters are shared, also what was charged of them, if that is not too long, and a seal.
    fn name(&self, name: u128, open: &Open) -> Reservation {
        let head = Head { process: self.process, name, expires_at: open.expires_at };
        let mut bytes = head.bytes().to_vec();
        let there = open.charged.iter().filter_map(|charged| match charged {
            Charged::There(there) => Some(*there),
            Charged::Here { .. } | Charged::Share { .. } => None,
        });
        let there: Vec<TakenThere> = there.collect();
        if self.sealer.is_of_fleet() && !there.is_empty() {
            put_number(&mut bytes, open.cost);
            put_number(&mut bytes, open.life.ticks());
            put_number(&mut bytes, there.len() as u64);
            let has_durable = there.iter().any(|there| there.keeper == Keeper::Database);
            let sealed = if has_durable { Sealed::DurableReservation } else { Sealed::Reservation };
            for TakenThere { name, keeper, counted_at, number } in there {
                if has_durable {
                    put_number(&mut bytes, u64::from(keeper == Keeper::Database));
                }
                bytes.extend_from_slice(&name.0.to_le_bytes());
                put_number(&mut bytes, counted_at.ticks());
                put_number(&mut bytes, number);
            }
            bytes.extend_from_slice(&open.subject);
            if bytes.len() > SEALED_BYTES_MAX {
                bytes.truncate(HEAD_BYTES);
            } else {
                self.sealer.seal(sealed, &mut bytes);
            }
        }
        Reservation(bytes)
    }

    /// What another process of the fleet has charged, if it says so and has sealed it.
    fn read_foreign(&self, bytes: &[u8], expires_at: Time) -> Option<Open> {
        let open = |sealed| self.sealer.open(sealed, bytes);
        let (sealed, has_durable) = match open(Sealed::Reservation) {
            Some(sealed) => (sealed, false),
            None => (open(Sealed::DurableReservation)?, true),
        };
        let mut rest = sealed.get(HEAD_BYTES..)?;
        let rest = &mut rest;
        let (cost, life) = (take_number(rest)?, Span::from_ticks(take_number(rest)?));
        let mut charged = Vec::new();
        for _ in 0..take_number(rest)? {
            let is_durable = has_durable && take_number(rest)? == 1;
            let keeper = if is_durable { Keeper::Database } else { Keeper::Store };
            let name = SharedKey(u128::from_le_bytes(take_chunk(rest)?));
            let (counted_at, number) = (Time::from_ticks(take_number(rest)?), take_number(rest)?);
            charged.push(Charged::There(TakenThere { name, keeper, counted_at, number }));
        }
        let subject = Box::from(*rest);
        Some(Open { subject, cost, charged: charged.into(), life, expires_at, _claim: None })
    }

    /// A number that tells one settlement from all others.
    pub(crate) fn sender(&self) -> u64 {
        self.number(self.settlements.fetch_add(1, Ordering::Relaxed), SENDER)
    }

    fn number(&self, made: u64, number: u64) -> u64 {
        let [low, ..] = *self.hash(made, number).as_chunks::<8>().0 else { return 0 };
        u64::from_le_bytes(low) >> (u64::BITS - NUMBER_BITS)
    }

    /// What nobody can guess who knows the numbers.
    fn hash(&self, made: u64, number: u64) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_keyed(&self.naming_key);
        hasher.update(&made.to_le_bytes());
        hasher.update(&number.to_le_bytes());
        let mut hash = [0; 16];
        hasher.finalize_xof().fill(&mut hash);
        hash
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A panic of another thread is not a reason to stop deciding.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn insert(&mut self, name: u128, open: Open) {
        self.ends.insert((open.expires_at, name));
        self.open.insert(name, open);
    }

    /// Remembers that a reservation of another process is being settled here. False if it is already.
    fn close_foreign(&mut self, name: u128, expires_at: Time) -> bool {
        if !self.foreign.insert(name) {
            return false;
        }
        if self.foreign.len() > FOREIGN_MAX
            && let Some((_, first)) = self.foreign_ends.pop_first()
        {
            self.foreign.remove(&first);
        }
        self.foreign_ends.insert((expires_at, name));
        true
    }

    fn forget_foreign(&mut self, name: u128, expires_at: Time) {
        self.foreign.remove(&name);
        self.foreign_ends.remove(&(expires_at, name));
    }
}
