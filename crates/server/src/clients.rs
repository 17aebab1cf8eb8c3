//! What each client has open and holds, by its address.
//!
//! Without a cap per client, one address can take every connection of a listener and keep all others out.
//! A client is an IPv4 address, or the /64 network of an IPv6 address, since one host usually has all of it.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use tollgate::ReservationClient;
use tollgate::core::{Ask, Cost, Limit, LimitError, State, Time};

use crate::admin::AdminRate;
use crate::memory::Class;
use crate::serve::LISTENERS;

/// The leading bits that tell IPv6 clients apart.
const IPV6_CLIENT_BITS: u8 = 64;
/// Clients without a connection whose recent connections are remembered. More are forgotten.
const IDLE_CLIENTS_MAX: usize = 16_384;

/// The limits of one client.
#[derive(Clone, Debug)]
pub(crate) struct ClientLimits {
    /// New connections a second: on all data listeners together, and as many on the admin listener.
    pub(crate) connection_rate: Option<AdminRate>,
    /// Networks that none of the limits per client applies to.
    pub(crate) exempt: Vec<IpNet>,
}

/// Connections that count against the same rate. Those of the admin listener count apart, so that a client
/// whose data connections are refused can still reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionRate {
    Data,
    Admin,
}

impl ConnectionRate {
    const COUNT: usize = 2;
}

/// What one client has open and holds.
#[derive(Debug, Default)]
pub(crate) struct Client {
    connections: [AtomicUsize; LISTENERS.len()],
    connection_bytes: AtomicUsize,
    request_bytes: AtomicUsize,
    pub(crate) is_exempt: bool,
    /// Whose part of the open reservations it takes.
    pub(crate) reservations: ReservationClient,
}

impl Client {
    /// A client that no limit per client applies to.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn exempt() -> Client {
        Client { is_exempt: true, ..Client::default() }
    }

    /// Counts one more connection, and returns how many that makes at this listener.
    pub(crate) fn connect(&self, listener: usize) -> usize {
        self.connections[listener].fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn disconnect(&self, listener: usize) {
        self.connections[listener].fetch_sub(1, Ordering::Relaxed);
    }

    /// What it holds of a class of memory. Calls count with requests.
    pub(crate) fn held(&self, class: Class) -> &AtomicUsize {
        match class {
            Class::Connection => &self.connection_bytes,
            Class::Call | Class::Request => &self.request_bytes,
        }
    }

    fn is_connected(&self) -> bool {
        self.connections.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }
}

/// All clients that are connected, and those that were lately.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    rate: Option<Limit>,
    exempt: Vec<IpNet>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Key, Entry>,
    /// How many entries the last sweep has left.
    swept_len: usize,
}

/// A client in the table. An exempt address is a client of its own, also where it is written like the network
/// around it, whose other addresses are not exempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    address: IpAddr,
    is_exempt: bool,
}

#[derive(Debug)]
struct Entry {
    client: Arc<Client>,
    /// How many connections it has opened lately, by the rate that they count against.
    opened: [Option<State>; ConnectionRate::COUNT],
}

impl Clients {
    pub(crate) fn new(limits: ClientLimits) -> Result<Clients, LimitError> {
        let rate = limits.connection_rate.map(AdminRate::limit).transpose()?;
        Ok(Clients { rate, exempt: limits.exempt, table: Mutex::default() })
    }

    /// The client at an address that opens a connection. `None` if it opens them too fast.
    pub(crate) fn open(&self, address: IpAddr, counted: ConnectionRate, now: Time) -> Option<Arc<Client>> {
        let is_exempt = self.exempt.iter().any(|network| network.contains(&address.to_canonical()));
        let address = if is_exempt { address.to_canonical() } else { client_address(address) };
        let mut table = self.lock();
        table.make_room();
        let entry = table.entries.entry(Key { address, is_exempt }).or_insert_with(|| Entry {
            client: Arc::new(Client {
                is_exempt,
                reservations: reservation_client(address),
                ..Client::default()
            }),
            opened: Default::default(),
        });
        if let (Some(rate), false) = (&self.rate, is_exempt) {
            let opened = entry.opened[counted as usize].get_or_insert_with(|| rate.fresh());
            if !rate.decide(opened, Ask::take(Cost::ONE, now)).is_allowed() {
                return None;
            }
        }
        Some(Arc::clone(&entry.client))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Drops the entries of clients that have no connection, once there may be many of them. This forgets
    /// how fast they opened connections. A client with thousands of addresses is not bound by that anyway.
    fn make_room(&mut self) {
        if self.entries.len() >= self.swept_len + IDLE_CLIENTS_MAX {
            self.entries.retain(|_, entry| entry.is_in_use());
            self.swept_len = self.entries.len();
        }
    }
}

impl Entry {
    fn is_in_use(&self) -> bool {
        self.client.is_connected() || Arc::strong_count(&self.client) > 1
    }
}

/// The address that stands for all addresses of a client.
pub(crate) fn client_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let mask = u128::MAX << (128 - u32::from(IPV6_CLIENT_BITS));
            std::net::Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}

/// Tells clients apart for the engine: the network of an IPv6 client, or an IPv4 address. Of the
/// networks that begin with 32 zero bits, hosts have that of `::1` alone, which counts as 0.0.0.0.
/// No client has that.
fn reservation_client(address: IpAddr) -> ReservationClient {
    ReservationClient(match client_address(address) {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => u64::try_from(u128::from(address) >> IPV6_CLIENT_BITS).unwrap_or(u64::MAX),
    })
}
