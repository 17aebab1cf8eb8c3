//! The client that means no harm: it asks on every protocol all the time, and knows what it must be answered.
//!
//! Each round is about somebody never seen before who may ask twice an hour: yes, yes, no. So a counter that is lost, shared or
//! counted twice shows, and not only a server that is gone.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use super::super::http::Client;
use super::super::tollgate::Tollgate;
use super::super::wait::{pause, until};
use super::frames::{DATA, END_STREAM, Frames, WINDOW_UPDATE};
use super::grpc;
use super::raw::Raw;

/// Where it connects from: attacks come from another address.
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// What is answered to those who ask three times.
const ANSWERS: [bool; 3] = [true, true, false];
/// So many answers' times are kept.
const TIMES_MAX: usize = 1 << 20;
/// So many wrong answers are told.
const WRONG_TOLD_MAX: usize = 8;
/// Enough for all answers of a connection.
const WINDOW_BYTES: u32 = 1 << 30;

/// A client that asks until it is told to stop.
#[derive(Debug)]
pub struct Companion {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: JoinHandle<Service>,
}

/// How a client was served.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// How often it asked.
    pub asked: u64,
    /// Answers that were wrong or never came.
    pub wrong: u64,
    /// The first of them.
    pub complaints: Vec<String>,
    /// How long answers took, by the clock that the client was given.
    pub times_ns: Vec<u64>,
}

impl Companion {
    /// Starts asking. Times are taken from a clock that tells nanoseconds: a test has no need of one.
    pub fn start(tollgate: &Tollgate, clock_ns: fn() -> u64) -> Companion {
        let mut protocols = protocols(tollgate);
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU64::new(0));
        let (is_over, rounds_done) = (Arc::clone(&stop), Arc::clone(&rounds));
        let ask = move || {
            let mut service = Service::default();
            let mut round = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                for protocol in &mut protocols {
                    service.ask(protocol, &format!("companion-{round}"), clock_ns);
                }
                rounds_done.store(round, Ordering::Relaxed); // orders nothing else
                pause();
            }
            service
        };
        Companion { stop, rounds, thread: thread::spawn(ask) }
    }

    /// Waits until it has asked everywhere so often, from now on.
    pub fn wait_for_rounds(&self, count: u64) {
        let start = self.rounds.load(Ordering::Relaxed);
        until("the companion is answered", || {
            (self.rounds.load(Ordering::Relaxed) >= start + count).then_some(())
        });
    }

    /// Stops asking, and says how it went.
    pub fn stop(self) -> Service {
        self.stop.store(true, Ordering::Relaxed); // Joining orders the rest.
        self.thread.join().expect("a companion that does not panic")
    }
}

impl Service {
    fn ask(&mut self, protocol: &mut Protocol, user: &str, clock_ns: fn() -> u64) {
        for (index, expected) in ANSWERS.into_iter().enumerate() {
            let began_ns = clock_ns();
            let answer = protocol.ask(user);
            if self.times_ns.len() < TIMES_MAX {
                self.times_ns.push(clock_ns().saturating_sub(began_ns));
            }
            self.asked += 1;
            if answer.as_ref() != Ok(&expected) {
                self.wrong += 1;
                if self.complaints.len() < WRONG_TOLD_MAX {
                    self.complaints.push(format!("{protocol:?}, {user}, question {index}: {answer:?}"));
                }
            }
        }
    }
}

/// One connection, kept open.
#[derive(Debug)]
enum Protocol {
    Http(Client),
    Grpc { raw: Raw, stream: u32 },
    Resp(Raw),
}

fn protocols(tollgate: &Tollgate) -> Vec<Protocol> {
    let http = Client::connect_from(ADDRESS, tollgate.http()).expect("a server that is there");
    let opening = Frames::opening(&[]).add(WINDOW_UPDATE, 0, 0, &WINDOW_BYTES.to_be_bytes());
    let mut grpc = Raw::connect_from(ADDRESS, tollgate.grpc());
    grpc.send(&opening.0);
    vec![
        Protocol::Http(http),
        Protocol::Grpc { raw: grpc, stream: 1 },
        Protocol::Resp(Raw::connect_from(ADDRESS, tollgate.resp())),
    ]
}

impl Protocol {
    /// Whether this user may.
    fn ask(&mut self, user: &str) -> Result<bool, String> {
        match self {
            Protocol::Http(client) => ask_http(client, user),
            Protocol::Grpc { raw, stream } => ask_grpc(raw, stream, user),
            Protocol::Resp(raw) => ask_resp(raw, user),
        }
    }
}

fn ask_http(client: &mut Client, user: &str) -> Result<bool, String> {
    let body = format!(r#"{{"policy": "two-an-hour", "key": "http-{user}"}}"#);
    let reply = client.send("POST", "/v1/check", &[], &body).map_err(|error| error.to_string())?;
    match reply.status {
        200 => Ok(true),
        429 => Ok(false),
        status => Err(format!("{status} {}", reply.body)),
    }
}

fn ask_grpc(raw: &mut Raw, stream: &mut u32, user: &str) -> Result<bool, String> {
    let message = grpc::framed(&grpc::question(user.as_bytes()));
    let frames = grpc::ask(Frames::none(), *stream, &message);
    raw.send_frames(&frames);
    let code = loop {
        let frame = raw.frame().map_err(|seen| seen.to_string())?;
        match frame.kind {
            // The message begins with its length, and the answer with the field that Envoy acts on.
            DATA if frame.stream == *stream && frame.payload.len() > 6 => break frame.payload[6],
            _ if frame.stream == *stream && frame.flags & END_STREAM != 0 => {
                return Err("an error of gRPC".to_owned());
            }
            _ => {}
        }
    };
    *stream += 2;
    match code {
        1 => Ok(true),
        2 => Ok(false),
        other => Err(format!("code {other}")),
    }
}

fn ask_resp(raw: &mut Raw, user: &str) -> Result<bool, String> {
    raw.send(format!("TG.CHECK two-an-hour resp-{user}\r\n").as_bytes());
    let mut lines = Vec::new();
    for _ in 0..6 {
        let line = raw.line().map_err(|seen| seen.to_string())?;
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.starts_with('-') {
            return Err(line);
        }
        lines.push(line);
    }
    match lines[1].as_str() {
        ":1" => Ok(true),
        ":0" => Ok(false),
        _ => Err(lines.join(" ")),
    }
}
