//! The example that people copy: it must do what its comments promise, with the rules of the repository.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tollgate_testkit::real::{Envoy, Launch, until};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text with the second of these instead of the first: ports may be in use, and a busy machine needs time.
fn with(text: &str, changes: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "the example has no `{from}`");
        text = text.replace(from, to);
    }
    text
}

#[test]
fn five_logins_pass_and_the_sixth_does_not() {
    let mut launch = Launch::new(env!("CARGO_BIN_EXE_tollgate"));
    for file in ["shop.yaml", "policies.yaml"] {
        launch = launch.rules(file, &fs::read_to_string(root().join("rules").join(file)).unwrap());
    }
    let tollgate = launch.start();
    let example = fs::read_to_string(root().join("examples/envoy/envoy.yaml")).unwrap();
    // The service's port must be known beforehand, because another part of the example names it.
    let service = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let example = with(
        &example,
        &[
            ("port_value: 10000}", "port_value: 0}"),
            ("port_value: 10001}", &format!("port_value: {}}}", service.port())),
            ("port_value: 8081}", &format!("port_value: {}}}", tollgate.grpc().port())),
            ("timeout: 0.05s", "timeout: 10s"),
        ],
    );
    let envoy = Envoy::start(&example);
    let mut client = envoy.client();
    let replies = [(); 6].map(|()| client.get("/login", &[]));
    assert_eq!(replies.each_ref().map(|reply| reply.status), [200, 200, 200, 200, 200, 429]);
    let retry_after: u64 = replies[5].the("retry-after").parse().unwrap();
    assert!((1..=120).contains(&retry_after), "{retry_after}");
    assert_eq!(client.get("/elsewhere", &[("x-customer", "acme")]).status, 200);
}

#[test]
fn what_a_language_model_has_used_is_charged_after_its_answer() {
    let folder = root().join("examples/llm-tokens");
    let rules = fs::read_to_string(folder.join("rules.yaml")).unwrap();
    // A day may end while the test runs; a month of thirty days that began in 1970 hardly does.
    let rules = with(&rules, &[("calendar: day", "period: 30d, algorithm: fixed_window")]);
    let tollgate = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("llm.yaml", &rules).start();
    let model = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let example = with(
        &fs::read_to_string(folder.join("envoy.yaml")).unwrap(),
        &[
            ("port_value: 10000}", "port_value: 0}"),
            ("port_value: 10001}", &format!("port_value: {}}}", model.port())),
            ("port_value: 8081}", &format!("port_value: {}}}", tollgate.grpc().port())),
            ("timeout: 0.05s", "timeout: 10s"),
        ],
    );
    let envoy = Envoy::start(&example);
    let mut client = envoy.client();
    let used = |tenant: &str| {
        let entries = json!([{"key": "tenant", "value": tenant}]);
        let question = json!({"domain": "llm", "descriptors": [{"entries": entries, "hits_addend": 0}]});
        let reply = tollgate.post("/v1/peek", &question);
        let answer: Value = serde_json::from_str(&reply.body).unwrap();
        answer["limit"].as_u64().unwrap() - answer["remaining"].as_u64().unwrap()
    };
    // The last one goes 200 tokens beyond the limit. It is booked, and only then is the tenant denied.
    for (remaining, after) in [("1000", 400), ("600", 800), ("200", 1000)] {
        let reply = client.get("/v1/chat", &[("x-tenant", "acme")]);
        assert_eq!((reply.status, reply.the("x-ratelimit-remaining")), (200, remaining), "{reply:#?}");
        until("the response is charged", || (used("acme") == after).then_some(()));
    }
    let reply = client.get("/v1/chat", &[("x-tenant", "acme")]);
    assert_eq!(reply.status, 429, "{reply:#?}");
    assert_eq!(client.get("/v1/chat", &[("x-tenant", "others")]).status, 200);
}
