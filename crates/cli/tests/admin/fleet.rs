//! Several servers on one PostgreSQL: what one is told, all do, and they go on without it.

use serde_json::json;
use tollgate_testkit::real::postgres::PostgresServer;
use tollgate_testkit::real::redis::RedisServer;
use tollgate_testkit::real::{Launch, Tollgate, until};

use crate::client::{Api, json_of};
use crate::{launch, of_policy, of_tenant, scenes};

const TOKENS: &str = "admin:alice:0123456789abcdef-alice,admin:bob:0123456789abcdef-bob";
const TOKEN: &str = "0123456789abcdef-alice";

fn on(postgres: &PostgresServer) -> Launch {
    launch().flag("database", &postgres.url()).flag("admin-tokens", TOKENS).flag("admin-rate", "off")
}

fn limit(server: &Tollgate, policy: &str, key: &str) -> u64 {
    let reply = server.post("/v1/peek", &of_policy(policy, key));
    json_of(&reply)["limit"].as_u64().unwrap_or_else(|| panic!("no limit: {}", reply.body))
}

#[test]
fn on_postgres() {
    let postgres = PostgresServer::start();
    scenes(&postgres.url());
}

#[test]
fn what_one_is_told_all_do_with_shared_counters() {
    let (postgres, redis) = (PostgresServer::start(), RedisServer::start());
    let start = || {
        on(&postgres)
            .flag("store", &format!("redis://{}", redis.address()))
            .flag("store-deadline", "1s")
            .start()
    };
    let (one, other) = (start(), start());
    let (first, second) = (Api::with_token(&one, TOKEN), Api::with_token(&other, TOKEN));
    let seven = json!({"descriptor": [], "requests_per_unit": 7, "unit": "hour"});
    first.write("/quotas/acme", &json!({"overrides": [seven]}));
    until("the other knows", || {
        let reply = other.post("/v1/peek", &of_tenant("acme"));
        (json_of(&reply)["limit"] == 7).then_some(())
    });
    // Both spend the same seven.
    let passed = (0..20).filter(|turn| {
        let api = if turn % 2 == 0 { &first } else { &second };
        api.check(&of_tenant("acme")) == 200
    });
    assert_eq!(passed.count(), 7);
    let reset = second.send("POST", "/usage/acme/reset", &[], None);
    assert_eq!(reset.status, 200, "{}", reset.body);
    until("it is forgotten everywhere", || (first.check(&of_tenant("acme")) == 200).then_some(()));
    until("both tell that they are there", || {
        let nodes = first.read("/nodes");
        let rules: Vec<_> = nodes["items"].as_array()?.iter().map(|node| node["rules"].clone()).collect();
        (rules.len() == 2 && rules[0] == rules[1]).then_some(())
    });
}

#[test]
fn the_same_version_wins_everywhere() {
    let postgres = PostgresServer::start();
    let (one, other) = (on(&postgres).start(), on(&postgres).start());
    let (first, second) = (Api::with_token(&one, TOKEN), Api::with_token(&other, TOKEN));
    let body = |units: u64| json!({"overrides": [{"policy": "search", "requests": units, "period": "1h"}]});
    std::thread::scope(|scope| {
        for (server, base) in [(&one, 1_000), (&other, 2_000)] {
            scope.spawn(move || {
                let api = Api::with_token(server, TOKEN);
                for turn in 0..50 {
                    api.write("/quotas/contested", &body(base + turn));
                }
            });
        }
    });
    let record = first.read("/quotas/contested");
    assert_eq!(record, second.read("/quotas/contested"));
    let units = record["overrides"][0]["requests"].as_u64().unwrap();
    for server in [&one, &other] {
        until("both decide by the last", || (limit(server, "search", "contested") == units).then_some(()));
    }
    assert_eq!(first.read("/audit/verify")["rows"], 100);
}

#[test]
fn without_the_database_decisions_go_on_and_nothing_acknowledged_is_lost() {
    let mut postgres = PostgresServer::start();
    let mut server = on(&postgres).start();
    let body = json!({"overrides": [{"policy": "search", "requests": 50, "period": "1h"}]});
    {
        let api = Api::with_token(&server, TOKEN);
        api.write("/quotas/acme", &body);
        until("its own copy has it, too", || {
            (server.metric("ratelimit_config_saved_version") == 1).then_some(())
        });
        postgres.kill();
        let refused = api.put("/quotas/late", &body);
        assert_eq!(refused.status, 503, "{}", refused.body);
        assert!(refused.body.contains("nothing was changed"), "{}", refused.body);
        assert!(refused.header("retry-after").is_some());
        assert_eq!((limit(&server, "search", "acme"), limit(&server, "search", "late")), (50, 3));
        assert_eq!(api.check(&of_policy("search", "acme")), 200);
    }

    // One that starts now begins with its own copy.
    server.restart();
    server.wait_for_log("the database is out of reach");
    assert_eq!((limit(&server, "search", "acme"), limit(&server, "search", "late")), (50, 3));
    let api = Api::with_token(&server, TOKEN);
    assert_eq!(api.get("/quotas/acme").status, 503);

    postgres.restart();
    until("the database is there again", || (api.put("/quotas/late", &body).status < 300).then_some(()));
    assert_eq!(limit(&server, "search", "late"), 50);
    assert_eq!(api.read("/quotas/acme")["version"], 1);
    assert_eq!(api.read("/audit/verify")["ok"], true);
}

#[test]
fn a_changed_row_of_the_audit_is_found() {
    let postgres = PostgresServer::start();
    let server = on(&postgres).start();
    let api = Api::with_token(&server, TOKEN);
    for tenant in ["a", "b", "c"] {
        api.write(&format!("/quotas/{tenant}"), &json!({"tier": "gold"}));
    }
    assert_eq!(api.read("/audit/verify")["ok"], true);
    postgres.sql("UPDATE audit SET who = 'nobody' WHERE version = 2");
    let verified = json_of(&api.get("/audit/verify"));
    assert_eq!(verified["ok"], false, "{verified}");
    assert!(verified.to_string().contains('2'), "{verified}");
}
