//! What is wrong with certificates and tokens is told before the server starts.

use std::fs;

use tollgate_testkit::real::{Launch, run};

use super::authority::Authority;
use super::{launch, with_tls};

#[track_caller]
fn check(launch: &Launch, code: i32, told: &str) {
    let finished = run(&mut launch.command());
    assert_eq!((finished.code, finished.stderr.trim()), (Some(code), told));
}

#[test]
fn certificates() {
    let ours = Authority::new("ours");
    check(&with_tls(&ours).without("tls-key"), 1, "`tls_certificate` needs `tls_key` too");
    check(
        &with_tls(&ours).flag("grpc-tls", "mutual"),
        1,
        "`grpc_tls` is `mutual`, which needs `tls_client_ca`",
    );
    check(&launch().flag("http-tls", "on"), 1, "`http_tls` is `on`, which needs `tls_certificate`");
    check(&launch().flag("http-tls", "yes"), 2, "--http-tls: \"yes\" is not off, on or mutual");
    let launch = with_tls(&ours);
    ours.vouch_for("other").write(launch.folder(), "other");
    check(
        &launch.flag("tls-key", "other.key"),
        1,
        "`tls_key` other.key: this key does not belong to the certificate of `tls_certificate` server.pem",
    );
}

#[test]
fn tokens_are_not_shown() {
    let short = "a token has at least 16 characters; `openssl rand -hex 32` makes a good one";
    check(&launch().flag("http-tokens", "hunter2"), 2, &format!("--http-tokens: {short}"));
    check(
        &launch().variable("TOLLGATE_RESP_TOKENS", "hunter2"),
        2,
        &format!("TOLLGATE_RESP_TOKENS: {short}"),
    );
    let launch = launch();
    fs::write(launch.folder().join("tollgate.yaml"), "grpc_tokens: hunter2\n").unwrap();
    let told = format!(
        "tollgate.yaml:1:14: `grpc_tokens`: {short}\n   = Tokens that gRPC clients must show [default: none]"
    );
    check(&launch, 1, &told);
    check(
        &launch.flag("config", "/dev/null").flag("resp-tokens", "@nosuch"),
        1,
        "`resp_tokens` nosuch: cannot be read: No such file or directory (os error 2)",
    );
}

#[test]
fn paths_of_a_settings_file_are_meant_from_where_it_stands() {
    let ours = Authority::new("ours");
    let launch = with_tls(&ours).without("tls-certificate").without("tls-key");
    let folder = launch.folder().join("etc");
    fs::create_dir(&folder).unwrap();
    ours.vouch_for("localhost").write(&folder, "pair");
    let settings = "tls_certificate: pair.pem\ntls_key: pair.key\nresp_tokens: \"@tokens\"\n";
    fs::write(folder.join("settings.yaml"), settings).unwrap();
    fs::write(folder.join("tokens"), "0123456789abcdef\n").unwrap();
    let tollgate = launch.flag("config", "etc/settings.yaml").start();
    assert!(tollgate.greeting().contains("TG.CHECK (TLS, token)\n"), "{}", tollgate.greeting());
}
