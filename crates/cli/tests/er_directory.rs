//! A directory written for envoyproxy/ratelimit, taken over as it is: its files, its environment variables, its arithmetic.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tollgate::Clock;
use tollgate_testkit::real::{Client, Launch, Signal, python, run};

/// One domain per file. Together they use all sixteen keys that there are.
const FILES: [(&str, &str); 2] = [
    (
        "shop.yaml",
        r#"
# Limits of the shop.
domain: shop
descriptors:
  - key: path
    value: /pay
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: path
    value: /pay/*
    rate_limit: {unit: hour, requests_per_unit: 2}
  - key: path
    value: "/img/*"
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 3}
  - key: path
    value: /free
  - key: path
    detailed_metric: true
    rate_limit: {unit: hour, requests_per_unit: 4}
  - key: tenant
    value_to_metric: true
    descriptors:
      - key: user
        descriptors:
          - key: action
            value: delete
            metadata: {audit: {level: high}}
            rate_limit: {name: deletes, unit: day, requests_per_unit: 5}
  - key: staff
    rate_limit: {unlimited: true}
  - key: country
    shadow_mode: true
    rate_limit: {unit: week, requests_per_unit: 1}
"#,
    ),
    (
        "partners.yaml",
        "
domain: partners
descriptors:
  - key: partner
    rate_limit: {name: everybody, unit: month, requests_per_unit: 0}
  - key: partner
    value: acme
    rate_limit: {name: acme, unit: year, requests_per_unit: 10, replaces: [{name: everybody}]}
  - key: model
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 0}
  - key: fallback
    quota_mode: true
    rate_limit: {unit: second, requests_per_unit: 1000000}
",
    ),
];

fn launch() -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_tollgate")).flag("rls-dynamic-metadata", "true");
    FILES.iter().fold(launch, |launch, (name, text)| launch.rules(name, text))
}

/// `path=/pay user=1`: one descriptor.
fn descriptor(words: &str) -> Value {
    let entry = |word: &str| {
        let (key, value) = word.split_once('=').unwrap();
        json!({"key": key, "value": value})
    };
    json!({"entries": words.split(' ').map(entry).collect::<Vec<_>>()})
}

/// A status in a line: its code, its limit and what remains of it, and whether it says when to come back.
fn line(status: &Value) -> String {
    let (code, remaining) =
        (status["code"].as_str().unwrap(), status["limitRemaining"].as_u64().unwrap_or(0));
    let limit = match &status["currentLimit"] {
        Value::Null => "no limit".to_owned(),
        limit => {
            let units = limit["requestsPerUnit"].as_u64().unwrap_or(0);
            format!("{units} a {}", limit["unit"].as_str().unwrap())
        }
    };
    let reset = if status["durationUntilReset"].is_null() { "" } else { ", reset" };
    format!("{code}, {limit}, {remaining} left{reset}")
}

/// Asks one after the other over gRPC.
fn ask_grpc(requests: &[Value]) -> Vec<Value> {
    let tollgate = launch().start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/grpc_client.py");
    let [port, pid] = [tollgate.grpc().port().to_string(), tollgate.pid().to_string()];
    let finished = python(&script, &[port, pid, "ask".to_owned(), json!(requests).to_string()]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asks one after the other over `/json`, whose status must say what its body says.
fn ask_json(requests: &[Value]) -> Vec<Value> {
    let tollgate = launch().start();
    let answer = |request| {
        let reply = tollgate.post("/json", request);
        let answer: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(reply.status == 429, answer["overallCode"] == "OVER_LIMIT", "{reply:?}");
        answer
    };
    requests.iter().map(answer).collect()
}

/// Asks both ways, and compares the overall code and every status.
fn check(domain: &str, steps: &[(&[&str], &str, &[&str])]) {
    let request = |(descriptors, ..): &(&[&str], &str, &[&str])| {
        let descriptors: Vec<Value> = descriptors.iter().map(|words| descriptor(words)).collect();
        json!({"domain": domain, "descriptors": descriptors})
    };
    let requests: Vec<Value> = steps.iter().map(request).collect();
    for (way, answers) in [("gRPC", ask_grpc(&requests)), ("/json", ask_json(&requests))] {
        assert_eq!(answers.len(), steps.len());
        for (answer, (descriptors, code, lines)) in answers.iter().zip(steps) {
            let statuses: Vec<String> = answer["statuses"].as_array().unwrap().iter().map(line).collect();
            let got = (answer["overallCode"].as_str().unwrap(), &statuses[..]);
            assert!(
                got.0 == *code && got.1 == *lines,
                "{way}, {descriptors:?}: {got:#?}, not {code} with {lines:#?}"
            );
        }
    }
}

const FREE: &str = "OK, no limit, 0 left";

#[test]
fn values_match_as_they_do_there() {
    check(
        "shop",
        &[
            (&["path=/pay"], "OK", &["OK, 1 a HOUR, 0 left, reset"]),
            (&["path=/pay"], "OVER_LIMIT", &["OVER_LIMIT, 1 a HOUR, 0 left, reset"]),
            // A pattern without a shared threshold counts every value by itself.
            (&["path=/pay/1"], "OK", &["OK, 2 a HOUR, 1 left, reset"]),
            (&["path=/pay/2"], "OK", &["OK, 2 a HOUR, 1 left, reset"]),
            // With one, all together.
            (&["path=/img/1"], "OK", &["OK, 3 a HOUR, 2 left, reset"]),
            (&["path=/img/2"], "OK", &["OK, 3 a HOUR, 1 left, reset"]),
            // What is listed without a limit has none, even if the bare key has one.
            (&["path=/free"], "OK", &[FREE]),
            (&["path=/other"], "OK", &["OK, 4 a HOUR, 3 left, reset"]),
            // Depth and order count.
            (&["path=/pay user=1"], "OK", &[FREE]),
            (&["tenant=t"], "OK", &[FREE]),
            (&["tenant=t user=u action=delete"], "OK", &["OK, 5 a DAY, 4 left, reset"]),
            (&["user=u tenant=t action=delete"], "OK", &[FREE]),
        ],
    );
}

#[test]
fn switches_mean_what_they_mean_there() {
    check(
        "shop",
        &[
            (&["staff=ann"], "OK", &["OK, no limit, 4294967295 left"]),
            (&["country=at"], "OK", &["OK, 1 a WEEK, 0 left, reset"]),
            (&["country=at"], "OK", &["OK, 1 a WEEK, 0 left, reset"]),
        ],
    );
    check(
        "partners",
        &[
            (&["partner=other"], "OVER_LIMIT", &["OVER_LIMIT, 0 a MONTH, 0 left, reset"]),
            (&["partner=acme"], "OK", &["OK, 10 a YEAR, 9 left, reset"]),
            (&["partner=other", "partner=acme"], "OK", &[FREE, "OK, 10 a YEAR, 8 left, reset"]),
            (
                &["model=big", "fallback=small"],
                "OK",
                &["OVER_LIMIT, 0 a MINUTE, 0 left, reset", "OK, 1000000 a SECOND, 999999 left, reset"],
            ),
            (&["model=big"], "OVER_LIMIT", &["OVER_LIMIT, 0 a MINUTE, 0 left, reset"]),
        ],
    );
    check("nobody", &[(&["path=/pay"], "OK", &[FREE])]);
}

#[test]
fn metadata_of_rules_comes_back() {
    let request = json!({"domain": "shop", "descriptors": [descriptor("tenant=t user=u action=delete")]});
    for answer in [ask_grpc(std::slice::from_ref(&request)), ask_json(&[request])].concat() {
        assert_eq!(answer["dynamicMetadata"]["metadata"], json!({"audit": {"level": "high"}}), "{answer}");
        assert_eq!(answer["statuses"][0]["currentLimit"]["name"], "deletes");
    }
}

#[test]
fn bad_requests_are_refused_as_they_are_there() {
    let tollgate = launch().start();
    for (request, text) in [
        (json!({"domain": "", "descriptors": [descriptor("a=b")]}), "rate limit domain must not be empty"),
        (json!({"domain": "shop", "descriptors": []}), "rate limit descriptor list must not be empty"),
    ] {
        let reply = tollgate.post("/json", &request);
        assert_eq!((reply.status, reply.body.trim()), (400, text));
    }
    assert_eq!(tollgate.post("/json", &json!("junk")).status, 400);
}

const HALF_SECOND_NS: u64 = 500_000_000;
/// So close to a boundary nobody can tell on which side of it another process was.
const BLURRED_NS: u64 = 20_000_000;

/// What became of requests in half a second.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    sent: u64,
    passed_at_least: u64,
    passed_at_most: u64,
}

/// Sends without pause for four seconds, with a limit of five a second, and says what became of it in every half of a second.
fn halves_of_seconds(algorithm: &str) -> [[Half; 2]; 4] {
    const LIMIT: &str =
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 5}}]";
    let launch = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("d.yaml", LIMIT);
    let tollgate = launch.flag("default-algorithm", algorithm).start();
    let request = json!({"domain": "d", "descriptors": [descriptor("k=v")]}).to_string();
    let (clock, mut client) = (Clock::new(), Client::connect(tollgate.http()).unwrap());
    let half = |ns: u64| ns / HALF_SECOND_NS;
    let first = (half(clock.now().ticks()) / 2 + 1) * 2;
    let mut halves = [[Half::default(); 2]; 4];
    loop {
        let from = half(clock.now().ticks() - BLURRED_NS);
        let passed = client.post("/json", &request).status == 200;
        let to = half(clock.now().ticks() + BLURRED_NS);
        if from >= first + 8 {
            return halves;
        }
        for at in from..=to {
            let index = at.checked_sub(first).and_then(|index| usize::try_from(index).ok());
            let Some(half) = index.and_then(|index| halves.as_flattened_mut().get_mut(index)) else {
                continue;
            };
            half.sent += u64::from(from == to);
            half.passed_at_least += u64::from(passed && from == to);
            half.passed_at_most += u64::from(passed);
        }
    }
}

#[test]
fn fixed_windows_begin_anew_with_every_unit() {
    let seconds = halves_of_seconds("fixed_window");
    for [first, second] in seconds {
        // A machine with much else to do may not have sent enough to tell.
        if first.sent >= 20 {
            assert!(first.passed_at_least <= 5 && first.passed_at_most >= 5, "all at once: {seconds:#?}");
            assert_eq!(second.passed_at_least, 0, "and none later: {seconds:#?}");
        }
    }
    assert!(seconds.iter().any(|[first, _]| first.sent >= 20), "{seconds:#?}");
}

#[test]
fn sliding_windows_do_not() {
    // Half-way through a second, half of the one before still counts.
    let seconds = halves_of_seconds("sliding_window");
    assert!(seconds[1..].iter().all(|[first, _]| first.passed_at_least < 5), "{seconds:#?}");
    assert!(seconds.iter().any(|[_, second]| second.passed_at_most > 0), "{seconds:#?}");
}

/// A server that knows its rules and ports from the variables of envoyproxy/ratelimit alone.
fn launch_by_variables(subdirectory: Option<&str>) -> Launch {
    let launch = ["http", "grpc", "rules"]
        .into_iter()
        .fold(Launch::new(env!("CARGO_BIN_EXE_tollgate")), Launch::without);
    let root = launch.folder().join("runtime");
    let config = root.join(subdirectory.unwrap_or_default()).join("config");
    fs::create_dir_all(&config).unwrap();
    for (name, text) in FILES {
        fs::write(config.join(name), text).unwrap();
    }
    let root = root.display().to_string();
    let launch = launch.variable("RUNTIME_ROOT", &root).variable("PORT", "0").variable("GRPC_PORT", "0");
    let launch = launch.variable("TOLLGATE_INSECURE_LISTEN", "true");
    match subdirectory {
        Some(subdirectory) => launch.variable("RUNTIME_SUBDIRECTORY", subdirectory),
        None => launch,
    }
}

fn blocked() -> Value {
    json!({"domain": "partners", "descriptors": [descriptor("partner=other")]})
}

#[test]
fn its_variables_say_where_things_are() {
    for subdirectory in [None, Some("ratelimit")] {
        let tollgate = launch_by_variables(subdirectory).start();
        assert_eq!(tollgate.post("/json", &blocked()).status, 429);
        let greeting = tollgate.greeting();
        for listener in ["http   0.0.0.0:", "grpc   0.0.0.0:", "resp   127.0.0.1:"] {
            assert!(greeting.contains(listener), "no {listener:?} in {greeting}");
        }
    }
}

#[test]
fn its_ports_are_not_opened_to_other_machines_without_protection() {
    let launch = launch_by_variables(None).variable("TOLLGATE_INSECURE_LISTEN", "false");
    let finished = run(&mut launch.command());
    assert_eq!(finished.code, Some(1));
    let advice = "TOLLGATE_INSECURE_LISTEN=true";
    assert!(finished.stderr.starts_with("refusing to serve http at 0.0.0.0:0: "), "{}", finished.stderr);
    assert!(finished.stderr.contains(advice), "{}", finished.stderr);
    // `GRPC_PORT` alone opens a port as well.
    let launch = launch.flag("http", "127.0.0.1:0");
    let stderr = run(&mut launch.command()).stderr;
    assert!(stderr.starts_with("refusing to serve grpc at 0.0.0.0:0: "), "{stderr}");
}

#[test]
fn its_variables_change_answers() {
    let ask = |variable: Option<&str>, request: &Value| {
        let launch = launch_by_variables(None);
        let tollgate =
            variable.map_or(launch_by_variables(None), |name| launch.variable(name, "true")).start();
        let answer: Value = serde_json::from_str(&tollgate.post("/json", request).body).unwrap();
        let headers = answer["responseHeadersToAdd"].as_array().unwrap();
        let has_older = headers.iter().any(|header| header["key"] == "ratelimit-limit");
        let code = answer["overallCode"].as_str().unwrap().to_owned();
        (
            code,
            answer["statuses"][0]["code"].as_str().unwrap().to_owned(),
            has_older,
            !answer["dynamicMetadata"].is_null(),
        )
    };
    let over = |overall: &str, has_older, has_metadata| {
        (overall.to_owned(), "OVER_LIMIT".to_owned(), has_older, has_metadata)
    };
    assert_eq!(ask(None, &blocked()), over("OVER_LIMIT", false, false));
    assert_eq!(ask(Some("SHADOW_MODE"), &blocked()), over("OK", false, false));
    assert_eq!(ask(Some("LIMIT_RESPONSE_HEADERS_ENABLED"), &blocked()), over("OVER_LIMIT", true, false));
    assert_eq!(ask(Some("RESPONSE_DYNAMIC_METADATA"), &blocked()), over("OVER_LIMIT", false, true));
}

#[test]
fn its_variables_change_what_is_told_to_operators() {
    for (ratio, near) in [("0.8", 0), ("0.5", 1)] {
        let tollgate = launch_by_variables(None).variable("NEAR_LIMIT_RATIO", ratio).start();
        let request = json!({"domain": "shop", "descriptors": [descriptor("path=/other")], "hitsAddend": 3});
        assert_eq!(tollgate.post("/json", &request).status, 200);
        assert_eq!(
            tollgate.metric(r#"ratelimit_near_limit_total{domain="shop",rule="path"}"#),
            near,
            "{ratio}"
        );
    }
    for (level, is_told) in [("INFO", true), ("ERROR", false)] {
        let mut tollgate = launch_by_variables(None).variable("LOG_LEVEL", level).start();
        tollgate.signal(Signal::TERM);
        assert_eq!(tollgate.wait(), Some(0));
        assert_eq!(tollgate.logs().contains("stopping"), is_told, "{level}: {}", tollgate.logs());
    }
}
