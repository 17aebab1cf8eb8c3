//! What tenants have used.

use serde_json::{Value, json};

use crate::client::Api;
use crate::{of_orders, of_tenant};

fn limit<'a>(usage: &'a Value, rule: &str) -> &'a Value {
    let limits = usage["limits"].as_array().unwrap();
    limits.iter().find(|limit| limit["rule"] == rule).unwrap_or_else(|| panic!("no {rule}: {usage}"))
}

pub(crate) fn is_what_was_counted(api: &Api<'_>) {
    for body in [of_tenant("user"), of_tenant("user"), of_orders("user")] {
        assert_eq!(api.check(&body), 200);
    }
    let usage = api.read("/usage/user");
    assert_eq!(usage["api_key"], "user");
    let all = limit(&usage, "shop: api_key");
    assert_eq!(
        (&all["used"], &all["limit"], &all["remaining"]),
        (&json!(2), &json!(3), &json!(1)),
        "{usage}"
    );
    assert_eq!((&all["window_seconds"], &all["domain"]), (&json!(3600), &json!("shop")));
    assert!(all["reset_at"].as_str().unwrap().ends_with('Z'), "{usage}");
    let orders = limit(&usage, "shop: api_key > endpoint=POST /v1/orders");
    assert_eq!((&orders["used"], &orders["limit"]), (&json!(1), &json!(2)), "{usage}");
    assert_eq!(
        api.read("/usage/user")["limits"][0]["used"],
        usage["limits"][0]["used"],
        "looking takes nothing"
    );

    api.write("/quotas/user", &json!({ "tier": "gold" }));
    assert_eq!(limit(&api.read("/usage/user"), "shop: api_key")["limit"], 5);
    let reply = api.send("POST", "/usage/user/reset", &[], None);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let usage = api.read("/usage/user");
    for rule in ["shop: api_key", "shop: api_key > endpoint=POST /v1/orders"] {
        assert_eq!(limit(&usage, rule)["used"], 0, "{usage}");
    }
    assert_eq!(api.passes(&of_tenant("user")), 5);
    assert_eq!(api.delete("/quotas/user").status, 200);
    assert_eq!(api.read("/usage/nobody")["api_key"], "nobody");
}
