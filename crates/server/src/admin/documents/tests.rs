//! Documents, as they are written and read again.
#![allow(clippy::unwrap_used)]

use tollgate::policy::{DefaultAlgorithm, read_all};

use super::*;

#[test]
fn a_policy_is_read_under_its_name() {
    for id in ["search", "a \"quoted\" name", "with: colon"] {
        let source = policy_source(id, false, "{\"requests\": 100, \"period\": \"1m\"}");
        let specs = read_all(&[source], DefaultAlgorithm::default()).unwrap();
        assert_eq!(specs[0].policies[0].name, id);
    }
    let body = "{\"domain\": \"shop\", \"descriptors\": []}";
    assert!(is_domain(body) && !is_domain("{\"requests\": 1}") && !is_domain("[]"));
    let specs = read_all(&[policy_source("shop", true, body)], DefaultAlgorithm::default()).unwrap();
    assert_eq!(specs[0].domain.as_ref().unwrap().name, "shop");
}

#[test]
fn a_key_has_one_id_however_it_is_written() {
    let subject = |text: &str| serde_json::from_str::<KeySubjectBody>(text).unwrap();
    let policy = subject(r#"{"policy": "p", "key": "k"}"#);
    assert_eq!(policy.id().len(), 32);
    assert_eq!(policy.id(), subject(r#"{"key": "k", "policy": "p"}"#).id());
    assert_ne!(policy.id(), subject(r#"{"policy": "pk", "key": ""}"#).id());
    let entries = r#"{"domain": "p", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}"#;
    assert_ne!(policy.id(), subject(entries).id());
    let body = format!("{{\"act\": \"ban\", \"until\": \"2099-01-01T00:00:00Z\", {}", &entries[1..]);
    let read: KeyBody = serde_json::from_str(&body).unwrap();
    assert_eq!((read.act, read.subject.id()), (ActName::Ban, subject(entries).id()));
    let again: KeyBody = serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
    assert_eq!(again, read);
}
