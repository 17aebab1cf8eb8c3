//! Stopping: what is under way is finished, load balancers are told in time, and nobody waits for ever.
#![allow(clippy::unwrap_used, clippy::panic)]

mod http2;
mod resp;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread;

use tollgate_testkit::real::{Client, Launch, Signal, Tollgate, fetch, until};

const RULES: &str = "
policies:
  ten-an-hour: {requests: 10, period: 1h}
  plenty: {requests: 1000000, period: 1h}
";
const PLENTY: &str = r#"{"policy": "plenty", "key": "ann"}"#;
const QUESTION: &str = r#"{"policy": "ten-an-hour", "key": "ann"}"#;

fn launch() -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("policies.yaml", RULES)
}

/// A client that has sent everything but the body of its question, which the server waits for.
fn half_way(tollgate: &Tollgate) -> Client {
    let mut client = Client::connect(tollgate.http()).unwrap();
    let length = QUESTION.len();
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    );
    client.write(&head).unwrap();
    assert_eq!(client.read().unwrap().status, 100, "the server waits for the body");
    client
}

fn until_closed(tollgate: &Tollgate) {
    for address in [tollgate.http(), tollgate.grpc(), tollgate.resp(), tollgate.admin()] {
        until("nobody is accepted any more", || TcpStream::connect(address).is_err().then_some(()));
    }
}

#[test]
fn a_request_under_way_is_still_answered() {
    let mut tollgate = launch().start();
    let mut client = half_way(&tollgate);
    tollgate.signal(Signal::TERM);
    until_closed(&tollgate);
    client.write(QUESTION).unwrap();
    let reply = client.read().unwrap();
    assert_eq!((reply.status, reply.the("x-ratelimit-remaining")), (200, "9"));
    assert_eq!(tollgate.wait(), Some(0));
    assert!(tollgate.logs().contains("stopped"), "{}", tollgate.logs());
    assert!(!tollgate.logs().contains("still open"), "{}", tollgate.logs());
}

/// What became of a client that asked as fast as it could until the server stopped.
#[derive(Debug, Default)]
struct Asked {
    answered: usize,
    /// Whether the last answer said that the connection ends with it.
    is_told: bool,
    /// Requests that were sent and not answered.
    cut: usize,
}

/// Asks until an answer says that it is the last, or there is none.
fn ask_until_told(address: SocketAddr, path: &str, started: &Barrier) -> Asked {
    let mut client = Client::connect(address).unwrap();
    let mut asked = Asked::default();
    assert_eq!(client.post(path, PLENTY).status, 200);
    started.wait();
    while !asked.is_told && asked.cut == 0 {
        match client.send("POST", path, &[], PLENTY) {
            Ok(reply) => {
                asked.answered += 1;
                asked.is_told = reply.header("connection") == Some("close");
            }
            Err(_) => asked.cut += 1,
        }
    }
    asked
}

/// Stops a server that many connections are busy with, and counts the requests that were cut.
fn check_busy(path: &str) {
    const CONNECTIONS: usize = 96;
    let mut tollgate = launch().start();
    let (address, started) = (tollgate.http(), Barrier::new(CONNECTIONS + 1));
    let all: Vec<Asked> = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CONNECTIONS).map(|_| scope.spawn(|| ask_until_told(address, path, &started))).collect();
        started.wait();
        tollgate.signal(Signal::TERM);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let cut: usize = all.iter().map(|asked| asked.cut).sum();
    assert_eq!(cut, 0, "{path}: {all:?}");
    assert!(all.iter().all(|asked| asked.is_told), "{path}: {all:?}");
    assert_eq!(tollgate.wait(), Some(0));
}

#[test]
fn busy_connections_are_answered_and_told_to_close() {
    // The first is answered by the HTTP/1 fast path, the second by hyper.
    check_busy("/v1/check");
    check_busy("/v1/peek");
}

