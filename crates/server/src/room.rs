//! How many connections a listener may have, in all and per client, and what each may hold.
//!
//! A connection that finds all places of its listener taken waits to be accepted. One that exceeds a limit
//! of its client, or for which the memory account has no room, is closed at once. Idle connections are
//! closed early where few places or little memory is left: their clients can connect again.

mod held;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate::ReservationClient;
use tollgate::core::Time;

pub(crate) use self::held::{Held, Share};
use crate::clients::{Client, Clients, ConnectionRate};
use crate::memory::{AccountFull, CONNECTION_BYTES, Class, MemoryAccount, TLS_BYTES};

/// A listener is crowded when less than one place in so many is free.
const CROWDED_SHARE: usize = 8;

/// Why a connection is closed before it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    /// `connections_per_client`.
    #[error("the client has too many connections")]
    ClientConnections,
    /// `connection_rate_per_client`.
    #[error("the client opens connections too fast")]
    ClientRate,
    /// The memory account.
    #[error("no memory is left for connections")]
    Memory,
}

impl Refusal {
    pub(crate) const ALL: [Refusal; 3] = [Refusal::ClientConnections, Refusal::ClientRate, Refusal::Memory];

    /// The label of its metric.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Refusal::ClientConnections => "client_connections",
            Refusal::ClientRate => "client_rate",
            Refusal::Memory => "memory",
        }
    }
}

/// What all listeners share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) account: Arc<MemoryAccount>,
    pub(crate) clients: Arc<Clients>,
}

/// The limits of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerLimits {
    /// Which of the listeners, by its place in `LISTENERS`.
    pub(crate) listener: usize,
    pub(crate) connections_max: usize,
    pub(crate) per_client_max: usize,
    pub(crate) has_tls: bool,
    /// The admin listener's few connections are admitted, with their first buffers, whatever the others hold.
    /// They have a connection rate of their own.
    pub(crate) has_reserve: bool,
}

/// The connections of one listener.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    limits: ListenerLimits,
    shared: Shared,
    free: Arc<Semaphore>,
    places: u32,
    /// Admitted connections. The acceptor waits with a place in hand, so taken places would be one too many.
    /// Relaxed: a number for metrics, which guards no other memory.
    open: AtomicUsize,
    refused: [AtomicU64; Refusal::ALL.len()],
}

/// A place of a listener that no connection has taken yet.
pub(crate) type Place = OwnedSemaphorePermit;

impl ConnectionLimit {
    pub(crate) fn new(limits: ListenerLimits, shared: Shared) -> ConnectionLimit {
        let places = u32::try_from(limits.connections_max.clamp(1, Semaphore::MAX_PERMITS));
        let places = places.unwrap_or(u32::MAX);
        let free = Arc::new(Semaphore::new(places as usize));
        ConnectionLimit {
            limits,
            shared,
            free,
            places,
            open: AtomicUsize::new(0),
            refused: Default::default(),
        }
    }

