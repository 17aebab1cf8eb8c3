//! The example that people copy: it must do what its comments promise, with the rules of the repository.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use tollgate_testkit::real::{Envoy, Launch};

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