#[test]
fn a_request_that_is_being_read_is_answered() {
    let (length, half) = (QUESTION.len(), QUESTION.len() / 2);
    let head = format!("POST /v1/check HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n");
    for part in ["POST /v1/che", &head, &format!("{head}{}", &QUESTION[..half])] {
        let mut tollgate = launch().start();
        let mut client = Client::connect(tollgate.http()).unwrap();
        assert_eq!(client.post("/v1/check", QUESTION).status, 200);
        client.write(part).unwrap();
        tollgate.signal(Signal::TERM);
        until_closed(&tollgate);
        client.write(&format!("{head}{QUESTION}")[part.len()..]).unwrap();
        let reply = client.read().unwrap();
        assert_eq!((reply.status, reply.the("connection")), (200, "close"), "{part:?}");
        assert_eq!(tollgate.wait(), Some(0));
    }
}

/// A signal ends it at once, though somebody is connected to this listener who says nothing.
fn check_silent(listener: impl Fn(&Tollgate) -> SocketAddr, greeting: &[u8]) {
    let mut tollgate = launch().start();
    let address = listener(&tollgate);
    let _says_nothing = TcpStream::connect(address).unwrap();
    // Whoever came later is answered: so the one before has been taken in.
    let mut says_something = TcpStream::connect(address).unwrap();
    says_something.write_all(greeting).unwrap();
    says_something.read_exact(&mut [0]).unwrap();
    drop(says_something);
    tollgate.signal(Signal::TERM);
    assert_eq!(tollgate.wait(), Some(0));
    assert!(!tollgate.logs().contains("still open"), "{}", tollgate.logs());
}

#[test]
fn whoever_says_nothing_to_http_holds_nothing_up() {
    let greeting = b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n";
    check_silent(Tollgate::http, greeting);
    check_silent(Tollgate::admin, greeting);
}

#[test]
fn whoever_says_nothing_to_grpc_holds_nothing_up() {
    // HTTP/2 begins with this, and with settings, of which there may be none.
    check_silent(Tollgate::grpc, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
}

#[test]
fn whoever_says_nothing_to_resp_holds_nothing_up() {
    check_silent(Tollgate::resp, b"PING\r\n");
}

#[test]
fn idle_connections_hold_nothing_up() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut tollgate = launch().start();
        let mut idle = Client::connect(tollgate.http()).unwrap();
        assert_eq!(idle.get("/healthz", &[]).status, 200);
        tollgate.signal(signal);
        assert_eq!(tollgate.wait(), Some(0));
        assert!(!tollgate.logs().contains("still open"), "{}", tollgate.logs());
        assert!(idle.read().is_err(), "it was closed");
    }
}

#[test]
fn it_goes_on_but_is_not_ready_while_load_balancers_notice() {
    let mut tollgate = launch().flag("drain-delay", "1m").start();
    let status = |path: &str| fetch(tollgate.http(), path).unwrap().status;
    assert_eq!(["/readyz", "/healthcheck", "/healthz"].map(status), [200, 200, 200]);
    tollgate.signal(Signal::TERM);
    until("it is not ready", || (status("/readyz") == 503).then_some(()));
    assert_eq!(["/readyz", "/healthcheck", "/healthz"].map(status), [503, 500, 200]);
    assert_eq!(Client::connect(tollgate.http()).unwrap().post("/v1/check", QUESTION).status, 200);
    // Once more: at once, a minute or not.
    tollgate.signal(Signal::TERM);
    assert_eq!(tollgate.wait(), Some(0));
}

#[test]
fn a_client_that_never_finishes_is_not_waited_for() {
    let mut tollgate = launch().flag("drain-timeout", "100ms").start();
    let mut client = half_way(&tollgate);
    tollgate.signal(Signal::TERM);
    assert_eq!(tollgate.wait(), Some(0));
    assert!(tollgate.logs().contains("stopped with connections still open"), "{}", tollgate.logs());
    assert!(client.read().is_err());
}

#[test]
fn a_second_signal_ends_the_waiting() {
    let mut tollgate = launch().flag("drain-timeout", "1m").start();
    let _client = half_way(&tollgate);
    tollgate.signal(Signal::TERM);
    until_closed(&tollgate);
    tollgate.signal(Signal::INT);
    assert_eq!(tollgate.wait(), Some(0));
    assert!(tollgate.logs().contains("stopped with connections still open"), "{}", tollgate.logs());
}