    /// Waits for a place. `None` if there never will be one.
    pub(crate) async fn wait_for_place(&self) -> Option<Place> {
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    /// Admits a connection that was accepted, or says why it is closed.
    pub(crate) fn admit(
        self: &Arc<ConnectionLimit>,
        place: Option<Place>,
        peer: IpAddr,
        now: Time,
    ) -> Result<Room, Refusal> {
        let admitted = self.charge(place, peer, now);
        if let Err(refusal) = admitted {
            self.refused[refusal as usize].fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    fn charge(
        self: &Arc<ConnectionLimit>,
        place: Option<Place>,
        peer: IpAddr,
        now: Time,
    ) -> Result<Room, Refusal> {
        let has_reserve = self.limits.has_reserve;
        let rate = if has_reserve { ConnectionRate::Admin } else { ConnectionRate::Data };
        let client = self.shared.clients.open(peer, rate, now).ok_or(Refusal::ClientRate)?;
        let bytes = CONNECTION_BYTES + if self.limits.has_tls { TLS_BYTES } else { 0 };
        let connections = client.connect(self.limits.listener);
        let of_client = client.held(Class::Connection).fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.open.fetch_add(1, Ordering::Relaxed);
        let account = &self.shared.account;
        let charged = if has_reserve {
            account.hold(Class::Connection, bytes);
            Ok(())
        } else {
            account.charge_connection(bytes)
        };
        // From here on, dropping it gives all of that back.
        let room = Room { limit: Arc::clone(self), client, bytes, _place: place };
        let is_bound = !room.client.is_exempt;
        if is_bound && connections > self.limits.per_client_max {
            return Err(Refusal::ClientConnections);
        }
        if has_reserve {
            return Ok(room);
        }
        // All listeners together: one client takes at most half of what connections may take.
        if is_bound && of_client > account.new_connections_max_bytes() / 2 {
            return Err(Refusal::ClientConnections);
        }
        charged.map_err(|AccountFull| Refusal::Memory)?;
        Ok(room)
    }

    /// Whether few places or little memory is left, so that idle connections should be closed.
    pub(crate) fn is_crowded(&self) -> bool {
        self.free.available_permits() * CROWDED_SHARE < self.places as usize
            || self.shared.account.is_under_pressure()
    }

    /// Waits until the last connection has ended.
    pub(crate) async fn emptied(&self) {
        let _ = self.free.acquire_many(self.places).await; // Never closed, so never an error.
    }

    pub(crate) fn open_connections(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// What all connections hold of a class.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self, class: Class) -> usize {
        self.shared.account.held_bytes(class)
    }

    pub(crate) fn connections_max(&self) -> usize {
        self.places as usize
    }

    pub(crate) fn listener(&self) -> usize {
        self.limits.listener
    }

    pub(crate) fn refused_count(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize].load(Ordering::Relaxed)
    }
}

/// What one admitted connection takes of its listener, its client and the memory account, until it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    limit: Arc<ConnectionLimit>,
    client: Arc<Client>,
    /// The fixed cost of the connection.
    bytes: usize,
    _place: Option<Place>,
}

impl Room {
    /// A connection without limits, for those that no listener has accepted.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn unbounded() -> Room {
        Room::new(usize::MAX, usize::MAX)
    }

    /// A connection of a listener with so many places, whose requests may hold so much.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn new(connections_max: usize, request_bytes_max: usize) -> Room {
        let limits = ListenerLimits {
            listener: 0,
            connections_max,
            per_client_max: usize::MAX,
            has_tls: false,
            has_reserve: true,
        };
        let account = Arc::new(MemoryAccount::for_requests(request_bytes_max));
        let limit = ConnectionLimit::new(limits, Shared { account, clients: Arc::default() });
        Room { limit: Arc::new(limit), client: Arc::new(Client::exempt()), bytes: 0, _place: None }
    }

    /// The listener that has accepted the connection.
    #[cfg(test)]
    pub(crate) fn limit(&self) -> &Arc<ConnectionLimit> {
        &self.limit
    }

    /// Whose part of the open reservations the connection takes. `None` for an exempt client.
    pub(crate) fn reservation_client(&self) -> Option<ReservationClient> {
        (!self.client.is_exempt).then_some(self.client.reservations)
    }

    /// Whether the connection should be closed if it is idle.
    pub(crate) fn is_crowded(&self) -> bool {
        self.limit.is_crowded()
    }

    /// Charges what the connection holds already. It stays charged where that is refused.
    fn charge(&self, class: Class, bytes: usize) -> Result<(), AccountFull> {
        let account = &self.limit.shared.account;
        let of_client = self.client.held(class).fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if self.limit.limits.has_reserve && class == Class::Connection {
            account.hold(Class::Connection, bytes);
            return Ok(());
        }
        // The account counts what it refuses itself.
        account.charge(class, bytes)?;
        let is_too_much = !self.client.is_exempt && of_client > account.client_max_bytes(class);
        if is_too_much { account.shed(class) } else { Ok(()) }
    }

    /// Charges what must not be refused.
    fn hold(&self, class: Class, bytes: usize) {
        self.client.held(class).fetch_add(bytes, Ordering::Relaxed);
        self.limit.shared.account.hold(class, bytes);
    }

    fn release(&self, class: Class, bytes: usize) {
        if bytes > 0 {
            self.client.held(class).fetch_sub(bytes, Ordering::Relaxed);
            self.limit.shared.account.release(class, bytes);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // A connection that no listener has accepted was not counted.
        if self.bytes > 0 {
            self.release(Class::Connection, self.bytes);
            self.client.disconnect(self.limit.limits.listener);
            self.limit.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
