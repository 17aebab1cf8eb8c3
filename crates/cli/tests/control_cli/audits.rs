//! The audit: listed, exported, verified.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::canned::{answer, ask, ask_in, check, ok, problem};

fn row(version: u64) -> Value {
    json!({
        "version": version, "at": "2026-11-17T07:00:00.123Z", "who": "ann", "role": "operator", "action": "put", "kind": "quota",
        "id": "acme", "before": {"tier": "pro", "overrides": []}, "after": {"tier": "enterprise", "overrides": []},
        "previous": "00", "hash": format!("{version:064x}"),
    })
}

#[test]
fn who_did_it_is_listed() {
    let mut deleted = row(13);
    deleted["action"] = json!("delete");
    deleted["after"] = json!(null);
    let act = json!({"act": "ban", "policy": "api", "key": "acme", "until": "2026-11-17T08:00:00Z", "reason": "a job"});
    let of_key = |version: u64, action: &str, before: Value, after: Value| {
        let mut row = row(version);
        for (field, value) in [("action", json!(action)), ("kind", json!("key")), ("id", json!("00ff"))] {
            row[field] = value;
        }
        row["before"] = before;
        row["after"] = after;
        row
    };
    let banned = of_key(14, "ban", json!(null), act.clone());
    let lifted = of_key(15, "delete", act, json!(null));
    let page = json!({"items": [row(12), deleted, banned, lifted], "next": null});
    let words = ["audit", "list", "--kind", "quota", "--id", "acme", "--from", "2026-11-17"];
    let (told, asked) = check(&words, vec![ok(&page)]);
    let path = "/admin/v1/audit?kind=quota&id=acme&from=2026-11-17T00%3A00%3A00Z&order=newest&limit=100";
    assert_eq!(asked[0].path, path);
    assert_snapshot!(told, @"
    VERSION  WHEN                  WHO  ROLE      ACTION  KIND   ID    WHAT
         12  2026-11-17T07:00:00Z  ann  operator  put     quota  acme  tier pro -> enterprise
         13  2026-11-17T07:00:00Z  ann  operator  delete  quota  acme  what the rules say applies
         14  2026-11-17T07:00:00Z  ann  operator  ban     key    00ff  ban of api acme until 2026-11-17T08:00:00Z: a job
         15  2026-11-17T07:00:00Z  ann  operator  delete  key    00ff  end of the ban of api acme
    ");
}

#[test]
fn an_export_goes_on_after_the_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let lines = |versions: &[u64]| {
        versions.iter().map(|version| row(*version).to_string() + "\n").collect::<String>()
    };
    let (finished, asked) = ask_in(
        folder.path(),
        &["audit", "export", "--output", "audit.jsonl"],
        vec![answer(200, "", &lines(&[1, 2])), answer(200, "", &lines(&[3])), answer(200, "", "")],
    );
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stderr, "3 changes, up to version 3, in audit.jsonl\n");
    let paths: Vec<&str> = asked.iter().map(|asked| asked.path.as_str()).collect();
    let export = |after: u64| format!("/admin/v1/audit/export?after={after}");
    assert_eq!(paths, [export(0), export(2), export(3)]);
    assert_eq!(fs::read_to_string(folder.path().join("audit.jsonl")).unwrap(), lines(&[1, 2, 3]));
}

#[test]
fn an_export_that_breaks_off_says_how_far_it_came() {
    let away = problem(503, "Service Unavailable", "the database is away");
    let (finished, _) =
        ask(&["audit", "export", "--after", "4"], vec![answer(200, "", &format!("{}\n", row(5))), away]);
    assert_eq!(finished.code, Some(1));
    assert_eq!(finished.stdout, format!("{}\n", row(5)));
    assert!(
        finished.stderr.contains("go on with --after 5") && finished.stderr.contains("is away"),
        "{finished:?}"
    );
}

fn whole() -> Value {
    json!({"ok": true, "rows": 12, "head": {"version": 12, "hash": format!("{:064x}", 12)}})
}

#[test]
fn a_chain_that_is_whole_is_said_to_be() {
    let (told, _) = check(&["audit", "verify"], vec![ok(&whole())]);
    assert_eq!(told, format!("12 changes, none touched\nhead 12:{:064x}\n", 12));
}

#[test]
fn a_chain_that_was_touched_is_exit_code_1() {
    let broken = json!({"ok": false, "version": 7, "detail": "its hash is not that of its contents"});
    let (finished, _) = ask(&["audit", "verify"], vec![ok(&broken)]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), ""));
    assert_eq!(finished.stderr, "the audit was touched: version 7: its hash is not that of its contents\n");
}

#[test]
fn a_head_that_was_seen_must_still_be_there() {
    let head = format!("12:{:064x}", 12);
    let page = |items: Value| ok(&json!({"items": items, "next": null}));
    let (told, asked) =
        check(&["audit", "verify", "--head", &head], vec![ok(&whole()), page(json!([row(12)]))]);
    assert_eq!(asked[1].path, "/admin/v1/audit?after=11&limit=1");
    assert!(told.starts_with("12 changes"), "{told}");
    for (items, part) in
        [(json!([]), "does not have version 12"), (json!([row(13)]), "does not have version 12")]
    {
        let (finished, _) = ask(&["audit", "verify", "--head", &head], vec![ok(&whole()), page(items)]);
        assert!(finished.code == Some(1) && finished.stderr.contains(part), "{finished:?}");
    }
    let mut other = row(12);
    other["hash"] = json!("ff".repeat(32));
    let (finished, _) = ask(&["audit", "verify", "--head", &head], vec![ok(&whole()), page(json!([other]))]);
    assert!(
        finished.code == Some(1) && finished.stderr.contains("is not the one that you have seen"),
        "{finished:?}"
    );
}
