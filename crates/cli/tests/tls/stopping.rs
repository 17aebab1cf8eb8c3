//! The end of connections, and those that never become any.

use std::net::TcpStream;

use tollgate_testkit::real::{Signal, Tollgate};

use super::authority::Authority;
use super::client::Client;
use super::with_tls;

/// It ends when it is told to, and nobody is left behind.
fn check_stops(mut tollgate: Tollgate) {
    assert_eq!(tollgate.wait(), Some(0));
    assert!(!tollgate.logs().contains("still open"), "{}", tollgate.logs());
}

#[test]
fn the_end_is_announced() {
    let ours = Authority::new("ours");
    let tollgate = with_tls(&ours).start();
    let mut redis = Client::connect(tollgate.resp(), &ours, None).unwrap();
    redis.ping().unwrap();
    let mut http = Client::connect(tollgate.http(), &ours, None).unwrap();
    http.ask("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n").unwrap();
    let mut says_nothing = Client::connect(tollgate.http(), &ours, None).unwrap();
    tollgate.signal(Signal::TERM);
    // Without an announcement, these were errors.
    assert_eq!(redis.read_to_end().unwrap(), "");
    assert!(http.read_to_end().unwrap().ends_with("ok\n"));
    assert_eq!(says_nothing.read_to_end().unwrap(), "");
    drop((redis, http, says_nothing));
    check_stops(tollgate);
}

#[test]
fn quit_is_answered_with_an_announced_end() {
    let ours = Authority::new("ours");
    let tollgate = with_tls(&ours).start();
    let mut redis = Client::connect(tollgate.resp(), &ours, None).unwrap();
    redis.ask("QUIT\r\n", "+OK\r\n").unwrap();
    assert_eq!(redis.read_to_end().unwrap(), "");
}

#[test]
fn a_long_pipeline_is_answered_in_full() {
    const COMMANDS: usize = 100_000;
    let ours = Authority::new("ours");
    let tollgate = with_tls(&ours).start();
    let mut redis = Client::connect(tollgate.resp(), &ours, None).unwrap();
    for _ in 0..COMMANDS / 1_000 {
        redis.ask(&"PING\r\n".repeat(1_000), &"+PONG\r\n".repeat(1_000)).unwrap();
    }
}

#[test]
fn handshakes_that_stall_hold_nobody_up() {
    let ours = Authority::new("ours");
    let tollgate = with_tls(&ours).flag("workers", "1").start();
    let stalled: Vec<_> = (0..100).map(|_| TcpStream::connect(tollgate.resp()).unwrap()).collect();
    Client::connect(tollgate.resp(), &ours, None).unwrap().ping().unwrap();
    tollgate.signal(Signal::TERM);
    check_stops(tollgate);
    drop(stalled);
}
