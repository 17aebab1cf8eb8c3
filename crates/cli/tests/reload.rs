//! Rules that change while the server runs, in all the ways in which files change.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::real::{Launch, Signal, Tollgate, holds_within};

const RELOADED: &str = "ratelimit_config_reloads_total{result=\"success\"}";
const REFUSED: &str = "ratelimit_config_reloads_total{result=\"failure\"}";
const IN_FORCE: &str = "ratelimit_config_last_load_success";

fn launch() -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_tollgate"))
}

fn policy(limit: u64) -> String {
    format!("policies:\n  p: {{requests: {limit}, period: 1h}}\n")
}

fn ask(tollgate: &Tollgate, path: &str) -> Value {
    let reply = tollgate.post(path, &json!({"policy": "p", "key": "ann"}));
    serde_json::from_str(&reply.body).unwrap()
}

/// The policy has this limit within a second.
fn check_limit(tollgate: &Tollgate, limit: u64) {
    let is_so = || ask(tollgate, "/v1/peek")["limit"] == limit;
    assert!(holds_within(Duration::from_secs(1), is_so), "not {limit}: {}", ask(tollgate, "/v1/peek"));
}

#[test]
fn a_changed_file_is_taken_over_and_counts_are_kept() {
    let tollgate = launch().rules("p.yaml", &policy(10)).start();
    assert_eq!([(); 3].map(|()| ask(&tollgate, "/v1/check")["remaining"].clone()), [9, 8, 7]);
    tollgate.write_rules("p.yaml", &policy(20));
    check_limit(&tollgate, 20);
    assert_eq!(ask(&tollgate, "/v1/peek")["remaining"], 17);
    tollgate.write_rules("p.yaml", &policy(2));
    check_limit(&tollgate, 2);
    assert_eq!(ask(&tollgate, "/v1/check")["allowed"], false);
    tollgate.wait_for_log("rules reloaded");
}

#[test]
fn files_come_and_go() {
    let tollgate = launch().rules("p.yaml", &policy(10)).start();
    let other =
        |tollgate: &Tollgate| tollgate.post("/v1/peek", &json!({"policy": "other", "key": "ann"})).status;
    assert_eq!(other(&tollgate), 404);
    tollgate.write_rules("other.yaml", "policies:\n  other: {requests: 1, period: 1h}\n");
    assert!(holds_within(Duration::from_secs(1), || other(&tollgate) == 200));
    fs::remove_file(tollgate.rules().join("other.yaml")).unwrap();
    assert!(holds_within(Duration::from_secs(1), || other(&tollgate) == 404));
    check_limit(&tollgate, 10);
}

#[test]
fn a_broken_file_leaves_the_last_good_rules_in_force() {
    let tollgate = launch().rules("p.yaml", &policy(10)).start();
    assert_eq!([RELOADED, REFUSED, IN_FORCE].map(|series| tollgate.metric(series)), [1, 0, 1]);
    tollgate.write_rules("p.yaml", "policies:\n  p: {reqeusts: 20, period: 1h}\n");
    tollgate.wait_for_log("rules not reloaded, the last good ones stay in force");
    let logs = tollgate.logs();
    assert!(
        logs.contains("p.yaml:2:7: unknown key `reqeusts`") && logs.contains("did you mean `requests`?"),
        "{logs}"
    );
    assert_eq!([RELOADED, REFUSED, IN_FORCE].map(|series| tollgate.metric(series)), [1, 1, 0]);
    check_limit(&tollgate, 10);
    tollgate.write_rules("p.yaml", &policy(20));
    check_limit(&tollgate, 20);
    assert_eq!(
        [RELOADED, REFUSED, IN_FORCE].map(|series| tollgate.metric(series)),
        [2, 1, 1],
        "said once, not for ever"
    );
}

#[test]
fn a_hangup_reads_them_again() {
    let tollgate = launch().rules("p.yaml", &policy(10)).start();
    let taken = ask(&tollgate, "/v1/check");
    assert_eq!(taken["remaining"], 9);
    tollgate.signal(Signal::HUP);
    tollgate.wait_for_log("rules reloaded");
    assert_eq!(tollgate.metric(RELOADED), 2);
    assert_eq!(ask(&tollgate, "/v1/check")["remaining"], 8);
}

/// Puts a new version of a mounted `ConfigMap` in the place of the one before, as Kubernetes does: a directory of its own, and
/// a link to it that is swapped at once.
fn swap(volume: &Path, version: &str, text: &str) {
    let before = fs::read_link(volume.join("..data"));
    fs::create_dir(volume.join(version)).unwrap();
    fs::write(volume.join(version).join("p.yaml"), text).unwrap();
    symlink(version, volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    match before {
        Ok(before) => fs::remove_dir_all(volume.join(before)).unwrap(),
        Err(_) => symlink("..data/p.yaml", volume.join("p.yaml")).unwrap(),
    }
}

#[test]
fn a_configmap_is_swapped() {
    let launch = launch();
    let volume = launch.folder().join("rules");
    swap(&volume, "..2026_01_01_00_00_00.1", &policy(10));
    let tollgate = launch.start();
    assert_eq!(ask(&tollgate, "/v1/check")["remaining"], 9);
    for (version, limit) in [("..2026_01_01_00_00_01.2", 20), ("..2026_01_01_00_00_02.3", 30)] {
        swap(&volume, version, &policy(limit));
        check_limit(&tollgate, limit);
    }
    assert_eq!(ask(&tollgate, "/v1/peek")["remaining"], 29);
    assert_eq!(tollgate.metric(REFUSED), 0, "never was half of it seen: {}", tollgate.logs());
}
