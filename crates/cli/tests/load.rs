//! `tollgate load` against the real server: what it counts is what the server was asked, over every protocol.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use serde_json::Value;
use tollgate_testkit::real::{Finished, Launch, Signal, Tollgate, run, until};

/// How long a server is kept from its work: of all that is planned for this time, somebody has to say that it was late.
const STANDSTILL: Duration = Duration::from_millis(600);
/// All that is planned for a second is under way by then.
const LONGER_THAN_A_SECOND: Duration = Duration::from_millis(1_400);

const RULES: &str = "
domain: shop
descriptors:
- {key: customer, rate_limit: {requests: 7, period: 1d}}
- {key: all, rate_limit: {requests: 300, period: 1d}}
policies:
  seven-a-day: {requests: 7, period: 1d}
  many: {requests: 1000000, period: 1d}
";

fn tollgate() -> Tollgate {
    Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", RULES).start()
}

fn command(tollgate: &Tollgate, protocol: &str, words: &[&str]) -> Command {
    let address = match protocol {
        "rls" => tollgate.grpc(),
        "http" => tollgate.http(),
        _ => tollgate.resp(),
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(["load", "--protocol", protocol, "--address", &address.to_string(), "--json"]).args(words);
    command.env_clear();
    command
}

fn load(tollgate: &Tollgate, protocol: &str, words: &[&str]) -> Value {
    let finished = run(&mut command(tollgate, protocol, words));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stderr, "", "no progress where nobody watches");
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("no JSON: {finished:?}"))
}

fn counts(report: &Value) -> [u64; 6] {
    ["sent", "allowed", "denied", "errors", "unsent", "unanswered"]
        .map(|name| report[name].as_u64().unwrap_or_else(|| panic!("no {name} in {report}")))
}

/// Ten keys with seven units each are asked for a hundred times: seventy may pass.
fn check_counts(protocol: &str, question: &[&str]) {
    for pace in [&["--rate", "max"][..], &["--rate", "5000"], &["--rate", "5000", "--arrivals", "poisson"]] {
        let tollgate = tollgate();
        // Ten keys in a thousand draws: each comes more than seven times.
        let words = [&["--keys", "10", "--requests", "1000"], pace, question].concat();
        let report = load(&tollgate, protocol, &words);
        assert_eq!(counts(&report), [1_000, 70, 930, 0, 0, 0], "{pace:?}: {report}");
        let asked = |outcome: &str| {
            tollgate
                .metric(&format!("ratelimit_requests_total{{protocol=\"{protocol}\",outcome=\"{outcome}\"}}"))
        };
        assert_eq!((asked("allowed"), asked("denied")), (70, 930), "the server has counted the same");
    }
}

#[test]
fn http_counts_what_the_server_counts() {
    check_counts("http", &["--policy", "seven-a-day"]);
    check_counts("http", &["--domain", "shop", "--descriptor", "customer={key}"]);
}

#[test]
fn rls_counts_what_the_server_counts() {
    check_counts("rls", &["--domain", "shop", "--descriptor", "customer={key}"]);
}

#[test]
fn resp_counts_what_the_server_counts() {
    check_counts("resp", &["--policy", "seven-a-day"]);
    check_counts("resp", &["--throttle", "6,1,86400"]);
    check_counts("resp", &["--policy", "seven-a-day", "--batch", "16"]);
}

#[test]
fn several_descriptors_and_costs_are_sent() {
    let tollgate = tollgate();
    let words =
        ["--domain", "shop", "--descriptor", "customer={key}", "--descriptor", "all=x", "--cost", "3"];
    let report = load(&tollgate, "rls", &[&words[..], &["--requests", "1000", "--rate", "max"]].concat());
    // A thousand of a million keys hardly ever meet; all together have 300 units.
    assert_eq!(counts(&report)[..2], [1_000, 100], "{report}");
}

#[test]
fn zipf_asks_for_few_keys_most_of_the_time() {
    let tollgate = tollgate();
    let denied = |words: &[&str]| {
        let words = [&["--rate", "max", "--requests", "2000", "--policy", "seven-a-day"], words].concat();
        counts(&load(&tollgate, "resp", &words))[2]
    };
    // A quarter of Zipf's draws fall on the first of ten thousand keys or so; two thousand equal draws hardly meet.
    assert_eq!(denied(&["--keys", "1M", "--key", "equal:{key}"]), 0);
    assert!(denied(&["--keys", "1M", "--key", "zipf:{key}", "--zipf", "1.3"]) > 1_000);
}

