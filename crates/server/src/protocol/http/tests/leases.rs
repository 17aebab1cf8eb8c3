//! `/v1/acquire` and `/v1/release`.

use serde_json::json;

use super::{ask, gate};

#[tokio::test]
async fn a_lease_is_held_until_it_is_released_once() {
    let gate = gate();
    let question = json!({"policy": "uploads", "key": "alice"});
    let (status, answer) = ask(&gate, "/v1/acquire", question.clone()).await;
    assert_eq!((status, &answer["allowed"]), (200, &json!(true)));
    let lease = answer["lease"].clone();
    assert!(lease.is_string());

    let (status, answer) = ask(&gate, "/v1/acquire", question.clone()).await;
    assert_eq!((status, &answer["lease"], &answer["code"]), (429, &json!(null), &json!("too_many_at_once")));

    let release = json!({"lease": lease});
    assert_eq!(ask(&gate, "/v1/release", release.clone()).await, (200, json!({"released": true})));
    assert_eq!(ask(&gate, "/v1/release", release).await, (200, json!({"released": false})));
    assert_eq!(ask(&gate, "/v1/acquire", question).await.0, 200);
}

#[tokio::test]
async fn descriptors_can_be_held_too() {
    let gate = gate();
    let question = json!({"domain": "web", "descriptors": [{"entries": [{"key": "upload", "value": "x"}]}]});
    let (status, answer) = ask(&gate, "/v1/acquire", question).await;
    assert_eq!(status, 200);
    assert_eq!(
        ask(&gate, "/v1/release", json!({"lease": answer["lease"]})).await.1,
        json!({"released": true})
    );
}

#[tokio::test]
async fn who_holds_nothing_gets_no_lease_and_may_release_it() {
    let gate = gate();
    let question = json!({"policy": "uploads", "key": "alice", "cost": 0});
    assert_eq!(ask(&gate, "/v1/acquire", question).await.1["lease"], json!(null));
    assert_eq!(ask(&gate, "/v1/release", json!({"lease": null})).await, (200, json!({"released": false})));
}

#[tokio::test]
async fn the_longest_lease_can_be_released() {
    let gate = gate();
    let key = "k".repeat(super::super::ACQUIRE_BYTES_MAX - 100);
    let (status, answer) = ask(&gate, "/v1/acquire", json!({"policy": "uploads", "key": key})).await;
    assert_eq!(status, 200);
    assert_eq!(
        ask(&gate, "/v1/release", json!({"lease": answer["lease"]})).await.1,
        json!({"released": true})
    );
}

#[tokio::test]
async fn a_forged_or_altered_lease_is_refused_and_releases_nothing() {
    let gate = gate();
    let question = json!({"policy": "uploads", "key": "alice"});
    let (_, answer) = ask(&gate, "/v1/acquire", question.clone()).await;
    let lease = answer["lease"].as_str().unwrap().to_owned();
    let last = if lease.ends_with('0') { "1" } else { "0" };
    let altered = format!("{}{last}", &lease[..lease.len() - 1]);
    for forged in ["00".repeat(60), altered, lease[..lease.len() - 32].to_owned()] {
        let (status, answer) = ask(&gate, "/v1/release", json!({"lease": forged})).await;
        assert_eq!((status, &answer["error"]["code"]), (404, &json!("unknown_lease")), "{forged}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("nothing was released"), "{message}");
        assert_eq!(ask(&gate, "/v1/acquire", question.clone()).await.0, 429, "it is still held");
    }
    assert_eq!(ask(&gate, "/v1/release", json!({"lease": lease})).await, (200, json!({"released": true})));
}
