//! Directories of rules, moved into a database.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::canned::{Asked, ask_in, missing, problem, tagged};

const SHOP: &str = "domain: shop
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}
";
const POLICIES: &str = "policies:
  search: {requests: 100, period: 1m}
  api: {requests: 10, period: 1s}
";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("rules")).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join("rules").join(name), text).unwrap();
    }
    folder
}

fn policy(id: &str, body: &Value, version: u64) -> Value {
    json!({"id": id, "policy": body, "version": version})
}

#[test]
fn what_differs_is_written_and_the_rest_left_alone() {
    let folder = folder(&[("shop.yaml", SHOP), ("policies.yaml", POLICIES)]);
    let (search, old, api) = (
        json!({"requests": 100, "period": "1m"}),
        json!({"requests": 1, "period": "1s"}),
        json!({"requests": 10, "period": "1s"}),
    );
    let (finished, asked) = ask_in(
        folder.path(),
        &["import", "rules"],
        vec![
            tagged(3, &policy("search", &search, 3)),
            tagged(4, &policy("api", &old, 4)),
            tagged(5, &policy("api", &api, 5)),
            missing(),
            tagged(6, &policy("shop", &json!({}), 6)),
        ],
    );
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
    assert_snapshot!(finished.stdout, @"
    ID      KIND    OUTCOME    FILE
    search  policy  unchanged  rules/policies.yaml
    api     policy  changed    rules/policies.yaml
    shop    domain  created    rules/shop.yaml
    1 created, 1 changed, 1 unchanged
    ");
    let puts: Vec<&Asked> = asked.iter().filter(|asked| asked.method == "PUT").collect();
    assert_eq!((puts[0].json(), puts[0].field("if-match")), (api, Some("\"4\"")));
    assert_eq!((&puts[1].json()["domain"], puts[1].field("if-none-match")), (&json!("shop"), Some("*")));
}

#[test]
fn a_dry_run_only_looks() {
    let folder = folder(&[("shop.yaml", SHOP)]);
    let (finished, asked) = ask_in(folder.path(), &["import", "rules", "--dry-run"], vec![missing()]);
    assert_eq!(asked[0].what(), "GET /admin/v1/policies/shop");
    assert!(finished.stdout.contains("created") && finished.stdout.contains("--dry-run"), "{finished:?}");
    let (finished, _) = ask_in(folder.path(), &["import", "rules", "--dry-run", "--json"], vec![missing()]);
    let said: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(said, json!({"dry_run": true, "created": ["shop"], "changed": [], "unchanged": []}));
}

#[test]
fn the_first_refusal_stops_it_and_says_how_far_it_came() {
    let folder = folder(&[("shop.yaml", SHOP), ("policies.yaml", POLICIES)]);
    let (finished, _) = ask_in(
        folder.path(),
        &["import", "rules"],
        vec![
            missing(),
            tagged(3, &policy("search", &json!({}), 3)),
            missing(),
            problem(403, "Forbidden", "an operator may not"),
        ],
    );
    assert_eq!(finished.code, Some(1));
    assert!(finished.stdout.contains("1 created, 0 changed, 0 unchanged"), "{finished:?}");
    assert_snapshot!(finished.stderr, @r#"
    stopped at "api" of rules/policies.yaml, after 1 of 3; run it again to go on
    the server refuses (403): Forbidden
    an operator may not
    "#);
}

#[test]
fn nothing_is_sent_unless_all_is_right() {
    let check = |files: &[(&str, &str)], part: &str| {
        let folder = folder(files);
        let (finished, _) = ask_in(folder.path(), &["import", "rules"], vec![]);
        assert!(finished.code != Some(0) && finished.stderr.contains(part), "{part}: {finished:?}");
    };
    check(&[("shop.yaml", SHOP), ("bad.yaml", "domain: x\ndescritpors: []\n")], "bad.yaml:2:1");
    check(&[("a.yaml", SHOP), ("b.yaml", SHOP)], "in two files");
    check(
        &[("a.yaml", SHOP), ("b.yaml", "policies: {shop: {requests: 1, period: 1s}}")],
        "both called \"shop\"",
    );
    check(&[], "holds no rules");
    let long = "x".repeat(1_000);
    let many: String = (0..400).map(|i| format!("  - {{key: a{i}, value: {long}}}") + "\n").collect();
    check(&[("big.yaml", &format!("domain: big\ndescriptors:\n{many}"))], "at most 262144");
}
