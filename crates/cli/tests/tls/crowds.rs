//! Connections with TLS at the cap of the memory account.

use std::net::{IpAddr, Ipv4Addr, TcpStream};

use tollgate_testkit::real::hostile::Vitals;
use tollgate_testkit::real::{connect_from, until};

use super::authority::Authority;
use super::client::Client;
use super::with_tls;

const HELD: &str = r#"ratelimit_connections_memory_bytes{class="connections"}"#;
/// What a connection with TLS is charged.
const CONNECTION_BYTES: u64 = 40 << 10;

#[test]
fn connections_with_tls_beyond_the_memory_account_are_refused() {
    // Of an account of 4 MiB, connections may take 2 MiB, new ones 3/4 of that: 38 of 40 KiB.
    const ADMITTED: u64 = 38;
    const CLIENTS: u8 = 4;
    const EACH: usize = 30;
    let tollgate =
        with_tls(&Authority::new("ours")).flag("admin-tls", "off").flag("connections-memory", "4MiB").start();
    let (address, source) = (tollgate.http(), |index| IpAddr::from(Ipv4Addr::new(127, 0, 1, index)));
    let idle: Vec<TcpStream> = (1..=CLIENTS)
        .flat_map(|index| (0..EACH).map(move |_| connect_from(source(index), address).unwrap()))
        .collect();
    let refused = |reason: &str| {
        let labels = format!("{{listener=\"http\",reason=\"{reason}\"}}");
        tollgate.metric(&format!("ratelimit_connections_refused_total{labels}"))
    };
    until("all connections are admitted or refused", || {
        let refused = refused("memory") + refused("client_connections");
        (refused == idle.len() as u64 - ADMITTED).then_some(())
    });
    assert!(refused("memory") > 0, "one client takes at most half of it, two take all");
    assert_eq!(tollgate.metric(r#"ratelimit_connections_open{listener="http"}"#), ADMITTED);
    let held = tollgate.metric(HELD);
    assert!((ADMITTED * CONNECTION_BYTES..=2 << 20).contains(&held), "{held}");
    drop(idle);
    until("all is given back", || (tollgate.metric(HELD) < CONNECTION_BYTES).then_some(()));
}

#[test]
fn what_idle_connections_with_tls_are_charged_covers_what_they_cost() {
    const IDLE: usize = 300;
    let authority = Authority::new("ours");
    let tollgate = with_tls(&authority).flag("admin-tls", "off").start();
    let connect = || Client::connect(tollgate.http(), &authority, None).unwrap();
    drop(connect());
    let vitals = Vitals::watch(&tollgate);
    let idle: Vec<Client> = (0..IDLE).map(|_| connect()).collect();
    let (peak_bytes, charged) = (vitals.peak_growth_bytes(), tollgate.metric(HELD));
    println!("{IDLE} idle connections: {} KiB, charged as {} KiB", peak_bytes >> 10, charged >> 10);
    assert!(charged >= IDLE as u64 * CONNECTION_BYTES, "{charged}");
    assert!(peak_bytes <= charged, "{} KiB, charged as {} KiB", peak_bytes >> 10, charged >> 10);
    drop(idle);
}
