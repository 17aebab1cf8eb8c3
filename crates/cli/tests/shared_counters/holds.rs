//! Leases on what is held in Redis: who can make them, and what is said while Redis does not answer.

use serde_json::{Value, json};
use tollgate_testkit::real::redis::{RedisClient, RedisServer, Reply};
use tollgate_testkit::real::{Launch, Tollgate, until};

use crate::launch;

const RULES: &str = "policies: {jobs: {requests: 1, period: 1h, algorithm: concurrency, fail_mode: closed}}";
/// What is said of a server without a secret.
const WARNING: &str = "`store_secret` is not set";

fn acquire(server: &Tollgate, key: &str) -> Option<String> {
    let reply = server.post("/v1/acquire", &json!({"policy": "jobs", "key": key}));
    serde_json::from_str::<Value>(&reply.body).unwrap()["lease"].as_str().map(str::to_owned)
}

fn release(server: &Tollgate, lease: &str) -> Value {
    serde_json::from_str(&server.post("/v1/release", &json!({"lease": lease})).body).unwrap()
}

#[test]
fn a_lease_is_obeyed_by_those_who_know_the_secret() {
    let redis = RedisServer::start();
    let store = format!("redis://{}", redis.address());
    let [one, other, stranger] = ["secret", "secret", "guess"]
        .map(|secret| launch(RULES, &store).flag("store-secret", secret).start());
    let lease = acquire(&one, "k").unwrap();
    check_refused(&stranger, &lease);
    let last = if lease.ends_with('0') { "1" } else { "0" };
    let changed = format!("{}{last}", &lease[..lease.len() - 1]);
    check_refused(&other, &changed);
    let mut client = RedisClient::connect(other.resp()).unwrap();
    let Reply::Error(error) = client.run(&format!("TG.RELEASE {changed}")) else { panic!("not an error") };
    assert!(error.starts_with("ERR this lease was not given by this server"), "{error}");
    assert_eq!(acquire(&one, "k"), None, "it is still held");
    assert_eq!(client.run(&format!("TG.RELEASE {lease}")), Reply::Integer(1));
    assert!(acquire(&one, "k").is_some());
    assert!(!one.logs().contains(WARNING), "{}", one.logs());
}

fn check_refused(server: &Tollgate, lease: &str) {
    let reply = server.post("/v1/release", &json!({"lease": lease}));
    let body: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!((reply.status, &body["error"]["code"]), (404, &json!("unknown_lease")), "{body}");
}

#[test]
fn servers_with_a_common_database_release_each_others_permits_also_after_a_restart() {
    let redis = RedisServer::start();
    let store = format!("redis://{}", redis.address());
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", folder.path().join("fleet.db").display());
    let [mut one, other] = [(); 2].map(|()| launch(RULES, &store).flag("database", &database).start());
    let stranger = launch(RULES, &store).start();
    let permit = acquire(&one, "k").unwrap();
    check_refused(&stranger, &permit);
    assert_eq!(acquire(&one, "k"), None, "it is still held");
    assert_eq!(release(&other, &permit), json!({"released": true}));
    let permit = acquire(&one, "k").unwrap();
    one.restart();
    assert_eq!(release(&one, &permit), json!({"released": true}));
}

#[test]
fn without_a_database_a_permit_is_void_after_a_restart() {
    let rules = "policies: {jobs: {requests: 1, period: 1h, algorithm: concurrency}}";
    let mut server = Launch::new(env!("CARGO_BIN_EXE_tollgate"))
        .rules("rules.yaml", rules)
        .flag("database", "off")
        .start();
    let permit = acquire(&server, "k").unwrap();
    server.restart();
    let next = acquire(&server, "k").unwrap();
    let reply = server.post("/v1/release", &json!({"lease": permit}));
    let body: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!((reply.status, &body["error"]["code"]), (404, &json!("unknown_lease")), "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("before a restart"), "{body}");
    assert_eq!(acquire(&server, "k"), None, "the next one is held");
    assert_eq!(release(&server, &next), json!({"released": true}));
}

#[test]
fn a_fleet_without_a_secret_is_warned() {
    let redis = RedisServer::start();
    let server = launch(RULES, &format!("redis://{}", redis.address())).start();
    server.wait_for_log(WARNING);
    assert_eq!(server.logs().matches(WARNING).count(), 1, "{}", server.logs());
}

#[test]
fn a_release_that_nobody_has_confirmed_can_be_repeated() {
    let redis = RedisServer::start();
    let store = format!("redis://{}", redis.address());
    let server = launch(RULES, &store).flag("store-deadline", "250ms").start();
    let lease = acquire(&server, "k").unwrap();
    redis.freeze();
    let reply = server.post("/v1/release", &json!({"lease": lease}));
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    assert_eq!(reply.header("x-tollgate-reason"), Some("not_released: no answer in time"));
    let body: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(body["error"]["code"], "unavailable");
    let mut client = RedisClient::connect(server.resp()).unwrap();
    let Reply::Error(error) = client.run(&format!("TG.RELEASE {lease}")) else { panic!("not an error") };
    assert!(error.starts_with("ERR the shared count is out of reach"), "{error}");
    redis.thaw();
    // Whether the first one has ended it is Redis's business; that it has ended is ours.
    until("the release is confirmed", || {
        matches!(client.run(&format!("TG.RELEASE {lease}")), Reply::Integer(_)).then_some(())
    });
    assert_eq!(release(&server, &lease), json!({"released": false}));
    assert!(acquire(&server, "k").is_some());
}
