//! What was used on each day, as operators and bills see it.

use serde_json::{Value, json};

use crate::{check, launch};

fn days(server: &tollgate_testkit::real::Tollgate, tenant: &str, query: &str) -> (u16, Value) {
    let reply = server.ask_admin("GET", &format!("/admin/v1/usage/{tenant}/days{query}"), None);
    (reply.status, serde_json::from_str(&reply.body).unwrap())
}

#[test]
fn usage_is_told_by_day_and_rule() {
    let server = launch("sqlite:data/tollgate.db").start();
    let entries = json!([{ "key": "tenant", "value": "acme" }]);
    let of_tokens = json!({ "domain": "llm", "descriptors": [{ "entries": entries, "hits_addend": 120 }] });
    assert_eq!(server.post("/v1/check", &of_tokens).status, 200);
    for _ in 0..3 {
        assert_eq!(check(&server, "exact", "acme").0, 200);
    }
    assert_eq!(check(&server, "exact", "somebody else").0, 200);

    let (status, page) = days(&server, "acme", "");
    assert_eq!(status, 200);
    let used: Vec<_> =
        page["items"].as_array().unwrap().iter().map(|day| (&day["rule"], &day["units"])).collect();
    assert_eq!(used, [(&json!("llm: tenant"), &json!(120)), (&json!("policy exact"), &json!(3))]);
    let day = page["items"][0]["day"].as_str().unwrap().to_owned();

    // A page at a time.
    let (_, first) = days(&server, "acme", "?limit=1");
    assert_eq!(first["items"].as_array().unwrap().len(), 1);
    let next = first["next"].as_str().unwrap().replace(' ', "%20");
    let (_, second) = days(&server, "acme", &format!("?limit=1&after={next}"));
    assert_eq!((&second["items"][0]["units"], &second["next"]), (&json!(3), &Value::Null));

    let (_, of_rule) = days(&server, "acme", "?rule=policy%20exact");
    assert_eq!(of_rule["items"].as_array().unwrap().len(), 1);
    let (_, elsewhen) = days(&server, "acme", "?from=2020-01-01&to=2020-12-31");
    assert_eq!(elsewhen["items"], json!([]));
    let (_, that_day) = days(&server, "acme", &format!("?from={day}&to={day}"));
    assert_eq!(that_day["items"].as_array().unwrap().len(), 2);
    let (status, wrong) = days(&server, "acme", "?from=yesterday");
    assert_eq!(status, 400, "{wrong}");
}

#[test]
fn usage_now_is_what_the_database_counts() {
    let mut server = launch("sqlite:data/tollgate.db").start();
    for _ in 0..7 {
        check(&server, "exact", "acme");
    }
    server.restart();
    let reply = server.ask_admin("GET", "/admin/v1/usage/acme", None);
    let usage: Value = serde_json::from_str(&reply.body).unwrap();
    let exact = usage["limits"].as_array().unwrap().iter().find(|limit| limit["policy"] == "exact").unwrap();
    assert_eq!((&exact["used"], &exact["remaining"]), (&json!(7), &json!(43)));

    let reply = server.ask_admin("POST", "/admin/v1/usage/acme/reset", Some(&json!({})));
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(check(&server, "exact", "acme").1["remaining"], 49);
    let (_, page) = days(&server, "acme", "");
    assert_eq!(page["items"][0]["units"], 8, "what was used was used, whatever is forgiven");
}
