//! HTTP/2 under load while the server stops: each request that was sent before GOAWAY arrived is answered.
//!
//! The client writes its frames by hand, so that it knows which requests it had sent when GOAWAY came.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use tollgate_testkit::real::{Launch, Signal, Tollgate};

use crate::PLENTY;

const RULES: &str = "
domain: drain
descriptors: [{key: user, rate_limit: {requests: 1000000, period: 1h}}]
";
const CONNECTIONS: usize = 96;
/// Streams that a connection opens at a time.
const BURST: usize = 8;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const READ_TIMEOUT: Duration = Duration::from_secs(30);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Of DATA and HEADERS; the same bit of SETTINGS and PING says that they are an answer.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// What every stream of a connection asks.
#[derive(Debug)]
struct Call {
    fields: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
}

impl Call {
    fn grpc(path: &'static str) -> Call {
        // `RateLimitRequest` for one user, behind the length of the message.
        let field = |number: u8, bytes: &[u8]| {
            [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
        };
        let entry = [field(1, b"user"), field(2, b"ann")].concat();
        let message = [field(1, b"drain"), field(2, &field(1, &entry))].concat();
        let length = u32::try_from(message.len()).unwrap();
        let body = [&[0], &length.to_be_bytes()[..], &message].concat();
        let fields = vec![
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "test"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        Call { fields, body }
    }

    fn http(path: &'static str) -> Call {
        let fields = vec![(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "test")];
        Call { fields, body: PLENTY.into() }
    }

    fn put(&self, stream: u32, bytes: &mut Vec<u8>) {
        let mut block = Vec::new();
        for (name, value) in &self.fields {
            block.push(0); // Both as they are, and not to be remembered.
            for text in [name, value] {
                block.push(u8::try_from(text.len()).unwrap());
                block.extend(text.as_bytes());
            }
        }
        put_frame(bytes, HEADERS, END_HEADERS, stream, &block);
        put_frame(bytes, DATA, END_STREAM, stream, &self.body);
    }
}

fn put_frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    bytes.extend(&u32::try_from(payload.len()).unwrap().to_be_bytes()[1..]);
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
}

/// What became of one connection.
#[derive(Debug, Default)]
struct Asked {
    answered: usize,
    /// Whether GOAWAY came.
    is_told: bool,
    /// Streams that were open when GOAWAY came.
    open_then: usize,
    /// Streams without a whole answer at the end of the connection.
    cut: usize,
    /// What ended the connection, other than its end.
    error: Option<String>,
}

struct Connection {
    stream: TcpStream,
    open: BTreeSet<u32>,
    next: u32,
    asked: Asked,
}

impl Connection {
    fn open(address: SocketAddr) -> Connection {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        let mut bytes = PREFACE.to_vec();
        put_frame(&mut bytes, SETTINGS, 0, 0, &[]);
        put_frame(&mut bytes, WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        stream.write_all(&bytes).unwrap();
        Connection { stream, open: BTreeSet::new(), next: 1, asked: Asked::default() }
    }

    fn send(&mut self, call: &Call) -> io::Result<()> {
        let mut bytes = Vec::new();
        for _ in 0..BURST {
            call.put(self.next, &mut bytes);
            self.open.insert(self.next);
            self.next += 2;
        }
        self.stream.write_all(&bytes)
    }

    /// Reads one frame. False at the end of the connection.
    fn read(&mut self) -> io::Result<bool> {
        let mut head = [0; 9];
        if self.stream.read(&mut head[..1])? == 0 {
            return Ok(false);
        }
        self.stream.read_exact(&mut head[1..])?;
        let [_, a, b, c] = [0, head[0], head[1], head[2]];
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload)?;
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut reply = Vec::new();
        match kind {
            DATA | HEADERS if flags & END_STREAM != 0 => {
                assert!(self.open.remove(&stream), "stream {stream} is answered twice");
                self.asked.answered += 1;
            }
            // As clients do, so that the server has something to read when it closes.
            DATA => put_frame(&mut reply, WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
            RST_STREAM => panic!("stream {stream} is reset: {payload:?}"),
            SETTINGS | PING if flags & ACK == 0 => {
                put_frame(&mut reply, kind, ACK, 0, if kind == PING { &payload } else { &[] });
            }
            GOAWAY if !self.asked.is_told => {
                (self.asked.is_told, self.asked.open_then) = (true, self.open.len());
            }
            _ => {}
        }
        // The server may have closed: what it has sent is read all the same.
        let _ = self.stream.write_all(&reply);
        Ok(true)
    }

    fn read_until(&mut self, is_enough: impl Fn(&Connection) -> bool) -> io::Result<bool> {
        while !is_enough(self) {
            if !self.read()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends burst after burst until GOAWAY, and reads to the end.
    fn ask_until_told(&mut self, call: &Call) -> io::Result<()> {
        while !self.asked.is_told {
            if self.send(call).is_err() {
                break; // Whether that was fair is seen from what was read.
            }
            if !self.read_until(|connection| connection.open.is_empty())? {
                return Ok(());
            }
        }
        self.read_until(|_| false).map(|_| ())
    }
}

fn run(address: SocketAddr, call: &Call, started: &Barrier) -> Asked {
    let mut connection = Connection::open(address);
    connection.send(call).unwrap();
    assert!(connection.read_until(|connection| connection.open.is_empty()).unwrap());
    started.wait();
    let ended = connection.ask_until_told(call);
    let Connection { open, mut asked, .. } = connection;
    asked.cut = open.len();
    asked.error = ended.err().map(|error| error.to_string());
    asked
}

/// Stops a server that many connections are busy with, and counts the requests that were cut.
fn check_busy(listener: impl Fn(&Tollgate) -> SocketAddr, call: &Call) {
    let mut tollgate = Launch::new(env!("CARGO_BIN_EXE_tollgate"))
        .rules("policies.yaml", crate::RULES)
        .rules("drain.yaml", RULES)
        .start();
    let (address, started) = (listener(&tollgate), Barrier::new(CONNECTIONS + 1));
    let all: Vec<Asked> = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CONNECTIONS).map(|_| scope.spawn(|| run(address, call, &started))).collect();
        started.wait();
        tollgate.signal(Signal::TERM);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(tollgate.wait(), Some(0));
    let cut: usize = all.iter().map(|asked| asked.cut).sum();
    assert_eq!(cut, 0, "{call:?}: {all:?}");
    assert!(all.iter().all(|asked| asked.is_told && asked.error.is_none()), "{call:?}: {all:?}");
    assert!(all.iter().any(|asked| asked.open_then > 0), "no connection was busy: {all:?}");
    assert!(!tollgate.logs().contains("still open"), "{}", tollgate.logs());
}

#[test]
fn grpc_calls_that_were_sent_before_goaway_are_answered() {
    check_busy(Tollgate::grpc, &Call::grpc("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"));
}

#[test]
fn grpc_calls_of_another_service_that_were_sent_before_goaway_are_answered() {
    check_busy(Tollgate::grpc, &Call::grpc("/grpc.health.v1.Health/Check"));
}

#[test]
fn requests_of_http2_that_were_sent_before_goaway_are_answered() {
    check_busy(Tollgate::http, &Call::http("/v1/check"));
}
