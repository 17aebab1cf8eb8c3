//! Who did what, when, and that nobody can say otherwise.

use serde_json::{Value, json};

use crate::client::{Api, json_of};

pub(crate) fn tells_who_did_what(api: &Api<'_>) {
    let written = api.write("/quotas/audited", &json!({ "tier": "gold" }));
    let changed = api.write("/quotas/audited", &json!({ "tier": null }));
    assert_eq!(api.delete("/quotas/audited").status, 200);
    let rows = api.read("/audit?kind=quota&id=audited");
    let rows = rows["items"].as_array().unwrap();
    let told: Vec<_> =
        rows.iter().map(|row| [&row["action"], &row["before"]["tier"], &row["after"]["tier"]]).collect();
    assert_eq!(json!(told), json!([["put", null, "gold"], ["put", "gold", null], ["delete", null, null]]),);
    assert_eq!((&rows[0]["version"], &rows[1]["version"]), (&written["version"], &changed["version"]));
    assert_eq!(
        (&rows[0]["who"], &rows[0]["role"], &rows[0]["before"]),
        (&json!("admin"), &json!("admin"), &Value::Null)
    );
    assert_eq!((&rows[2]["after"], &rows[0]["at"]), (&Value::Null, &written["changed_at"]));
    assert_eq!(rows[1]["previous"], rows[0]["hash"]);

    let newest = api.read("/audit?limit=1&order=newest");
    assert_eq!(newest["items"][0], rows[2]);
    let after = rows[0]["version"].as_u64().unwrap();
    assert_eq!(api.read(&format!("/audit?limit=1&after={after}"))["items"][0], rows[1]);
    let at = rows[0]["at"].as_str().unwrap();
    let none = |query: &str| assert_eq!(api.read(&format!("/audit?{query}"))["items"], json!([]), "{query}");
    none(&format!("kind=quota&id=audited&to={at}"));
    none("who=nobody");
    none("action=nothing");
    assert!(api.read(&format!("/audit?from={at}&action=put"))["items"].as_array().unwrap().len() >= 2);
    for action in ["put", "delete", "ban", "boost", "reset"] {
        assert_ne!(api.read(&format!("/audit?action={action}"))["items"], json!([]), "{action}");
    }

    let exported = api.get("/audit/export");
    assert_eq!(exported.the("content-type"), "application/jsonl");
    let lines: Vec<Value> = exported.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let versions: Vec<u64> = lines.iter().map(|row| row["version"].as_u64().unwrap()).collect();
    assert_eq!(versions, (1..=versions.len() as u64).collect::<Vec<_>>(), "without gaps");
    assert!(lines.contains(&rows[0]));
    let some = api.get(&format!("/audit/export?after={after}&kind=quota&id=audited"));
    assert_eq!(some.body.lines().count(), 2);
    let verified = api.read("/audit/verify");
    assert_eq!((&verified["ok"], &verified["rows"]), (&json!(true), &json!(versions.len())), "{verified}");
    assert_eq!(verified["head"]["hash"], lines.last().unwrap()["hash"]);
}

/// After a restart.
pub(crate) fn is_still_whole(api: &Api<'_>) {
    let verified = json_of(&api.get("/audit/verify"));
    assert_eq!(verified["ok"], true, "{verified}");
}
