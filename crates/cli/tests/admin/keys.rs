//! Single keys.

use serde_json::{Value, json};

use crate::client::{Api, json_of, refusal};
use crate::{of_policy, of_tenant};

/// A question with more in it.
fn with(question: &Value, more: &Value) -> Value {
    let mut all = question.clone();
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

pub(crate) fn are_banned_and_boosted(api: &Api<'_>) {
    for question in [of_policy("search", "mallory"), of_tenant("mallory")] {
        assert_eq!(api.check(&question), 200);
        let ban = with(&question, &json!({ "until": "2099-01-01T00:00:00Z", "reason": "guessing" }));
        let reply = api.post("/keys/ban", &ban);
        assert_eq!(reply.status, 201, "{}", reply.body);
        let told = json_of(&reply);
        let id = told["id"].as_str().unwrap().to_owned();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert_eq!(
            (&told["act"], &told["active"], &told["reason"]),
            (&json!("ban"), &json!(true), &json!("guessing"))
        );
        assert_eq!(api.check(&question), 403);
        let seen = json_of(&api.post("/keys/inspect", &question));
        assert_eq!((&seen["allowed"], &seen["act"]["id"]), (&json!(false), &json!(id)), "{seen}");
        let listed = api.read("/keys");
        assert!(listed["items"].as_array().unwrap().iter().any(|item| item["id"] == id), "{listed}");

        let boost = with(&question, &json!({ "until": "2099-01-01T00:00:00Z", "percent": 200 }));
        let reply = api.post("/keys/boost", &boost);
        assert_eq!((reply.status, &json_of(&reply)["id"]), (200, &json!(id)), "in the place of the ban");
        assert_eq!(api.passes(&question), 5, "six, of which one was taken");
        assert_eq!(api.delete(&format!("/keys/{id}")).status, 200);
        assert_eq!(api.check(&question), 429, "three again, and six were taken");
        assert_eq!(refusal(&api.delete(&format!("/keys/{id}"))), (404, "not-found".to_owned()));
    }
    assert_eq!(api.read("/keys")["items"], json!([]));
    for (question, warned) in [
        (of_policy("search", "mallory"), 0),
        (of_policy("serach", "mallory"), 1),
        (of_tenant("mallory"), 0),
        (
            json!({ "domain": "shpo", "descriptors": [{ "entries": [{ "key": "api_key", "value": "x" }] }] }),
            1,
        ),
        (json!({ "domain": "shop", "descriptors": [{ "entries": [{ "key": "apikey", "value": "x" }] }] }), 1),
    ] {
        for (path, more) in [("/keys/ban", json!({})), ("/keys/boost", json!({ "percent": 200 }))] {
            let more = with(&more, &json!({ "until": "2099-01-01T00:00:00Z" }));
            let told = json_of(&api.post(path, &with(&question, &more)));
            assert_eq!(told["warnings"].as_array().unwrap().len(), warned, "{told}");
            assert_eq!(api.delete(&format!("/keys/{}", told["id"].as_str().unwrap())).status, 200);
        }
    }
    let question = of_policy("search", "mallory");
    for (path, more) in [
        ("/keys/ban", json!({})),
        ("/keys/ban", json!({ "until": "2020-01-01T00:00:00Z" })),
        ("/keys/ban", json!({ "until": "tomorrow" })),
        ("/keys/ban", json!({ "until": "2099-01-01T00:00:00Z", "percent": 200 })),
        ("/keys/boost", json!({ "until": "2099-01-01T00:00:00Z" })),
        ("/keys/boost", json!({ "until": "2099-01-01T00:00:00Z", "percent": 0 })),
        ("/keys/ban", json!({ "until": "2099-01-01T00:00:00Z", "domain": "shop" })),
        ("/keys/ban", json!({ "until": "2099-01-01T00:00:00Z", "resaon": "typo" })),
    ] {
        assert_eq!(refusal(&api.post(path, &with(&question, &more))).0, 422, "{more}");
    }
    assert_eq!(api.read("/keys")["items"], json!([]));
}

pub(crate) fn are_inspected_and_reset(api: &Api<'_>) {
    let question = of_policy("search", "inspected");
    assert_eq!(api.passes(&question), 3);
    let seen = json_of(&api.post("/keys/inspect", &question));
    assert_eq!(
        (&seen["allowed"], &seen["remaining"], &seen["act"]),
        (&json!(false), &json!(0), &Value::Null)
    );
    let reply = api.post("/keys/reset", &question);
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(api.passes(&question), 3, "forgotten");
    let key = [("idempotency-key", "reset once")];
    assert_eq!(api.send("POST", "/keys/reset", &key, Some(&question)).status, 400, "no spaces");
    let key = [("idempotency-key", "reset-once")];
    let first = api.send("POST", "/keys/reset", &key, Some(&question));
    assert_eq!((first.status, api.passes(&question)), (200, 3));
    let again = api.send("POST", "/keys/reset", &key, Some(&question));
    assert_eq!((again.body, api.passes(&question)), (first.body, 0), "done once");
    assert_eq!(api.post("/keys/reset", &of_policy("nowhere", "x")).status, 404);
    assert_eq!(api.post("/keys/inspect", &json!({})).status, 422);
}
