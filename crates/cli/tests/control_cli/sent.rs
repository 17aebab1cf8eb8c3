//! What commands send.

use std::fs;

use serde_json::{Value, json};

use crate::TOKEN;
use crate::canned::{Asked, ask_in, check, missing, ok, problem, tagged};

fn whats(asked: &[Asked]) -> Vec<String> {
    asked.iter().map(Asked::what).collect()
}

fn quota(tier: &str, overrides: &Value) -> Value {
    json!({
        "api_key": "acme", "tier": tier, "overrides": overrides, "effective_at": null, "expires_at": null, "version": 7,
        "changed_at": "2026-11-17T07:00:00Z", "changed_by": "ann", "in_force": {"tier": tier, "overrides": overrides},
        "scheduled": null,
    })
}

#[test]
fn every_write_shows_the_token_and_a_key_of_its_own() {
    let mut keys = Vec::new();
    for _ in 0..2 {
        let (_, asked) = check(&["quota", "delete", "acme"], vec![ok(&json!({"version": 8}))]);
        assert_eq!(whats(&asked), ["DELETE /admin/v1/quotas/acme"]);
        assert_eq!(asked[0].field("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
        keys.push(asked[0].field("idempotency-key").unwrap().to_owned());
    }
    assert!(keys[0].len() >= 32 && keys[0] != keys[1], "{keys:?}");
    let (_, asked) = check(&["quota", "get", "a/b c"], vec![ok(&quota("pro", &json!([])))]);
    assert_eq!(whats(&asked), ["GET /admin/v1/quotas/a%2Fb%20c"]);
    assert_eq!((asked[0].field("idempotency-key"), asked[0].field("content-type")), (None, None));
}

#[test]
fn a_quota_keeps_what_is_not_named() {
    let orders =
        json!({"descriptor": "endpoint:POST /v1/orders", "requests_per_unit": 100, "unit": "minute"});
    let search = json!({"descriptor": "endpoint:GET /search", "requests_per_unit": 5, "unit": "second"});
    let before = quota("pro", &json!([orders, search]));
    let raised =
        json!({"descriptor": "endpoint:POST /v1/orders", "requests_per_unit": 500, "unit": "minute"});
    let after = quota("pro", &json!([raised, search]));
    let (_, asked) = check(
        &["quota", "set", "acme", "--override", "endpoint:POST /v1/orders=500/minute"],
        vec![tagged(7, &before), tagged(8, &after)],
    );
    assert_eq!(whats(&asked), ["GET /admin/v1/quotas/acme", "PUT /admin/v1/quotas/acme"]);
    assert_eq!(asked[1].field("if-match"), Some("\"7\""));
    let expected =
        json!({"tier": "pro", "overrides": [raised, search], "effective_at": null, "expires_at": null});
    assert_eq!(asked[1].json(), expected);
    assert_eq!(asked[1].field("content-type"), Some("application/json"));
}

#[test]
fn a_quota_that_is_new_must_still_be_when_it_is_written() {
    let (_, asked) = check(
        &["quota", "set", "acme", "--tier", "pro"],
        vec![missing(), tagged(8, &quota("pro", &json!([])))],
    );
    assert_eq!((asked[1].field("if-none-match"), asked[1].field("if-match")), (Some("*"), None));
    let (_, asked) = check(
        &["quota", "set", "acme", "--tier", "free", "--if-match", "3"],
        vec![tagged(7, &quota("pro", &json!([]))), tagged(8, &quota("free", &json!([])))],
    );
    assert_eq!(asked[1].field("if-match"), Some("\"3\""));
}

#[test]
fn what_is_so_already_is_not_written() {
    let (told, asked) =
        check(&["quota", "set", "acme", "--tier", "pro"], vec![tagged(7, &quota("pro", &json!([])))]);
    assert_eq!(asked.len(), 1);
    assert!(told.starts_with("It was so already"), "{told}");
}

#[test]
fn a_quota_that_has_ended_is_not_brought_back() {
    let mut before = quota("pro", &json!([{"descriptor": "a", "requests_per_unit": 1, "unit": "day"}]));
    before["expires_at"] = json!("2020-01-01T00:00:00Z");
    let (_, asked) = check(
        &["quota", "set", "acme", "--override", "b=2/day"],
        vec![tagged(7, &before), tagged(8, &quota("pro", &json!([])))],
    );
    let over = json!({"descriptor": "b", "requests_per_unit": 2, "unit": "day"});
    let expected = json!({"tier": null, "overrides": [over], "effective_at": null, "expires_at": null});
    assert_eq!(asked[1].json(), expected);
}

#[test]
fn moments_are_sent_as_moments() {
    let (_, asked) = check(
        &["quota", "set", "acme", "--tier", "pro", "--effective-at", "2090-02-01", "--for", "36h"],
        vec![missing(), tagged(8, &quota("pro", &json!([])))],
    );
    let body = asked[1].json();
    assert_eq!(body["effective_at"], json!("2090-02-01T00:00:00Z"));
    assert_eq!(body["expires_at"], json!("2090-02-02T12:00:00Z"));
}

#[test]
fn a_key_is_named_as_check_names_it() {
    let until = "2090-01-01T00:00:00Z";
    let answer = || vec![ok(&json!({"id": "00ff", "act": "ban", "until": until}))];
    let words = ["key", "ban", "--policy", "api", "--key", "acme", "--until", until, "--reason", "a job"];
    let (_, asked) = check(&words, answer());
    assert_eq!(whats(&asked), ["POST /admin/v1/keys/ban"]);
    assert_eq!(asked[0].json(), json!({"policy": "api", "key": "acme", "until": until, "reason": "a job"}));
    let words =
        ["key", "boost", "--domain", "shop", "path=/login", "user=ann", "--until", until, "--percent", "200"];
    let (_, asked) = check(&words, answer());
    let entries = json!([{"key": "path", "value": "/login"}, {"key": "user", "value": "ann"}]);
    assert_eq!(
        asked[0].json(),
        json!({"domain": "shop", "descriptors": [{"entries": entries}], "until": until, "percent": 200})
    );
}

#[test]
fn a_ban_is_lifted_by_its_id_or_its_key() {
    let (_, asked) = check(&["key", "lift", "00ff"], vec![ok(&json!({"version": 9}))]);
    assert_eq!(whats(&asked), ["DELETE /admin/v1/keys/00ff"]);
    // The id is the same wherever it is made.
    let key = ["key", "lift", "--policy", "search-standard", "--key", "user:4711"];
    let (_, asked) = check(&key, vec![ok(&json!({"version": 9}))]);
    assert_eq!(whats(&asked), ["DELETE /admin/v1/keys/f5395ca06da7d0e2855ae914bd415faf"]);
    let key = ["key", "lift", "--domain", "api", "path=/login", "remote_address=192.0.2.7"];
    let (_, asked) = check(&key, vec![ok(&json!({"version": 9}))]);
    assert_eq!(whats(&asked), ["DELETE /admin/v1/keys/b6aed70b560a1b0faa8c5c3a80d39321"]);
}

#[test]
fn a_list_goes_on_over_pages_with_nothing_to_show() {
    let page = |items: Value, next: Value| ok(&json!({"items": items, "next": next}));
    let item = json!({"policy": "api", "key": "acme", "id": "03", "until": "2090-01-01T00:00:00Z"});
    let pages =
        vec![page(json!([]), json!("01")), page(json!([]), json!("02")), page(json!([item]), json!(null))];
    let (told, asked) = check(&["key", "list"], pages);
    assert!(told.contains("api acme"), "{told}");
    assert_eq!(whats(&asked)[2], "GET /admin/v1/keys?limit=100&after=02");
    // A server that does not get on is not asked for ever.
    let (_, asked) =
        check(&["key", "list", "--over"], vec![page(json!([]), json!("01")), page(json!([]), json!("01"))]);
    assert_eq!(whats(&asked)[0], "GET /admin/v1/keys?over=true&limit=100");
}

#[test]
fn one_switch_is_turned_and_the_others_stay() {
    let before = json!({"all": false, "domains": ["shop"], "rules": [], "version": 4});
    let after = json!({"all": true, "domains": ["shop"], "rules": [], "version": 5});
    let (told, asked) = check(&["switch", "off", "all"], vec![tagged(4, &before), tagged(5, &after)]);
    assert_eq!(whats(&asked), ["GET /admin/v1/switches", "PUT /admin/v1/switches"]);
    assert_eq!(asked[1].json(), json!({"all": true, "domains": ["shop"], "rules": []}));
    assert_eq!(asked[1].field("if-match"), Some("\"4\""));
    assert!(told.starts_with("EVERYTHING is off"), "{told}");
}

#[test]
fn a_list_is_fetched_page_by_page_up_to_its_limit() {
    let item =
        |id: usize| json!({"id": format!("p{id}"), "policy": {"requests": 1, "period": "1s"}, "version": id});
    let page = |range: std::ops::Range<usize>, next: Value| {
        ok(&json!({"items": range.map(item).collect::<Vec<_>>(), "next": next}))
    };
    let (told, asked) = check(
        &["policy", "list", "--limit", "150", "--after", "a"],
        vec![page(0..100, json!("p99")), page(100..150, json!("p149"))],
    );
    assert_eq!(
        whats(&asked),
        ["GET /admin/v1/policies?limit=100&after=a", "GET /admin/v1/policies?limit=50&after=p99"]
    );
    assert!(told.contains("p149") && told.ends_with("--after 'p149', or raise --limit.\n"), "{told}");
}

#[test]
fn a_policy_is_sent_as_json_whatever_its_file_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p.yaml"), "requests: 100 # a minute\nperiod: 1m\n").unwrap();
    let body = json!({"requests": 100, "period": "1m"});
    let before = json!({"id": "search", "policy": {"requests": 50, "period": "1m"}, "version": 3});
    let after = json!({"id": "search", "policy": body, "version": 4});
    let (finished, asked) = ask_in(
        folder.path(),
        &["policy", "set", "search", "--file", "p.yaml"],
        vec![tagged(3, &before), tagged(4, &after)],
    );
    assert_eq!(whats(&asked), ["GET /admin/v1/policies/search", "PUT /admin/v1/policies/search"]);
    assert_eq!((asked[1].json(), asked[1].field("if-match")), (body, Some("\"3\"")));
    assert_eq!(finished.stdout, "search: changed, version 4\n  requests: 50 -> 100\n");
}

#[test]
fn a_token_comes_from_a_file_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/admin.token"), "from-the-server\n").unwrap();
    fs::write(folder.path().join("other"), "from-a-file\n").unwrap();
    let shown = |words: &[&str], variable: Option<&str>| {
        let listed = vec![ok(&json!({"items": [], "next": null}))];
        let arguments = [&["quota", "list"], words].concat();
        let (_, asked) = match variable {
            Some(_) => ask_in(folder.path(), &arguments, listed),
            None => crate::canned::ask_without_token(folder.path(), &arguments, listed),
        };
        asked[0].field("authorization").unwrap().to_owned()
    };
    assert_eq!(shown(&[], None), "Bearer from-the-server");
    assert_eq!(shown(&[], Some(TOKEN)), format!("Bearer {TOKEN}"));
    assert_eq!(shown(&["--token-file", "other"], Some(TOKEN)), "Bearer from-a-file");
    assert_eq!(shown(&["--token", "typed"], Some(TOKEN)), "Bearer typed");

    // Whoever is elsewhere does not get the token of a server that was here.
    let elsewhere = |words: &[&str]| {
        let refused = vec![problem(401, "Unauthorized", "a bearer token is needed")];
        let arguments = [&["quota", "list"], words].concat();
        let (finished, asked) = crate::canned::ask_elsewhere(folder.path(), &arguments, refused);
        (finished.stderr, asked[0].field("authorization").map(str::to_owned))
    };
    let (told, sent) = elsewhere(&[]);
    assert_eq!(sent, None);
    assert!(told.contains("--token-file") && told.contains("only to a server at 127.0.0.1"), "{told}");
    let named = elsewhere(&["--token-file", "data/admin.token"]);
    assert_eq!(named.1.as_deref(), Some("Bearer from-the-server"));
}
