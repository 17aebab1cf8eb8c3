//! When a room is crowded, when it is empty, what one client gets of it, and what is admitted however full it is.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::clients::ClientLimits;

const NOW: Time = Time::from_ticks(1_800_000_000_000_000_000);
/// Connections for which the account below has room: three quarters of its half for connections.
const FITTING: usize = 48;

/// All listeners share an account with room for [`FITTING`] connections. Clients of 192.0.2.0/24 are exempt.
fn shared() -> Shared {
    let exempt = vec!["192.0.2.0/24".parse().unwrap()];
    let clients = Clients::new(ClientLimits { connection_rate: None, exempt }).unwrap();
    let account = MemoryAccount::new(2 * FITTING / 3 * 4 * CONNECTION_BYTES);
    Shared { account: Arc::new(account), clients: Arc::new(clients) }
}

fn listener(shared: &Shared, listener: usize, per_client_max: usize) -> Arc<ConnectionLimit> {
    let limits = ListenerLimits {
        listener,
        connections_max: 1_000,
        per_client_max,
        has_tls: false,
        has_reserve: false,
    };
    Arc::new(ConnectionLimit::new(limits, shared.clone()))
}

/// Opens connections from an address until one is refused, a hundred at most.
fn open(limit: &Arc<ConnectionLimit>, client: &str) -> (Vec<Room>, Option<Refusal>) {
    let mut rooms = Vec::new();
    for _ in 0..100 {
        match limit.admit(None, client.parse().unwrap(), NOW) {
            Ok(room) => rooms.push(room),
            Err(refusal) => return (rooms, Some(refusal)),
        }
    }
    (rooms, None)
}

#[tokio::test]
async fn a_room_is_crowded_when_few_places_are_left() {
    let room = Room::new(16, 0);
    let mut places = Vec::new();
    for _ in 0..14 {
        places.push(room.limit().wait_for_place().await.unwrap());
        assert!(!room.is_crowded(), "{} taken", places.len());
    }
    places.push(room.limit().wait_for_place().await.unwrap());
    assert!(room.is_crowded());
    places.pop();
    assert!(!room.is_crowded());
}

#[tokio::test]
async fn the_only_place_is_soon_wanted() {
    let room = Room::new(0, 0);
    assert!(!room.is_crowded());
    let place = room.limit().wait_for_place().await.unwrap();
    assert!(room.is_crowded());
    drop(place);
    room.limit().emptied().await;
}

#[tokio::test]
async fn only_admitted_connections_are_counted_as_open() {
    let limits = ListenerLimits {
        listener: 0,
        connections_max: 4,
        per_client_max: 2,
        has_tls: false,
        has_reserve: false,
    };
    let account = Arc::new(MemoryAccount::new(1 << 20));
    let limit = Arc::new(ConnectionLimit::new(limits, Shared { account, clients: Arc::default() }));
    let admit = async || {
        let place = limit.wait_for_place().await;
        limit.admit(place, IpAddr::from([192, 0, 2, 1]), Time::from_ticks(1))
    };
    let connections = [admit().await.unwrap(), admit().await.unwrap()];
    let _in_hand = limit.wait_for_place().await;
    assert_eq!(limit.open_connections(), 2, "the acceptor waits with a place that no connection has");
    assert_eq!(admit().await.unwrap_err(), Refusal::ClientConnections);
    assert_eq!(limit.open_connections(), 2, "a refused connection is not open");
    drop(connections);
    assert_eq!(limit.open_connections(), 0);
}

#[test]
fn a_client_has_so_many_connections_of_each_listener_and_gets_back_what_it_closes() {
    let shared = shared();
    let (one, other) = (listener(&shared, 0, 5), listener(&shared, 1, 5));
    let (rooms, refusal) = open(&one, "203.0.113.1");
    assert_eq!((rooms.len(), refusal), (5, Some(Refusal::ClientConnections)));
    assert_eq!(one.refused_count(Refusal::ClientConnections), 1);
    let (rooms_of_other, _) = open(&other, "203.0.113.1");
    assert_eq!(rooms_of_other.len(), 5, "each listener counts for itself");
    assert_eq!(open(&one, "203.0.113.2").0.len(), 5, "another client is not affected");
    drop(rooms);
    assert_eq!(open(&one, "203.0.113.1").0.len(), 5, "connections that have ended do not count");
    drop(rooms_of_other);
    assert_eq!(shared.account.held_bytes(Class::Connection), 0);
}

#[test]
fn one_client_takes_at_most_half_of_the_memory_for_connections_of_all_listeners() {
    let shared = shared();
    let (one, other) = (listener(&shared, 0, 20), listener(&shared, 1, 20));
    let (_rooms, _) = open(&one, "203.0.113.1");
    let (rooms_of_other, refusal) = open(&other, "203.0.113.1");
    assert_eq!((rooms_of_other.len(), refusal), (FITTING / 2 - 20, Some(Refusal::ClientConnections)));
    let (rooms, _) = open(&other, "203.0.113.2");
    assert_eq!(rooms.len(), 20, "the other half is for other clients");
    let (rooms, refusal) = open(&other, "203.0.113.3");
    assert_eq!((rooms.len(), refusal), (FITTING / 2 - 20, Some(Refusal::Memory)));
}

#[test]
fn an_exempt_client_is_bound_by_the_memory_account_alone() {
    let shared = shared();
    let limit = listener(&shared, 0, 5);
    let (rooms, refusal) = open(&limit, "192.0.2.1");
    assert_eq!((rooms.len(), refusal), (FITTING, Some(Refusal::Memory)));
    assert_eq!(limit.refused_count(Refusal::Memory), 1);
}

