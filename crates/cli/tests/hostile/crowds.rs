//! More connections than there are places, memory or descriptors for.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use tollgate_testkit::real::{Client, Tollgate, connect_from, until};

use super::{Watched, launch};

/// Connections of a listener.
const CONNECTIONS_MAX: usize = 64;
/// Other clients that come while one client has all the connections that it can get.
const NEWCOMERS: u8 = 16;
/// As many descriptors as most systems give by default.
const DESCRIPTORS: u32 = 1_024;

/// An address of its own for each newcomer, and none that an attack or the companion uses.
fn newcomer(index: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 1, index).into()
}

/// Asks for the health of a listener on a new connection.
fn ask_from(source: IpAddr, address: SocketAddr) -> Option<u16> {
    let mut client = Client::connect_from(source, address).ok()?;
    Some(client.send("GET", "/healthz", &[], "").ok()?.status)
}

/// Whether the server has closed a connection. Panics if it says anything.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    match stream.read(&mut [0; 1]) {
        Ok(0) => true,
        Ok(_) => panic!("the server has said something"),
        Err(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
    }
}

#[test]
fn one_address_cannot_take_all_connections_of_a_listener() {
    let watched = Watched::start(launch().flag("connections-max", &CONNECTIONS_MAX.to_string()));
    let address = watched.tollgate.http();
    // Connections that are used are never closed for being idle, however crowded it gets.
    let mut greedy: Vec<Client> =
        (0..4 * CONNECTIONS_MAX).filter_map(|_| Client::connect(address).ok()).collect();
    greedy.retain_mut(|client| client.send("GET", "/healthz", &[], "").is_ok());
    assert_eq!(greedy.len(), CONNECTIONS_MAX / 2, "half of the connections is what one client may have");
    let answers: Vec<_> = (1..=NEWCOMERS).map(|index| ask_from(newcomer(index), address)).collect();
    assert_eq!(answers, [Some(200); NEWCOMERS as usize]);
    let refused = r#"ratelimit_connections_refused_total{listener="http",reason="client_connections"}"#;
    assert_eq!(watched.tollgate.metric(refused), 4 * CONNECTIONS_MAX as u64 - CONNECTIONS_MAX as u64 / 2);
    drop(greedy);
    watched.finish();
}

#[test]
fn idle_connections_leave_descriptors_for_the_other_listeners() {
    let watched = Watched::start(launch().descriptors(DESCRIPTORS));
    let idle: Vec<TcpStream> =
        (0..DESCRIPTORS + 100).filter_map(|_| TcpStream::connect(watched.tollgate.grpc()).ok()).collect();
    until("the listener is full", || {
        let refused = r#"ratelimit_connections_refused_total{listener="grpc",reason="client_connections"}"#;
        (watched.tollgate.metric(refused) > 0).then_some(())
    });
    for index in 1..=NEWCOMERS {
        assert_eq!(ask_from(newcomer(index), watched.tollgate.http()), Some(200));
        assert_eq!(ask_from(newcomer(index), watched.tollgate.admin()), Some(200));
        let mut resp = connect_from(newcomer(index), watched.tollgate.resp()).unwrap();
        resp.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        resp.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
    }
    drop(idle);
    watched.finish();
}

#[test]
fn a_client_that_connects_too_fast_is_refused() {
    let watched = Watched::start(launch().flag("connection-rate-per-client", "1/s:5"));
    let address = watched.tollgate.http();
    // The launch itself has connected from the same address.
    let connections: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(is_closed(connections.last().unwrap()));
    assert_eq!(ask_from(newcomer(1), address), Some(200));
    drop(connections);
    watched.finish();
}

#[test]
fn exempt_networks_have_no_limits_per_client() {
    let launch = launch()
        .flag("connections-max", &CONNECTIONS_MAX.to_string())
        .flag("connections-per-client-exempt", "127.0.0.1");
    let watched = Watched::start(launch);
    let mut connections: Vec<Client> =
        (0..CONNECTIONS_MAX - 8).map(|_| Client::connect(watched.tollgate.http()).unwrap()).collect();
    assert!(connections.iter_mut().all(|client| client.get("/healthz", &[]).status == 200));
    drop(connections);
    watched.finish();
}

#[test]
fn connections_beyond_the_memory_account_are_refused() {
    // An account of 4 MiB has room for 192 connections of 8 KiB, and one client may have half of them.
    let watched = Watched::start(launch().flag("connections-memory", "4MiB"));
    let address = watched.tollgate.http();
    let idle: Vec<TcpStream> = (1..=4)
        .flat_map(|index| (0..100).map(move |_| connect_from(newcomer(index), address).unwrap()))
        .collect();
    until("connections are refused", || {
        let refused = r#"ratelimit_connections_refused_total{listener="http",reason="memory"}"#;
        (watched.tollgate.metric(refused) > 0).then_some(())
    });
    let held = watched.tollgate.metric(r#"ratelimit_connections_memory_bytes{class="connections"}"#);
    assert!(held <= 2 << 20, "{held}");
    drop(idle);
    watched.finish();
}

#[test]
fn silent_clients_do_not_keep_others_out() {
    let launch = launch()
        .flag("connections-max", &CONNECTIONS_MAX.to_string())
        .flag("connections-per-client", &CONNECTIONS_MAX.to_string());
    let watched = Watched::start(launch);
    let address = watched.tollgate.http();
    let silent: Vec<TcpStream> =
        (0..2 * CONNECTIONS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
    let answered = until("a newcomer is answered", || ask(&watched.tollgate));
    assert_eq!(answered, 200);
    drop(silent);
    watched.finish();
}

/// Asks on a new connection. None if nobody answers for a while.
fn ask(tollgate: &Tollgate) -> Option<u16> {
    let mut client = Client::connect(tollgate.http()).ok()?;
    Some(client.send("GET", "/healthz", &[], "").ok()?.status)
}

#[test]
fn what_idle_connections_are_charged_covers_what_they_cost() {
    const SILENT: usize = 3_000;
    let watched = Watched::start(launch());
    let addresses = [watched.tollgate.http(), watched.tollgate.grpc(), watched.tollgate.resp()];
    let silent: Vec<TcpStream> =
        (0..SILENT).map(|index| TcpStream::connect(addresses[index % 3]).unwrap()).collect();
    until("all are taken in", || (watched.vitals.files_left() >= SILENT).then_some(()));
    let peak_bytes = watched.vitals.peak_growth_bytes();
    let charged = watched.tollgate.metric(r#"ratelimit_connections_memory_bytes{class="connections"}"#);
    println!("{SILENT} silent connections: {} KiB, charged as {} KiB", peak_bytes >> 10, charged >> 10);
    assert!(peak_bytes <= charged, "{} KiB, charged as {} KiB", peak_bytes >> 10, charged >> 10);
    drop(silent);
    watched.finish();
}
