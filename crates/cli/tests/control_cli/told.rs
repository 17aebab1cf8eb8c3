//! What people read.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::canned::{ask, check, missing, ok, tagged};

fn quota() -> Value {
    json!({
        "api_key": "acme", "tier": "enterprise",
        "overrides": [
            {"descriptor": "endpoint:POST /v1/orders", "requests_per_unit": 500, "unit": "minute"},
            {"policy": "api", "limit": "per-second", "requests": 10, "period": "1s", "burst": 20},
        ],
        "effective_at": null, "expires_at": null, "version": 12, "changed_at": "2026-11-17T07:00:00.250Z", "changed_by": "ann",
        "in_force": {"tier": null, "overrides": []}, "scheduled": null,
    })
}

#[test]
fn quotas() {
    let mut other = quota();
    other["api_key"] = json!("東京");
    other["tier"] = json!(null);
    other["overrides"] = json!([]);
    other["expires_at"] = json!("2090-01-01T00:00:00Z");
    other["version"] = json!(4711);
    let (told, _) = check(&["quota", "list"], vec![ok(&json!({"items": [quota(), other], "next": null}))]);
    assert_snapshot!(told, @"
    TENANT  TIER        OVERRIDES                                           EFFECTIVE  EXPIRES               VERSION  CHANGED BY
    acme    enterprise  endpoint:POST /v1/orders = 500/minute (and 1 more)  -          never                      12  ann
    東京    -           -                                                   -          2090-01-01T00:00:00Z     4711  ann
    ");
    let (told, _) = check(&["quota", "get", "acme"], vec![tagged(12, &quota())]);
    assert_snapshot!(told, @"
    tenant        acme
    tier          enterprise
    overrides     endpoint:POST /v1/orders = 500/minute
                  policy api [per-second] = 10/1s, burst 20
    effective     at once
    expires       never
    in force now  tier none, no overrides
    version       12, 2026-11-17T07:00:00Z by ann
    ");
    let mut warned = quota();
    warned["warnings"] = json!(["it matches no rule at present"]);
    let (finished, _) =
        ask(&["quota", "set", "acme", "--tier", "pro"], vec![tagged(12, &quota()), tagged(13, &warned)]);
    assert_eq!(finished.stderr, "warning: it matches no rule at present\n");
    let (told, _) = check(&["quota", "list"], vec![ok(&json!({"items": [], "next": null}))]);
    assert_eq!(told, "No tenant has a quota of its own.\n");
}

#[test]
fn what_a_change_has_changed() {
    let mut before = quota();
    before["tier"] = json!("pro");
    before["overrides"] = json!([
        {"descriptor": "endpoint:POST /v1/orders", "requests_per_unit": 100, "unit": "minute"},
        {"descriptor": "endpoint:GET /search", "unlimited": true},
    ]);
    let mut after = quota();
    after["in_force"] = json!({"tier": "enterprise", "overrides": after["overrides"]});
    let (told, _) = check(
        &["quota", "set", "acme", "--tier", "enterprise"],
        vec![tagged(11, &before), tagged(12, &after)],
    );
    assert_snapshot!(told, @"
    tenant     acme
    tier       pro -> enterprise
    overrides  endpoint:POST /v1/orders = 500/minute (was 100/minute)
               policy api [per-second] = 10/1s, burst 20 (new)
               endpoint:GET /search (gone, was unlimited)
    effective  at once
    expires    never
    version    12, 2026-11-17T07:00:00Z by ann
    ");
    let body = json!({"id": "search", "policy": {"requests": 1, "period": "1s"}, "version": 3});
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.json"), r#"{"requests": 1, "period": "1s"}"#).unwrap();
    let (finished, _) = crate::canned::ask_in(
        folder.path(),
        &["policy", "set", "search", "--file", "p.json"],
        vec![missing(), tagged(3, &body)],
    );
    assert_eq!(finished.stdout, "search: created, version 3\n");
}

#[test]
fn usage() {
    let usage = json!({"api_key": "acme", "limits": [
        {"domain": "shop", "descriptor": "customer=acme", "limit": 1000, "used": 17, "remaining": 983, "window_seconds": 3600.0,
         "reset_at": "2026-11-17T08:00:00Z", "rule": "shop: customer", "title": "hourly", "enforced": true},
        {"policy": "api", "limit": 10, "used": 0, "remaining": 10, "window_seconds": null, "reset_at": null,
         "rule": "policy api", "title": "api", "enforced": false},
    ]});
    let (told, _) = check(&["usage", "acme"], vec![ok(&usage)]);
    assert_snapshot!(told, @"
    COUNTED              LIMIT   USED    OF  LEFT  WINDOW  RESETS
    shop: customer=acme  hourly    17  1000   983      1h  2026-11-17T08:00:00Z
    policy api           api        0    10    10       -  -                     only watched
    ");
    let (told, asked) = check(&["usage", "reset", "acme"], vec![ok(&json!({"version": 3}))]);
    assert_eq!(asked[0].what(), "POST /admin/v1/usage/acme/reset");
    assert_eq!(told, "acme: begins anew with every limit that counts it alone\n");
}

#[test]
fn keys() {
    let items = json!([
        {"id": "00ff", "act": "ban", "policy": "api", "key": "acme\u{1b}[2J", "until": "then", "active": false,
         "reason": "runaway job", "changed_by": "ann"},
        {"id": "01ff", "act": "boost", "domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "bob"}]}],
         "percent": 200, "until": "soon", "changed_by": "bob"},
    ]);
    let (told, _) = check(&["key", "list"], vec![ok(&json!({"items": items, "next": null}))]);
    assert_snapshot!(told, @r"
    KEY                WHAT         UNTIL       REASON       BY   ID
    api acme\u{1b}[2J  ban          then, over  runaway job  ann  00ff
    shop: user=bob     boost 200 %  soon        -            bob  01ff
    ");
}

#[test]
fn nodes() {
    let node = |name: &str, version: u64| {
        json!({"node": format!("{name}-1"), "name": name, "version": version, "rules": "9f86d081", "started_at": "2026-11-17T07:00:00Z",
               "seen_at": null})
    };
    let (told, _) =
        check(&["node", "list"], vec![ok(&json!({"items": [node("a", 12), node("bb", 10)], "next": null}))]);
    assert_snapshot!(told, @"
    NODE  NAME  VERSION  BEHIND  RULES     STARTED               SEEN
    a-1   a          12       0  9f86d081  2026-11-17T07:00:00Z  -
    bb-1  bb         10       2  9f86d081  2026-11-17T07:00:00Z  -
    ");
}

#[test]
fn scripts_get_what_the_server_says() {
    let (told, _) = check(&["quota", "get", "acme", "--json"], vec![tagged(12, &quota())]);
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), quota());
    let (told, _) = check(&["quota", "list", "--json"], vec![ok(&json!({"items": [quota()], "next": null}))]);
    let said: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((said["items"].as_array().unwrap().len(), &said["next"]), (1, &json!(null)));
}
