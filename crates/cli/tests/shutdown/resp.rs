//! RESP under load while the server stops. The protocol has no word for the end, so a client cannot know which of its commands is the
//! last. Each command that was carried out is answered, and the connection ends in order.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::real::redis::RedisServer;
use tollgate_testkit::real::{Launch, Signal, Tollgate};

const RULES: &str =
    "policies: {plenty: {requests: 1000000, period: 30d, algorithm: fixed_window, fail_mode: closed}}";
const LIMIT: u64 = 1_000_000;
const COMMAND: &str = "TG.CHECK plenty ann\r\n";
const PIPELINE: usize = 64;
/// An array of five numbers.
const LINES_PER_REPLY: usize = 6;
const CONNECTIONS: usize = 48;
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// What became of one connection.
#[derive(Debug, Default)]
struct Asked {
    answered: usize,
    /// Whether a reply was cut in the middle.
    has_part: bool,
    error: Option<ErrorKind>,
}

/// Sends pipeline after pipeline until the server closes.
fn ask_until_closed(address: SocketAddr, started: &Barrier) -> Asked {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    let (pipeline, mut lines, mut place) = (COMMAND.repeat(PIPELINE), 0, [0; 4_096]);
    let mut asked = Asked::default();
    started.wait();
    for pipelines in 1.. {
        // The server may have closed: what it has answered is read all the same.
        let _ = stream.write_all(pipeline.as_bytes());
        while lines < pipelines * PIPELINE * LINES_PER_REPLY {
            match stream.read(&mut place) {
                Ok(0) => {
                    (asked.answered, asked.has_part) = (lines / LINES_PER_REPLY, lines % LINES_PER_REPLY > 0);
                    return asked;
                }
                Ok(length) => lines += place[..length].split(|byte| *byte == b'\n').count() - 1,
                Err(error) => {
                    asked.error = Some(error.kind());
                    asked.answered = lines / LINES_PER_REPLY;
                    return asked;
                }
            }
        }
    }
    asked
}

fn launch(redis: &RedisServer) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", RULES);
    launch.flag("store", &format!("redis://{}", redis.address())).flag("store-deadline", "10s")
}

fn used(server: &Tollgate) -> u64 {
    let reply = server.post("/v1/peek", &json!({"policy": "plenty", "key": "ann", "cost": 0}));
    let answer: Value = serde_json::from_str(&reply.body).unwrap();
    LIMIT - answer["remaining"].as_u64().unwrap()
}

#[test]
fn each_command_of_a_pipeline_that_is_carried_out_is_answered() {
    let redis = RedisServer::start();
    let mut tollgate = launch(&redis).start();
    let (address, started) = (tollgate.resp(), Barrier::new(CONNECTIONS + 1));
    let all: Vec<Asked> = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CONNECTIONS).map(|_| scope.spawn(|| ask_until_closed(address, &started))).collect();
        started.wait();
        thread::sleep(Duration::from_millis(200)); // It is busy when it stops.
        tollgate.signal(Signal::TERM);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(tollgate.wait(), Some(0));
    assert!(all.iter().all(|asked| asked.error.is_none() && !asked.has_part), "{all:?}");
    let answered: usize = all.iter().map(|asked| asked.answered).sum();
    assert!(answered > 0);
    assert_eq!(used(&launch(&redis).start()), answered as u64, "{all:?}");
    assert!(!tollgate.logs().contains("still open"), "{}", tollgate.logs());
}
