//! Tenants and keys that are kept on a node of their own.

use std::process::Output;

use serde_json::{Value, json};
use tollgate_testkit::real::Tollgate;
use tollgate_testkit::real::redis::{RedisClient, RedisServer, Reply};

use crate::launch;

const RULES: &str = "
domain: shop
tenant_key: tenant
descriptors:
- key: tenant
  rate_limit: {unit: hour, requests_per_unit: 5, fail_mode: closed}
  descriptors:
  - {key: path, rate_limit: {unit: hour, requests_per_unit: 5, fail_mode: closed}}
policies:
  calls: {requests: 5, period: 1h, fail_mode: closed}
  jobs: {requests: 1, period: 1h, algorithm: concurrency, fail_mode: closed}
";
const TENANT: &str = "acme";
/// Servers without a secret in common cannot end the permits of each other.
const SECRET: &str = "a secret of the fleet";
const OTHERS: [&str; 20] = [
    "ann", "bob", "carl", "dora", "emil", "fay", "gus", "hal", "ida", "jon", "kim", "lea", "max", "nel",
    "ole", "pam", "quin", "rob", "sue", "tim",
];
/// So many keys a tenant has in Redis after it has asked for everything: see [`ask_for_all`].
const KEYS_EACH: usize = 4;

/// The names of all counters on a node, without the list of the processes.
fn counters(node: &RedisServer) -> Vec<String> {
    let Reply::Array(keys) = node.client().run("KEYS tollgate:*") else { panic!("no list of keys") };
    let mut names: Vec<String> = keys.iter().map(Reply::text).collect();
    names.retain(|name| !name.contains("{nodes}"));
    names.sort_unstable();
    names
}

fn status(server: &Tollgate, path: &str, body: &Value) -> u16 {
    server.post(path, body).status
}

/// Two limits of the domain, one of a policy, and one that the caller brings along, once each.
fn ask_for_all(server: &Tollgate, tenant: &str) {
    let descriptor = |path: &[&str]| {
        let paths = path.iter().map(|path| json!({"key": "path", "value": path}));
        let entries: Vec<Value> =
            std::iter::once(json!({"key": "tenant", "value": tenant})).chain(paths).collect();
        json!({"domain": "shop", "descriptors": [{"entries": entries}]})
    };
    assert_eq!(status(server, "/v1/check", &descriptor(&[])), 200);
    assert_eq!(status(server, "/v1/check", &descriptor(&["/cart"])), 200);
    assert_eq!(status(server, "/v1/check", &json!({"policy": "calls", "key": tenant})), 200);
    let mut client = RedisClient::connect(server.resp()).unwrap();
    let Reply::Array(answer) = client.run(&format!("CL.THROTTLE {tenant} 4 1 3600")) else {
        panic!("no answer");
    };
    assert_eq!(answer[0].integer(), 0);
}

fn ring(nodes: &[RedisServer]) -> String {
    let nodes: Vec<String> = nodes.iter().map(|node| node.address().to_string()).collect();
    format!("redis+ring://{}", nodes.join(","))
}

#[test]
fn a_pinned_tenant_has_its_node_to_itself() {
    let (nodes, own) = ([RedisServer::start(), RedisServer::start()], RedisServer::start());
    // Without pins first, to see that nobody else moves because of them.
    let before = launch(RULES, &ring(&nodes)).start();
    for tenant in OTHERS {
        ask_for_all(&before, tenant);
    }
    let kept = [counters(&nodes[0]), counters(&nodes[1])];
    assert_eq!(kept[0].len() + kept[1].len(), OTHERS.len() * KEYS_EACH);
    assert!(!kept[0].is_empty() && !kept[1].is_empty());
    let pins = format!("nobody={}, {TENANT}={}", nodes[0].address(), own.address());
    let servers = [(); 2].map(|()| launch(RULES, &ring(&nodes)).flag("store-pins", &pins).start());
    for tenant in OTHERS.iter().chain([&TENANT]) {
        ask_for_all(&servers[0], tenant);
    }
    assert_eq!([counters(&nodes[0]), counters(&nodes[1])], kept);
    assert_eq!(counters(&own).len(), KEYS_EACH);
    // Both processes count on that node.
    let calls = json!({"policy": "calls", "key": TENANT});
    let statuses = (0..6).map(|turn| status(&servers[turn % 2], "/v1/check", &calls));
    assert_eq!(statuses.collect::<Vec<_>>(), [200, 200, 200, 200, 429, 429]);
    let series = format!("ratelimit_redis_asks_total{{shard=\"{}\"}}", own.address());
    assert!(servers[0].metric(&series) > 0, "its node is seen like any other");
}

#[test]
fn what_is_held_on_a_pinned_node_is_released_by_any_process() {
    let (node, own) = (RedisServer::start(), RedisServer::start());
    let store = format!("redis://{}", node.address());
    let (pin, other) = (format!("{TENANT}={}", own.address()), format!("other={}", node.address()));
    // They need not list pins in the same order.
    let [one, two] = [format!("{pin},{other}"), format!("{other},{pin}")]
        .map(|pins| launch(RULES, &store).flag("store-pins", &pins).flag("store-secret", SECRET).start());
    let job = json!({"policy": "jobs", "key": TENANT});
    let acquired = one.post("/v1/acquire", &job);
    assert_eq!((acquired.status, counters(&own).len(), counters(&node).len()), (200, 1, 0));
    assert_eq!(status(&two, "/v1/acquire", &job), 429);
    let answer: Value = serde_json::from_str(&acquired.body).unwrap();
    let lease = json!({"lease": answer["lease"]});
    assert_eq!(two.post("/v1/release", &lease).body, r#"{"released":true}"#);
    assert_eq!(one.post("/v1/release", &lease).body, r#"{"released":false}"#);
    assert_eq!(status(&two, "/v1/acquire", &job), 200);
}

#[test]
fn a_lost_pinned_node_affects_nobody_else() {
    let (node, mut own) = (RedisServer::start(), RedisServer::start());
    let pins = format!("{TENANT}={}", own.address());
    let store = format!("redis://{}", node.address());
    let server = launch(RULES, &store).flag("store-pins", &pins).start();
    own.kill();
    let of = |key: &str| status(&server, "/v1/check", &json!({"policy": "calls", "key": key}));
    assert_eq!((of(TENANT), of("other")), (503, 200));
    assert!(counters(&node).len() == 1, "nothing of the tenant is counted elsewhere");
}

#[test]
fn pins_need_nodes_to_choose_from() {
    let check = |store: &str| {
        let command = launch(RULES, store).flag("store-pins", "acme=127.0.0.1:1").command().output();
        let Output { status, stderr, .. } = command.unwrap();
        assert_eq!(status.code(), Some(1), "{store}");
        let said = String::from_utf8_lossy(&stderr).into_owned();
        assert!(said.contains("`store_pins` needs nodes that know nothing of each other"), "{store}: {said}");
    };
    check("memory");
    check("redis://127.0.0.1:1/3");
    check("redis+cluster://127.0.0.1:1");
    check("redis+sentinel://127.0.0.1:1/master");
}
