//! The kill switch.

use serde_json::json;

use crate::client::Api;
use crate::{of_policy, of_tenant};

pub(crate) fn let_everything_pass(api: &Api<'_>) {
    let (tenant, policy) = (of_tenant("switched"), of_policy("search", "switched"));
    assert_eq!((api.passes(&tenant), api.passes(&policy)), (3, 3));
    let reply = api.get("/switches");
    assert_eq!((reply.status, reply.the("etag")), (200, "\"0\""), "{}", reply.body);
    let off = |body: serde_json::Value| api.write("/switches", &body);
    let both = || (api.check(&tenant), api.check(&policy));
    assert_eq!(both(), (429, 429));
    let told = off(json!({ "all": true }));
    assert_eq!((&told["all"], &told["domains"], &told["warnings"]), (&json!(true), &json!([]), &json!([])));
    assert_eq!(both(), (200, 200));
    off(json!({ "domains": ["shop"] }));
    assert_eq!(both(), (200, 429));
    off(json!({ "rules": ["policy search"] }));
    assert_eq!(both(), (429, 200));
    off(json!({ "rules": ["shop: api_key"] }));
    assert_eq!(both(), (200, 429));
    let told = off(json!({ "domains": ["nowhere"], "rules": ["nothing"] }));
    assert_eq!(told["warnings"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(both(), (429, 429));
    off(json!({}));
    let refused = |details: serde_json::Value| {
        let body = json!({ "domains": ["shop"], "details": details });
        api.put("/switches", &body).status
    };
    assert_eq!(refused(json!({ "domain nowhere": { "reason": "typo" } })), 422);
    assert_eq!(refused(json!({ "domain shop": { "until": "2020-01-01T00:00:00Z" } })), 422);
    assert_eq!(refused(json!({ "domain shop": { "until": "tomorrow" } })), 422);
    let details = json!({ "domain shop": { "until": "2099-01-01T00:00:00Z", "reason": "incident" } });
    let told = off(json!({ "domains": ["shop"], "details": details }));
    assert_eq!((&told["details"], both()), (&details, (200, 429)));
    assert_eq!(api.read("/switches")["details"], details);
    off(json!({}));
    let stale = api.send("PUT", "/switches", &[("if-match", "\"0\"")], Some(&json!({ "all": true })));
    assert_eq!(stale.status, 412);
    assert_eq!(both(), (429, 429));
}