#[test]
fn an_open_loop_lasts_as_long_as_it_was_planned_and_sends_all_of_it() {
    let tollgate = tollgate();
    let words = ["--policy", "many", "--rate", "500", "--duration", "1s", "--warmup", "500ms"];
    for protocol in ["http", "resp"] {
        let report = load(&tollgate, protocol, &words);
        assert_eq!(counts(&report), [500, 500, 0, 0, 0, 0], "{report}");
        let elapsed_s = report["elapsed_s"].as_f64().unwrap();
        assert!(elapsed_s > 0.99, "the last of 500 is planned for 998 ms: {report}");
    }
}

#[test]
fn a_server_that_stands_still_has_made_everybody_wait_who_would_have_come() {
    for (protocol, question) in
        [("http", &["--policy", "many"][..]), ("rls", &["--domain", "shop", "--descriptor", "nobody={key}"])]
    {
        let tollgate = tollgate();
        let words = [&["--rate", "500", "--duration", "2s"], question].concat();
        let child = command(&tollgate, protocol, &words).stdout(Stdio::piped()).spawn().unwrap();
        let series = format!("ratelimit_requests_total{{protocol=\"{protocol}\",outcome=\"allowed\"}}");
        until("it asks", || (tollgate.metric(&series) > 20).then_some(()));
        tollgate.signal(Signal::STOP);
        thread::sleep(STANDSTILL);
        tollgate.signal(Signal::CONT);
        let report: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(counts(&report), [1_000, 1_000, 0, 0, 0, 0], "{report}");
        // Of a thousand requests, three hundred are planned for the standstill, and all but the last fifty of these wait for 100 ms and more.
        // Who asks only when answered would see no more than a few slow answers.
        let p90_us = report["latency_us"]["p90"].as_f64().unwrap();
        assert!(p90_us > 100_000.0, "{report}");
    }
}

/// A server that stands still from early on until the end has made everybody wait who was planned, sent or not.
fn check_lasting_standstill(protocol: &str, words: &[&str]) {
    let tollgate = tollgate();
    let words = [&["--rate", "500", "--duration", "2s"], words].concat();
    let child = command(&tollgate, protocol, &words).stdout(Stdio::piped()).spawn().unwrap();
    let series = format!("ratelimit_requests_total{{protocol=\"{protocol}\",outcome=\"allowed\"}}");
    until("it asks", || (tollgate.metric(&series) > 20).then_some(()));
    tollgate.signal(Signal::STOP);
    let output = child.wait_with_output().unwrap();
    tollgate.signal(Signal::CONT);
    assert_eq!(output.status.code(), Some(1), "there was no answer to some");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [sent, allowed, denied, errors, unsent, unanswered] = counts(&report);
    assert_eq!((sent, sent + unsent, denied, errors), (allowed + unanswered, 1_000, 0, 0), "{report}");
    // Far more than a tenth is planned for the standstill, and was given up seconds after the last of it.
    assert!(report["latency_us"]["p90"].as_f64().unwrap() > 1e6, "{report}");
    let per_second = report["answered_per_s"].as_f64().unwrap();
    assert!(
        per_second < report["answered"].as_f64().unwrap() / 1.9,
        "over two seconds, the last of which nothing came in: {report}"
    );
}

#[test]
fn a_server_that_stands_still_to_the_end_has_made_everybody_wait_who_was_sent_or_not() {
    let descriptors = ["--domain", "shop", "--descriptor", "nobody={key}", "--in-flight", "1000"];
    let policy = ["--policy", "many", "--in-flight", "10000"];
    thread::scope(|scope| {
        scope.spawn(|| check_lasting_standstill("resp", &policy));
        scope.spawn(|| check_lasting_standstill("rls", &descriptors));
        scope.spawn(|| check_lasting_standstill("http", &policy)); // One request on a connection: most are not sent.
    });
}

#[test]
fn a_server_that_stands_still_and_dies_has_made_everybody_wait_until_then() {
    let tollgate = tollgate();
    let words = ["--policy", "many", "--rate", "500", "--duration", "1s", "--in-flight", "10000"];
    let child = command(&tollgate, "resp", &words).stdout(Stdio::piped()).spawn().unwrap();
    let series = "ratelimit_requests_total{protocol=\"resp\",outcome=\"allowed\"}";
    until("it asks", || (tollgate.metric(series) > 20).then_some(()));
    tollgate.signal(Signal::STOP);
    thread::sleep(LONGER_THAN_A_SECOND);
    tollgate.signal(Signal::KILL);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "the connections broke");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [sent, allowed, _, errors, unsent, unanswered] = counts(&report);
    assert_eq!((sent, unsent, unanswered, sent), (500, 0, 0, allowed + errors), "{report}");
    // All that was planned for after the standstill began was under way when the server died, half a second and more after its moment.
    assert!(report["latency_us"]["p90"].as_f64().unwrap() > 0.2e6, "{report}");
}

