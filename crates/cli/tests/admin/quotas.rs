//! What single tenants may.

use serde_json::{Value, json};

use crate::client::{Api, refusal};
use crate::{of_orders, of_policy, of_tenant};

pub(crate) fn change_the_limits_of_one_tenant(api: &Api<'_>) {
    assert_eq!(api.passes(&of_tenant("acme")), 3);
    let quota = json!({
        "tier": "gold",
        "overrides": [
            { "descriptor": "endpoint:POST /v1/orders", "requests_per_unit": 6, "unit": "day" },
            { "policy": "reports", "requests": 9, "period": "1h" },
        ],
        "effective_at": "2026-02-01T00:00:00Z",
        "expires_at": null,
    });
    let told = api.write("/quotas/acme", &quota);
    for field in ["tier", "overrides", "effective_at", "expires_at"] {
        assert_eq!(told[field], quota[field], "{told}");
    }
    assert_eq!((&told["api_key"], &told["scheduled"]), (&json!("acme"), &Value::Null));
    assert_eq!(told["in_force"], json!({ "tier": "gold", "overrides": quota["overrides"] }));
    assert_eq!(told["warnings"], json!([]));
    assert_eq!(api.passes(&of_tenant("acme")), 2, "five with its tier, of which three were taken");
    assert_eq!(api.passes(&of_orders("acme")), 6);
    assert_eq!(api.passes(&of_orders("other")), 2, "nobody else has more");
    assert_eq!(api.passes(&of_policy("reports", "acme")), 9);
    assert_eq!(api.passes(&of_policy("reports", "other")), 4);

    let idle =
        json!({ "overrides": [{ "descriptor": "endpiont:x", "requests_per_unit": 6, "unit": "day" }] });
    let told = api.write("/quotas/idle", &idle);
    assert_eq!(told["warnings"].as_array().unwrap().len(), 1, "it is for no rule: {told}");
    let wrong = api.put("/quotas/acme", &json!({ "teir": "gold" }));
    assert_eq!(refusal(&wrong), (422, "invalid".to_owned()));
    let listed = api.read("/quotas?limit=1000");
    let keys: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|item| item["api_key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"acme") && keys.contains(&"idle"), "{listed}");

    assert_eq!(api.delete("/quotas/idle").status, 200);
    assert_eq!(api.delete("/quotas/acme").status, 200);
    assert_eq!(refusal(&api.get("/quotas/acme")), (404, "not-found".to_owned()));
    assert_eq!(api.check(&of_tenant("acme")), 429, "three again, and five were taken");
}

pub(crate) fn have_a_beginning_and_an_end(api: &Api<'_>) {
    let over = |units: u32| json!([{ "descriptor": [], "requests_per_unit": units, "unit": "hour" }]);
    api.write("/quotas/timed", &json!({ "overrides": over(10) }));
    let later = json!({ "tier": "gold", "overrides": over(20), "effective_at": "2099-01-01T00:00:00Z" });
    let told = api.write("/quotas/timed", &later);
    assert_eq!(told["in_force"], json!({ "tier": null, "overrides": over(10) }), "{told}");
    assert_eq!(told["scheduled"]["overrides"], over(20));
    assert_eq!(told["scheduled"]["effective_at"], "2099-01-01T00:00:00Z");
    assert_eq!(api.passes(&of_tenant("timed")), 10, "what was before stays until then");
    // What is planned anew forgets the plan before, and not what is in force.
    let told =
        api.write("/quotas/timed", &json!({ "overrides": over(30), "effective_at": "2098-01-01T00:00:00Z" }));
    assert_eq!(told["in_force"], json!({ "tier": null, "overrides": over(10) }), "{told}");
    assert_eq!(told["scheduled"]["overrides"], over(30));

    let over_already = json!({ "overrides": over(40), "expires_at": "2020-01-01T00:00:00Z" });
    assert_eq!(refusal(&api.put("/quotas/timed", &over_already)), (422, "invalid".to_owned()));
    assert_eq!(api.check(&of_tenant("timed")), 429, "ten, and ten were taken");
    let never = json!({ "effective_at": "2099-01-01T00:00:00Z", "expires_at": "2098-01-01T00:00:00Z" });
    assert_eq!(refusal(&api.put("/quotas/timed", &never)), (422, "invalid".to_owned()));
    assert_eq!(api.delete("/quotas/timed").status, 200);
}

pub(crate) fn of_any_name(api: &Api<'_>) {
    let names =
        ["a/b", "user:4711", "two words", "grün", "..%2f", "a+b", "?x=1&y#z", "日本", "\u{1f600}", "%"];
    for name in names {
        let encoded = name.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
        let quota = json!({ "overrides": [{ "descriptor": [], "requests_per_unit": 4, "unit": "hour" }] });
        assert_eq!(api.write(&format!("/quotas/{encoded}"), &quota)["api_key"], name);
        assert_eq!(api.read(&format!("/quotas/{encoded}"))["api_key"], name);
        assert_eq!(api.passes(&of_tenant(name)), 4, "{name}");
        let rows = api.read(&format!("/audit?kind=quota&id={encoded}"));
        assert_eq!(rows["items"][0]["id"], name);
        assert_eq!(api.delete(&format!("/quotas/{encoded}")).status, 200);
    }
    for wrong in [format!("/quotas/{}", "k".repeat(513)), "/quotas/a%00".to_owned(), "/quotas/%ff".to_owned()]
    {
        assert_eq!(refusal(&api.get(&wrong)).0, 400, "{wrong}");
    }
    api.write(
        "/quotas/lasting",
        &json!({ "overrides": [{ "descriptor": [], "requests_per_unit": 8, "unit": "hour" }] }),
    );
}

/// After a restart.
pub(crate) fn outlive_the_server(api: &Api<'_>) {
    assert_eq!(api.read("/quotas/lasting")["changed_by"], "admin");
    assert_eq!(api.passes(&of_tenant("lasting")), 8);
}
