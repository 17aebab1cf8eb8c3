//! What is asked of whom, and the keys that everybody knows before the clock starts.

use std::error::Error;
use std::time::Duration;

use indicatif::ProgressBar;
use tollgate_load::{Draw, Keys, Load, Pace, Protocol, Question, Report};

use super::child::{Child, Peers};

/// Different keys, drawn at random.
pub(super) const KEYS: u64 = 1_000_000;
/// A limit that nobody reaches.
const BURST: u64 = 100_000_000;
const PERIOD_S: u64 = 3_600;
/// Connections of every load.
pub(super) const CONNECTIONS: usize = 8;
/// Streams of an HTTP/2 connection.
pub(super) const STREAMS: usize = 32;
/// How all keys are made known.
const FILL_PIPELINE: usize = 64;
/// Far longer than that takes.
const FILL_DURATION_MAX: Duration = Duration::from_mins(2);

/// As redis-cell's clients ask.
pub(super) fn throttle() -> Question {
    Question::throttle("user:{key}", BURST, BURST, PERIOD_S)
}

/// As throttlecrab's clients ask; its yes is a 1.
pub(super) fn throttlecrab() -> Question {
    let numbers = [BURST, BURST, PERIOD_S].map(|number| number.to_string());
    let words = ["THROTTLE".to_owned(), "user:{key}".to_owned()].into_iter().chain(numbers).collect();
    Question::Command { words, yes: Some(1) }
}

/// A command of Redis about a key.
pub(super) fn redis(command: &str) -> Question {
    Question::Command { words: vec![command.to_owned(), "user:{key}".to_owned()], yes: None }
}

/// A named policy.
pub(super) fn policy() -> Question {
    Question::Policy { name: "search".to_owned(), key: "user:{key}".to_owned(), cost: 1 }
}

/// Two descriptors, of two entries and of one.
pub(super) fn descriptors() -> Question {
    let entry = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let (path, user) = (entry("path", "/search"), entry("user", "{key}"));
    Question::Descriptors {
        domain: "bench".to_owned(),
        descriptors: vec![vec![path, user.clone()], vec![user]],
        cost: 1,
    }
}

/// A load with the usual keys and connections, as fast as answers come.
pub(super) fn load(child: &Child, protocol: Protocol, question: Question) -> Load {
    let name = match protocol {
        Protocol::Rls => "grpc",
        Protocol::Http => "http",
        Protocol::Resp => "resp",
    };
    Load {
        protocol,
        address: child.address(name),
        token: None,
        question,
        keys: Keys { count: KEYS, draw: Draw::Uniform, seed: 1 },
        pace: Pace::Max,
        duration: FILL_DURATION_MAX,
        warmup: Duration::ZERO,
        requests_max: u64::MAX,
        connections: CONNECTIONS,
        in_flight: STREAMS,
    }
}

/// Runs a load to its end. All of it must have been answered, and with yes: these limits deny nobody.
pub(super) fn run(load: &Load) -> Result<Report, Box<dyn Error>> {
    let report = tollgate_load::run(load, std::future::pending(), |_| ())?;
    let tally = &report.tally;
    if tally.errors > 0 || tally.denied > 0 || tally.allowed == 0 {
        let words = tally.first_error.as_deref().unwrap_or("no error");
        let (allowed, denied, errors) = (tally.allowed, tally.denied, tally.errors);
        return Err(format!(
            "{} at {}: {allowed} allowed, {denied} denied, {errors} errors ({words})",
            load.protocol, load.address
        )
        .into());
    }
    Ok(report)
}

/// Asks for every key once, so that nobody is measured with a table that grows. What HTTP and gRPC count is found by drawing; so is
/// what throttlecrab-server counts, which answers pipelines so slowly that a million keys would take minutes.
pub(super) fn fill(peers: &Peers, progress: &ProgressBar) -> Result<(), Box<dyn Error>> {
    for (child, question) in [(&peers.tollgate, throttle()), (&peers.redis, redis("INCR"))] {
        progress.set_message(format!("{KEYS} keys for {}", child.address("resp")));
        let filling = load(child, Protocol::Resp, question);
        let keys = Keys { draw: Draw::InOrder, ..filling.keys };
        run(&Load { keys, requests_max: KEYS, in_flight: FILL_PIPELINE, ..filling })?;
    }
    Ok(())
}
