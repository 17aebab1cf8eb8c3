//! More connections than there are places, memory or descriptors for.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use tollgate_testkit::real::hostile::attacks;
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

/// Whether the server closes a connection in time. Panics if it says anything.
fn is_closed_within(mut stream: &TcpStream, patience: Duration) -> bool {
    stream.set_read_timeout(Some(patience)).unwrap();
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
fn the_operator_says_how_many_connections_one_client_has() {
    let watched = Watched::start(launch().flag("connections-per-client", "5"));
    let address = watched.tollgate.http();
    let mut connections: Vec<Client> = (0..20).filter_map(|_| Client::connect(address).ok()).collect();
    connections.retain_mut(|client| client.send("GET", "/healthz", &[], "").is_ok());
    assert_eq!(connections.len(), 5);
    assert_eq!(ask_from(newcomer(1), address), Some(200));
    drop(connections);
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
    let watched = Watched::start(launch().flag("connection-rate-per-client", "1/s:10"));
    let address = watched.tollgate.http();
    // The launch itself has connected from the same address.
    let connections: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    // Connections that say nothing are closed too, but only after ten seconds.
    assert!(is_closed_within(connections.last().unwrap(), Duration::from_secs(5)));
    assert_eq!(ask_from(newcomer(1), address), Some(200));
    let admin = (0..3).map(|_| ask_from(Ipv4Addr::LOCALHOST.into(), watched.tollgate.admin()));
    assert!(admin.eq([Some(200); 3]), "data connections do not use up the rate of the admin listener");
    drop(connections);
    watched.finish();
}

#[test]
fn a_client_that_holds_all_memory_it_may_still_reaches_the_admin_listener() {
    // Half of an account of 4 MiB is for connections, and one client may have half of that: 1 MiB. Each
    // connection holds 16 KiB of it: its first buffers and a header that fits into them. A longer header
    // would be refused as a request, and its connection closed, before the connections fill their part.
    let watched = Watched::start(launch().flag("connections-memory", "4MiB"));
    let unfinished = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: {}", "x".repeat(8_000));
    let holding: Vec<TcpStream> = (0..90)
        .map(|_| {
            let mut stream = TcpStream::connect(watched.tollgate.http()).unwrap();
            let _ = stream.write_all(unfinished.as_bytes()); // It may be refused and closed already.
            stream
        })
        .collect();
    // The server refuses a new connection, or the first buffers of one that it has accepted before the
    // others sent their headers: which of them is a matter of timing.
    until("memory is refused", || {
        let refused = [
            r#"ratelimit_connections_memory_shed_total{class="connections"}"#,
            r#"ratelimit_connections_refused_total{listener="http",reason="client_connections"}"#,
        ];
        refused.iter().any(|counter| watched.tollgate.metric(counter) > 0).then_some(())
    });
    let mut admin: Vec<Client> =
        (0..16).map(|_| Client::connect(watched.tollgate.admin()).unwrap()).collect();
    for path in ["/healthz", "/metrics"] {
        for client in &mut admin {
            assert_eq!(client.send("GET", path, &[], "").map(|reply| reply.status).ok(), Some(200), "{path}");
        }
    }
    drop((holding, admin));
    watched.finish();
}

#[test]
fn many_workers_leave_descriptors_for_the_admin_listener() {
    let tollgate = launch().descriptors(DESCRIPTORS).flag("workers", "64").start();
    let listeners = [("http", tollgate.http()), ("grpc", tollgate.grpc()), ("resp", tollgate.resp())];
    let connect_all = |source| {
        let connect = move |(_, address)| (0..150).filter_map(move |_| connect_from(source, address).ok());
        listeners.into_iter().flat_map(connect)
    };
    let idle: Vec<TcpStream> = (1..=3).map(newcomer).flat_map(connect_all).collect();
    for (name, _) in listeners {
        until("the listener is full", || {
            let [open, max] = ["open", "max"]
                .map(|what| tollgate.metric(&format!("ratelimit_connections_{what}{{listener=\"{name}\"}}")));
            (open == max).then_some(())
        });
    }
    for index in 4..=NEWCOMERS {
        assert_eq!(ask_from(newcomer(index), tollgate.admin()), Some(200));
    }
    let logs = tollgate.logs();
    assert!(!logs.contains("cannot accept"), "{logs}");
    drop(idle);
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
fn open_connections_are_counted_by_listener() {
    const OPEN: usize = 5;
    let tollgate = launch().start();
    let open =
        |listener: &str| tollgate.metric(&format!("ratelimit_connections_open{{listener=\"{listener}\"}}"));
    assert_eq!(open("resp"), 0, "no client has connected");
    let mut clients: Vec<Client> = (0..OPEN).map(|_| Client::connect(tollgate.http()).unwrap()).collect();
    assert!(clients.iter_mut().all(|client| client.get("/healthz", &[]).status == 200));
    assert_eq!(open("http"), OPEN as u64);
    drop(clients);
    until("all connections are closed", || (open("http") == 0).then_some(()));
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

#[test]
fn a_server_without_free_descriptors_says_so_once_a_minute() {
    // Each listener has 16 connections, however few descriptors there are.
    let tollgate = launch().descriptors(64).flag("workers", "1").start();
    let addresses = [tollgate.http(), tollgate.grpc(), tollgate.resp()];
    let idle: Vec<TcpStream> = addresses
        .iter()
        .flat_map(|&address| (1..=30).filter_map(move |index| connect_from(newcomer(index), address).ok()))
        .collect();
    tollgate.wait_for_log("cannot accept a connection");
    std::thread::sleep(Duration::from_secs(1));
    let logs = tollgate.logs();
    let lines = logs.matches("cannot accept a connection").count();
    assert!((1..=addresses.len()).contains(&lines), "{lines} lines: {logs}");
    drop(idle);
}

#[test]
fn what_idle_grpc_connections_are_charged_covers_what_they_cost() {
    const IDLE: usize = 500;
    const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let watched = Watched::start(launch());
    let idle: Vec<TcpStream> = (0..IDLE)
        .map(|_| {
            let mut stream = TcpStream::connect(watched.tollgate.grpc()).unwrap();
            stream.write_all(OPENING).unwrap();
            stream.read_exact(&mut [0; 9]).unwrap(); // the server's settings
            stream
        })
        .collect();
    let charged = || watched.tollgate.metric(r#"ratelimit_connections_memory_bytes{class="connections"}"#);
    let peak_bytes = watched.vitals.peak_growth_bytes();
    println!("{IDLE} idle connections: {} KiB, charged as {} KiB", peak_bytes >> 10, charged() >> 10);
    assert!(peak_bytes <= charged(), "{} KiB, charged as {} KiB", peak_bytes >> 10, charged() >> 10);
    drop(idle);
    watched.finish();
}

#[test]
fn what_idle_connections_of_http_2_are_charged_covers_what_they_cost() {
    const IDLE: usize = 600;
    let watched = Watched::start(launch());
    let address = watched.tollgate.http();
    let opening = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    let idle: Vec<TcpStream> = (0..IDLE)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&opening).unwrap();
            // The server has begun to speak HTTP/2 when its own settings come.
            stream.read_exact(&mut [0; 9]).unwrap();
            stream
        })
        .collect();
    let peak_bytes = watched.vitals.peak_growth_bytes();
    let charged = watched.tollgate.metric(r#"ratelimit_connections_memory_bytes{class="connections"}"#);
    println!("{IDLE} connections of HTTP/2: {} KiB, charged as {} KiB", peak_bytes >> 10, charged >> 10);
    assert!(peak_bytes <= charged, "{} KiB, charged as {} KiB", peak_bytes >> 10, charged >> 10);
    drop(idle);
    watched.finish();
}

#[test]
fn a_crowded_listener_closes_connections_that_take_no_response() {
    let launch = launch().flag("connections-max", "16").flag("connections-per-client", "16");
    let watched = Watched::start(launch);
    let name = "takes none of its responses, answers every PING";
    let stalled = attacks().into_iter().find(|attack| attack.name == name).unwrap();
    let tally = stalled.run(&watched.tollgate, 1);
    assert!(tally.wrong().is_empty(), "{:#?}", tally.wrong());
    watched.finish();
}