#[test]
fn a_listener_with_a_reserve_admits_connections_though_the_account_is_full() {
    let shared = shared();
    let (full, refusal) = open(&listener(&shared, 0, 100), "192.0.2.1");
    assert_eq!(refusal, Some(Refusal::Memory));
    let limits = ListenerLimits { has_reserve: true, ..listener(&shared, 3, 5).limits };
    let reserved = Arc::new(ConnectionLimit::new(limits, shared.clone()));
    for client in ["192.0.2.1", "203.0.113.1"] {
        assert!(open(&reserved, client).0.len() >= 5, "{client}");
    }
    let (rooms, refusal) = open(&reserved, "203.0.113.2");
    assert_eq!((rooms.len(), refusal), (5, Some(Refusal::ClientConnections)), "the count still binds");
    drop(full);
}

#[test]
fn one_client_holds_at_most_half_of_the_memory_for_requests() {
    let shared = shared();
    let limit = listener(&shared, 0, 5);
    let room = |client: &str| Arc::new(limit.admit(None, client.parse().unwrap(), NOW).unwrap());
    let half = shared.account.client_max_bytes(Class::Request);
    let (first, second) = (Held::new(room("203.0.113.1"), 0), Held::new(room("203.0.113.1"), 0));
    assert_eq!(first.set(half / 2), Ok(()));
    assert_eq!(second.set(half / 2), Ok(()));
    assert_eq!(second.set(half / 2 + 1), Err(AccountFull), "two connections of one client share its half");
    assert_eq!(second.set(0), Ok(()));
    let other = Held::new(room("203.0.113.2"), 0);
    assert_eq!(other.set(half), Ok(()), "the other half is for other clients");
    drop(other);
    let exempt = Held::new(room("192.0.2.1"), 0);
    assert_eq!(exempt.set(half + half / 2), Ok(()), "an exempt client is bound by the account alone");
    assert_eq!(exempt.set(half + half / 2 + 1), Err(AccountFull));
}

#[test]
fn first_buffers_are_charged_with_connections_until_their_connection_ends() {
    let shared = shared();
    let limit = listener(&shared, 0, 5);
    let room = Arc::new(limit.admit(None, "203.0.113.1".parse().unwrap(), NOW).unwrap());
    let held = Held::new(Arc::clone(&room), 1_000);
    assert_eq!(held.set(3_000), Ok(()));
    let bytes = || (shared.account.held_bytes(Class::Connection), shared.account.held_bytes(Class::Request));
    assert_eq!(bytes(), (CONNECTION_BYTES + 1_000, 2_000));
    assert_eq!(held.set(0), Ok(()));
    assert_eq!(bytes(), (CONNECTION_BYTES + 1_000, 0));
    drop((held, room));
    assert_eq!(bytes(), (0, 0));
}

const ACCOUNT_BYTES: usize = 4 << 20;
const FIRST_BYTES: usize = 16 << 10;
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

/// Two listeners that share one account: one for data, and one with the reserve.
fn listeners() -> [Arc<ConnectionLimit>; 2] {
    let shared = Shared { account: Arc::new(MemoryAccount::new(ACCOUNT_BYTES)), clients: Arc::default() };
    [false, true].map(|has_reserve| {
        let listener = if has_reserve { 3 } else { 0 };
        let (connections_max, per_client_max) = (1_024, 1_024);
        let limits =
            ListenerLimits { listener, connections_max, per_client_max, has_tls: false, has_reserve };
        Arc::new(ConnectionLimit::new(limits, shared.clone()))
    })
}

/// A connection that holds its first buffers, or why not.
fn connect(limit: &Arc<ConnectionLimit>) -> Result<Held, AccountFull> {
    let room = limit.admit(None, PEER, NOW).map_err(|_| AccountFull)?;
    let held = Held::new(Arc::new(room), FIRST_BYTES);
    held.set(FIRST_BYTES)?;
    Ok(held)
}

#[test]
fn a_client_that_holds_all_it_may_still_has_admin_connections() {
    let [data, admin] = listeners();
    let mut connections: Vec<Held> = (0..200).map_while(|_| connect(&data).ok()).collect();
    assert!(connect(&data).is_err(), "the client has all that it may have");
    connections.extend((0..32).map(|_| connect(&admin).unwrap()));
    let account = &data.shared.account;
    assert!(account.held_bytes(Class::Connection) > account.client_max_bytes(Class::Connection));
    drop(connections);
    assert_eq!(account.held_bytes(Class::Connection), 0, "all of it is given back");
}

#[test]
fn admin_connections_are_admitted_where_the_account_is_full() {
    let [data, admin] = listeners();
    let account = &data.shared.account;
    account.hold(Class::Connection, ACCOUNT_BYTES);
    assert!(connect(&data).is_err());
    let refused = account.shed_count(Class::Connection);
    assert!(connect(&admin).is_ok());
    assert_eq!(account.shed_count(Class::Connection), refused, "an admitted connection is no refusal");
}

#[test]
fn what_the_cap_of_a_client_refuses_is_counted() {
    let [data, _] = listeners();
    let account = &data.shared.account;
    let room = data.admit(None, PEER, NOW).unwrap();
    for class in Class::ALL {
        let bytes = account.client_max_bytes(class) + 1;
        assert_eq!(room.charge(class, bytes), Err(AccountFull), "{class:?}");
        room.release(class, bytes);
    }
    assert_eq!(Class::ALL.map(|class| account.shed_count(class)), [1, 1, 1]);
}