#[test]
fn the_table_names_every_figure() {
    let tollgate = tollgate();
    let address = tollgate.http().to_string();
    let words =
        ["load", "--address", &address, "--policy", "seven-a-day", "--requests", "100", "--keys", "1"];
    let Finished { code, stdout, stderr } =
        run(Command::new(env!("CARGO_BIN_EXE_tollgate")).args(words).env_clear());
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    for name in ["p50", "p99.99", "max", "latency", "send lag", "sent", "answered", "/s planned"] {
        assert!(stdout.contains(name), "no {name} in\n{stdout}");
    }
    for (name, count) in [("allowed", "7"), ("denied", "93"), ("errors", "0")] {
        let told = stdout.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        assert_eq!(told, Some(count), "{stdout}");
    }
}

/// The command fails and says this.
fn check_told(mut command: Command, code: i32, part: &str) {
    let finished = run(&mut command);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(code), ""), "{finished:?}");
    assert!(finished.stderr.contains(part), "no {part:?} in\n{}", finished.stderr);
}

#[test]
fn the_servers_own_words_are_told() {
    let tollgate = tollgate();
    for protocol in ["http", "resp"] {
        let command = command(&tollgate, protocol, &["--policy", "seven-a-dya"]);
        check_told(command, 1, "unknown policy \"seven-a-dya\"; it could be many, seven-a-day");
    }
    let empty = command(&tollgate, "rls", &["--domain", "", "--descriptor", "a=b"]);
    check_told(empty, 1, "gRPC status 2: ");
}

#[test]
fn a_question_that_a_protocol_has_no_words_for_is_told() {
    let tollgate = tollgate();
    check_told(command(&tollgate, "rls", &["--policy", "many"]), 2, "rls takes --domain and --descriptor");
    check_told(command(&tollgate, "http", &["--throttle", "1,1,1"]), 2, "cannot be asked over http");
    check_told(command(&tollgate, "http", &["--zipf", "0"]), 2, "Zipf");
}

#[test]
fn a_batch_that_no_memory_could_hold_is_told() {
    let tollgate = tollgate();
    for batch in ["100001", "4000000000"] {
        let told = command(&tollgate, "resp", &["--policy", "many", "--batch", batch]);
        check_told(told, 2, "a batch has 1 to 100000 requests");
    }
}

#[test]
fn an_address_that_only_tls_would_reach_is_told_so() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(["load", "--address", "https://127.0.0.1:8080"]).env_clear();
    check_told(command, 2, "TLS is not spoken here");
}

#[test]
fn a_server_is_found_by_its_name() {
    let tollgate = tollgate();
    let address = format!("localhost:{}", tollgate.http().port()); // Where this is ::1 first, nobody listens there.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(["load", "--address", &address, "--policy", "many", "--requests", "10"]).env_clear();
    let finished = run(&mut command);
    assert_eq!(finished.code, Some(0), "{finished:?}");
}

#[test]
fn the_wrong_port_is_told() {
    let tollgate = tollgate();
    let words = |address: std::net::SocketAddr| ["--address".to_owned(), address.to_string()];
    let wrong = |protocol: &str, address| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(["load", "--protocol", protocol]).args(words(address)).env_clear();
        command
    };
    check_told(wrong("resp", tollgate.http()), 1, "is it the right port?");
    check_told(wrong("http", tollgate.resp()), 1, "the connection was closed before an answer came");
    check_told(wrong("rls", tollgate.resp()), 1, "HTTP/2: ");
    // A port that was free a moment ago.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    check_told(wrong("http", nobody), 1, "Is it running? `tollgate serve` starts one");
}

#[test]
fn an_interrupt_ends_it_with_the_figures_so_far() {
    let tollgate = tollgate();
    for protocol in ["http", "rls", "resp"] {
        let question = match protocol {
            "rls" => &["--domain", "shop", "--descriptor", "nobody={key}"][..],
            _ => &["--policy", "many"],
        };
        let mut command =
            command(&tollgate, protocol, &[&["--duration", "10m", "--rate", "200"], question].concat());
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let series = format!("ratelimit_requests_total{{protocol=\"{protocol}\",outcome=\"allowed\"}}");
        until("it asks", || (tollgate.metric(&series) > 20).then_some(()));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        // What was due and not yet sent at that moment is told as well; there may be any number of it on a busy machine.
        let [sent, allowed, denied, errors, _, unanswered] = counts(&report);
        assert!(sent > 20 && sent == allowed && [denied, errors, unanswered] == [0; 3], "{report}");
    }
}
