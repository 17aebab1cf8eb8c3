//! Keys that take most of the decisions: leased while they do, and exact again when traffic moves on.

use serde_json::Value;
use tollgate_testkit::real::redis::{RedisClient, RedisServer, Reply};
use tollgate_testkit::real::{Tollgate, until};

use crate::launch;

/// Nobody comes near the limits.
const RULES: &str = "
policies:
  hot: {requests: 1000000, period: 1m, burst: 1000000, lease_when_hot: true}
  exact: {requests: 1000000, period: 1m, burst: 1000000}
";
/// So many are under way at once on a connection.
const TOGETHER: usize = 20;
const BY_LEASE: &str = "ratelimit_shared_decisions_total{decided_by=\"lease\"}";
const BY_REDIS: &str = "ratelimit_shared_decisions_total{decided_by=\"authority\"}";

/// Asks about these keys once, together.
fn ask(client: &mut RedisClient, policy: &str, keys: &[String]) {
    for key in keys {
        client.send(&[b"TG.CHECK", policy.as_bytes(), key.as_bytes()]).unwrap();
    }
    for _ in keys {
        let Reply::Array(answer) = client.receive().unwrap() else { panic!("no answer") };
        assert_eq!(answer[0].integer(), 1, "nobody is near the limit");
    }
}

/// Asks about one key as often as about many others together.
fn ask_half(client: &mut RedisClient, policy: &str, key: &str, round: usize) {
    let others = (0..TOGETHER / 2).map(|number| format!("other {}", (round * TOGETHER + number) % 1_000));
    let keys: Vec<String> = others.flat_map(|other| [key.to_owned(), other]).collect();
    ask(client, policy, &keys);
}

/// What the admin listener shows of a key.
fn shown(server: &Tollgate, key: &str) -> Value {
    let told: Value = serde_json::from_str(&server.ask_admin("GET", "/admin/v1/hotkeys", None).body).unwrap();
    let keys = told["keys"].as_array().unwrap();
    keys.iter().find(|shown| shown["key"] == key).cloned().unwrap_or_default()
}

#[test]
fn a_hot_key_is_leased_while_it_is_hot() {
    let redis = RedisServer::start();
    let store = format!("redis://{}", redis.address());
    let server = launch(RULES, &store).flag("store-nodes", "1").start();
    let mut client = RedisClient::connect(server.resp()).unwrap();
    let mut round = 0;
    let mut ask_until = |policy: &str, key: &str, what: &str, is_so: &dyn Fn() -> bool| {
        until(what, || {
            for _ in 0..50 {
                round += 1;
                ask_half(&mut client, policy, key, round);
            }
            is_so().then_some(())
        });
    };

    ask_until("exact", "token 1", "a key to be hot whose rule allows no lease", &|| {
        shown(&server, "token 1")["hot"] == true
    });
    let exact = shown(&server, "token 1");
    assert_eq!((&exact["rule"], &exact["leased"]), (&"exact".into(), &false.into()), "{exact}");
    assert_eq!(server.metric(BY_LEASE), 0, "and so none is made");

    ask_until("hot", "token 2", "a hot key to be leased", &|| server.metric(BY_LEASE) > 1_000);
    let hot = shown(&server, "token 2");
    assert_eq!((&hot["hot"], &hot["leased"]), (&true.into(), &true.into()), "{hot}");
    assert!(hot["share"].as_f64().unwrap() > 0.05, "{hot}");
    assert_eq!(server.metric("ratelimit_hot_keys_leased"), 1);
    server.wait_for_log("a key has become hot");
    assert!(!server.logs().contains("token"), "keys are not logged: {}", server.logs());

    ask_until("exact", "token 3", "a key to cool down", &|| shown(&server, "token 2")["hot"] != true);
    assert_eq!(server.metric("ratelimit_hot_keys_leased"), 0);
    let before = [BY_LEASE, BY_REDIS].map(|series| server.metric(series));
    ask(&mut client, "hot", &vec!["token 2".to_owned(); TOGETHER]);
    let after = [BY_LEASE, BY_REDIS].map(|series| server.metric(series));
    assert_eq!(
        [after[0] - before[0], after[1] - before[1]],
        [0, TOGETHER as u64],
        "all of them are exact again"
    );
    server.wait_for_log("a key is not hot any more");
}
