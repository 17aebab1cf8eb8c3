//! Changes that depend on what is there, and changes that are sent twice.

use serde_json::json;

use crate::client::{Api, json_of, refusal};

pub(crate) fn protect_from_overwriting(api: &Api<'_>) {
    let path = "/policies/conditional";
    let (one, two) = (json!({ "requests": 1, "period": "1h" }), json!({ "requests": 2, "period": "1h" }));
    let missed = (412, "condition".to_owned());
    assert_eq!(refusal(&api.send("PUT", path, &[("if-match", "*")], Some(&one))), missed);
    assert_eq!(refusal(&api.send("PUT", path, &[("if-match", "\"1\"")], Some(&one))), missed);
    let created = api.send("PUT", path, &[("if-none-match", "*")], Some(&one));
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(refusal(&api.send("PUT", path, &[("if-none-match", "*")], Some(&one))), missed);

    let tag = created.the("etag").to_owned();
    let seen = api.get(path);
    assert_eq!((seen.status, seen.the("etag")), (200, &*tag));
    let again = api.send("GET", path, &[("if-none-match", &tag)], None);
    assert_eq!((again.status, &*again.body, again.the("etag")), (304, "", &*tag));
    let head = api.send("HEAD", path, &[], None);
    assert_eq!((head.status, head.the("etag"), &*head.body), (200, &*tag, ""));

    let changed = api.send("PUT", path, &[("if-match", &tag)], Some(&two));
    assert_eq!(changed.status, 200, "{}", changed.body);
    let late = api.send("PUT", path, &[("if-match", &tag)], Some(&one));
    assert_eq!(refusal(&late), missed);
    let told = json_of(&late)["detail"].as_str().unwrap().to_owned();
    assert!(told.contains(&format!("version {}", json_of(&changed)["version"])), "{told}");
    assert_eq!(refusal(&api.send("DELETE", path, &[("if-match", &tag)], None)), missed);
    let both = format!("{tag}, {}", changed.the("etag"));
    assert_eq!(api.send("DELETE", path, &[("if-match", &both)], None).status, 200);
    assert_eq!(refusal(&api.send("DELETE", path, &[("if-match", &both)], None)), missed);
    assert_eq!(api.send("PUT", path, &[("if-match", "x")], Some(&one)).status, 400);
}

pub(crate) fn a_repeated_request_is_done_once(api: &Api<'_>) {
    let path = "/quotas/repeated";
    let (first, other) = (json!({ "tier": "gold" }), json!({ "tier": null }));
    let key = [("idempotency-key", "8e03978e-40d5-43dd-bc93-6894a57f9324")];
    let made = api.send("PUT", path, &key, Some(&first));
    assert_eq!(made.status, 201, "{}", made.body);
    let again = api.send("PUT", path, &key, Some(&first));
    assert_eq!((again.status, &again.body), (201, &made.body), "the same answer");
    let differing = api.send("PUT", path, &key, Some(&other));
    assert_eq!(refusal(&differing), (422, "idempotency-key".to_owned()));
    let elsewhere = api.send("PUT", "/quotas/other", &key, Some(&first));
    assert_eq!(refusal(&elsewhere), (422, "idempotency-key".to_owned()));
    let rows = api.read("/audit?kind=quota&id=repeated");
    assert_eq!(rows["items"].as_array().unwrap().len(), 1, "{rows}");
    // For later, it is made of what is there: repeated, it is still the same.
    let later = json!({ "tier": "silver", "effective_at": "2099-01-01T00:00:00Z" });
    let key = [("idempotency-key", "later")];
    let made = api.send("PUT", path, &key, Some(&later));
    assert_eq!(made.status, 200, "{}", made.body);
    assert_eq!(api.send("PUT", path, &key, Some(&later)).body, made.body);
    let key = [("idempotency-key", "gone")];
    let gone = api.send("DELETE", path, &key, None);
    assert_eq!(gone.status, 200);
    assert_eq!(api.send("DELETE", path, &key, None).body, gone.body);
    assert_eq!(api.delete(path).status, 404);
}
