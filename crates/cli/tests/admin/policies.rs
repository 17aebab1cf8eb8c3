//! Policies and domains that are written while the server runs.

use serde_json::json;

use crate::client::{Api, json_of, refusal};
use crate::{of_policy, of_tenant};

pub(crate) fn take_the_place_of_those_in_files(api: &Api<'_>) {
    assert_eq!(api.passes(&of_policy("search", "a")), 3, "as the file says");
    let reply = api.put("/policies/search", &json!({ "requests": 7, "period": "1h" }));
    assert_eq!(reply.status, 201, "{}", reply.body);
    let told = json_of(&reply);
    assert_eq!(
        (&told["id"], &told["policy"]["requests"], &told["changed_by"]),
        (&json!("search"), &json!(7), &json!("admin"))
    );
    assert_eq!(reply.the("etag"), format!("\"{}\"", told["version"]));
    assert_eq!(api.passes(&of_policy("search", "b")), 7, "at once");
    assert_eq!(api.passes(&of_policy("search", "a")), 4, "what was counted is kept");

    assert_eq!(api.write("/policies/fresh", &json!({ "requests": 1, "period": "1h" }))["id"], "fresh");
    assert_eq!(api.passes(&of_policy("fresh", "a")), 1);

    let wrong = api.put("/policies/search", &json!({ "requests": 7, "perod": "1h" }));
    assert_eq!(refusal(&wrong), (422, "invalid".to_owned()));
    let error = &json_of(&wrong)["errors"][0];
    assert_eq!((&error["line"], &error["column"]), (&json!(1), &json!(15)), "{}", wrong.body);
    assert_eq!(api.read("/policies/search"), told, "nothing was changed");

    assert_eq!(api.delete("/policies/search").status, 200);
    assert_eq!(api.passes(&of_policy("search", "c")), 3, "the file's again");
    assert_eq!(refusal(&api.get("/policies/search")), (404, "not-found".to_owned()));
    assert_eq!(refusal(&api.delete("/policies/search")), (404, "not-found".to_owned()));
    assert_eq!(api.delete("/policies/fresh").status, 200);
    assert_eq!(api.check(&of_policy("fresh", "a")), 404);
}

pub(crate) fn of_a_domain(api: &Api<'_>) {
    let domain = json!({
        "domain": "shop",
        "descriptors": [{ "key": "api_key", "rate_limit": { "unit": "hour", "requests_per_unit": 1 } }],
    });
    assert_eq!(api.put("/policies/shop", &domain).status, 201);
    assert_eq!(api.passes(&of_tenant("of-domain")), 1);
    assert_eq!(api.read("/policies/shop")["policy"], domain);
    assert_eq!(api.delete("/policies/shop").status, 200);
    assert_eq!(api.passes(&of_tenant("of-domain")), 2);
}

pub(crate) fn are_listed_in_pages(api: &Api<'_>) {
    for number in 0..5 {
        api.write(&format!("/policies/page-{number}"), &json!({ "requests": 1, "period": "1h" }));
    }
    let (mut found, mut path) = (Vec::new(), "/policies?limit=2".to_owned());
    loop {
        let page = api.read(&path);
        let ids =
            page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned());
        assert!(ids.len() <= 2, "{page}");
        found.extend(ids);
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/policies?limit=2&after={next}");
    }
    assert_eq!(found, ["page-0", "page-1", "page-2", "page-3", "page-4"]);
    for number in 0..5 {
        assert_eq!(api.delete(&format!("/policies/page-{number}")).status, 200);
    }
}
