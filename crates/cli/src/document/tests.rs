//! From files of rules to documents.

use serde_json::json;

use super::*;

fn check(text: &str) -> Vec<(String, Value)> {
    let found = documents(&Source::new("rules.yaml", text), DefaultAlgorithm::default()).unwrap();
    found.into_iter().map(|document| (document.id, document.body)).collect()
}

#[test]
fn a_file_becomes_a_domain_and_policies() {
    let found = check(
        "domain: shop
descriptors:
  - {key: user, value: 007, rate_limit: {unit: minute, requests_per_unit: 5}}
policies:
  search: {requests: 100, period: 1m, burst: 20}
  api: {rate_limits: [{requests: 1, period: 1s}]}
",
    );
    let descriptor =
        json!({"key": "user", "value": "007", "rate_limit": {"unit": "minute", "requests_per_unit": 5}});
    assert_eq!(
        found,
        [
            ("shop".to_owned(), json!({"domain": "shop", "descriptors": [descriptor]})),
            ("search".to_owned(), json!({"requests": 100, "period": "1m", "burst": 20})),
            ("api".to_owned(), json!({"rate_limits": [{"requests": 1, "period": "1s"}]})),
        ]
    );
}

#[test]
fn the_rules_of_this_repository_become_documents() {
    let ids = |text| check(text).into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids(include_str!("../../../../rules/shop.yaml")), ["shop"]);
    assert_eq!(ids(include_str!("../../../../rules/policies.yaml")), ["search-standard", "api", "reports"]);
}

#[test]
fn what_json_cannot_say_is_refused() {
    // A float in metadata that JSON writes in another way: kept as it is, it would be text.
    let text = "policies: {a: {requests: 1, period: 1s, metadata: {x: 1e3}}}";
    let told = documents(&Source::new("r.yaml", text), DefaultAlgorithm::default()).unwrap_err();
    assert!(told.to_string().contains("r.yaml: \"a\" would mean something else"), "{told}");
}

#[test]
fn one_policy_is_found_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.yaml");
    let check = |text: &str| {
        std::fs::write(&path, text).unwrap();
        policy("search", &path)
    };
    let body = json!({"requests": 5, "period": "1m"});
    assert_eq!(check("requests: 5\nperiod: 1m\n").unwrap(), body);
    assert_eq!(check(r#"{"requests": 5, "period": "1m"}"#).unwrap(), body);
    assert_eq!(check("policies:\n  search: {requests: 5, period: 1m}\n").unwrap(), body);
    assert_eq!(check("domain: search\n").unwrap(), json!({"domain": "search"}));
    let told = check("policies:\n  other: {requests: 5, period: 1m}\n").unwrap_err().to_string();
    assert!(told.contains("it has other"), "{told}");
    let told = check("requests: 5\nperoid: 1m\n").unwrap_err().to_string();
    assert!(told.contains("p.yaml:2:1: unknown key `peroid`"), "{told}");
}
