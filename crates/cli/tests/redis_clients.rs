//! Redis' own tools and redis-py as clients: whoever calls redis-cell today calls this instead.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use tollgate_testkit::real::{Finished, Launch, Tollgate, python, tool};

const RULES: &str = "
policies:
  three-an-hour: {requests: 3, period: 1h}
";

fn tollgate() -> Tollgate {
    Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("policies.yaml", RULES).start()
}

/// What `redis-cli` prints for a command, line by line.
fn check(tollgate: &Tollgate, command: &[&str], lines: &[&str]) {
    let port = tollgate.resp().port().to_string();
    let finished = tool("redis-cli", &[&["-p", &port], command].concat());
    assert_eq!(
        finished.stdout.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(),
        lines,
        "{command:?}"
    );
}

#[test]
fn redis_cli_throttles() {
    let tollgate = tollgate();
    check(&tollgate, &["PING"], &["PONG"]);
    // As in redis-cell's own documents: limited or not, the limit, what remains, when to retry, when all is back.
    check(&tollgate, &["CL.THROTTLE", "user123", "15", "30", "60"], &["0", "16", "15", "-1", "2"]);
    check(&tollgate, &["CL.THROTTLE", "peeked", "15", "1", "3600", "0"], &["0", "16", "16", "-1", "0"]);
    check(&tollgate, &["CL.THROTTLE", "other", "1", "1", "3600", "2"], &["0", "2", "0", "-1", "7200"]);
    check(&tollgate, &["CL.THROTTLE", "other", "1", "1", "3600"], &["1", "2", "0", "3600", "7200"]);
    check(&tollgate, &["cl.throttle", "other", "1", "1", "3600", "3"], &["1", "2", "0", "-1", "7200"]);
}

#[test]
fn redis_cli_asks_named_policies() {
    let tollgate = tollgate();
    let asked = |remaining: &str, allowed: &str| {
        let port = tollgate.resp().port().to_string();
        let answer = tool("redis-cli", &["-p", &port, "TG.CHECK", "three-an-hour", "ann"]).stdout;
        assert_eq!(answer.lines().take(3).collect::<Vec<_>>(), [allowed, "3", remaining], "{answer}");
        assert_eq!(answer.lines().count(), 5, "{answer}");
    };
    asked("2", "1");
    asked("1", "1");
    asked("0", "1");
    asked("0", "0");
}

#[test]
fn redis_cli_is_told_what_is_wrong() {
    let tollgate = tollgate();
    for (command, answer) in [
        (&["CL.THROTTLE", "k", "1", "2"][..], "ERR wrong number of arguments for 'cl.throttle' command"),
        (
            &["CL.THROTTLE", "k", "x", "2", "3"],
            "ERR max_burst must be a whole number from 0 to 9223372036854775807",
        ),
        (&["TG.CHECK", "three", "k"], "ERR unknown policy \"three\"; it could be three-an-hour"),
        (&["GET", "k"], "ERR unknown command 'GET', with args beginning with: 'k' "),
        (&["SELECT", "1"], "ERR DB index is out of range"),
    ] {
        check(&tollgate, command, &[answer]);
    }
    check(&tollgate, &["PING"], &["PONG"]);
}

#[test]
fn keys_are_any_bytes() {
    let tollgate = tollgate();
    let port = tollgate.resp().port().to_string();
    // Words in quotes are how redis-cli takes bytes that no argument can have.
    let commands = [r"\xff\x00\xfe", r"\xff\x00\xfd", r"\xff\x00\xfe"]
        .map(|key| format!("CL.THROTTLE \"{key}\" 0 1 3600"));
    let script = format!("printf '%s\\n' '{}' | redis-cli -p {port}", commands.join("' '"));
    let answers = tool("sh", &["-c", &script]).stdout;
    let limited: Vec<&str> = answers.lines().step_by(5).collect();
    assert_eq!(limited, ["0", "0", "1"], "two keys that differ in a byte, and the first again: {answers}");
}

/// Runs `redis-benchmark` with sixteen commands under way on each of its fifty connections.
fn benchmark(tollgate: &Tollgate, arguments: &[&str]) -> Finished {
    let port = tollgate.resp().port().to_string();
    let finished =
        tool("redis-benchmark", &[&["-p", &port, "-n", "20000", "-P", "16", "-q"], arguments].concat());
    // It ends with 1 at the first error that it is answered.
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished
}

fn decided(tollgate: &Tollgate) -> [u64; 2] {
    ["allowed", "denied"].map(|outcome| {
        tollgate.metric(&format!("ratelimit_requests_total{{protocol=\"resp\",outcome=\"{outcome}\"}}"))
    })
}

#[test]
fn redis_benchmark_gets_exactly_the_limit() {
    let tollgate = tollgate();
    benchmark(&tollgate, &["CL.THROTTLE", "key", "999", "1", "86400"]);
    assert_eq!(decided(&tollgate), [1_000, 19_000]);
}

#[test]
fn redis_benchmark_gets_exactly_the_limit_of_every_key() {
    let tollgate = tollgate();
    // Two hundred for each of a hundred keys, give or take: none gets fewer than fifty.
    benchmark(&tollgate, &["-r", "100", "CL.THROTTLE", "key:__rand_int__", "49", "1", "86400"]);
    assert_eq!(decided(&tollgate), [5_000, 15_000]);
}

#[test]
fn redis_benchmark_meets_no_error_at_any_rate() {
    let tollgate = tollgate();
    benchmark(&tollgate, &["CL.THROTTLE", "key", "1000000", "1000000", "1"]);
    assert_eq!(decided(&tollgate), [20_000, 0]);
}

/// Runs one part of a script with redis-py.
fn check_python(part: &str) {
    let tollgate = tollgate();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/redis_client.py");
    let finished = python(&script, &[tollgate.resp().port().to_string(), part.to_owned()]);
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "fine"), "{}", finished.stderr);
}

#[test]
fn redis_py_speaks_version_2() {
    check_python("version_2");
}

#[test]
fn redis_py_speaks_version_3() {
    check_python("version_3");
}

#[test]
fn redis_py_pipelines() {
    check_python("pipeline");
}

#[test]
fn redis_py_gets_exactly_the_limit_from_many_threads() {
    check_python("threads");
}

#[test]
fn redis_py_names_users_as_it_does_to_redis() {
    check_python("auth");
}

#[test]
fn redis_py_may_use_any_bytes_as_a_key() {
    check_python("bytes");
}
