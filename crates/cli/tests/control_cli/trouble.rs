//! What goes wrong: who hears of it, with which exit code, and who does not.

use std::path::Path;

use insta::assert_snapshot;
use serde_json::json;

use crate::canned::{Canned, answer, ask, ask_without_token, check, ok, problem};
use crate::{TOKEN, tollgate};

/// What the command says, with its exit code above.
fn check_fails(arguments: &[&str], answers: Vec<Canned>) -> String {
    let (finished, _) = ask(arguments, answers);
    assert_eq!(finished.stdout, "", "{arguments:?}");
    assert!(!finished.stderr.contains(TOKEN), "{}", finished.stderr);
    format!("exit code {:?}\n{}", finished.code.unwrap(), finished.stderr)
}

#[test]
fn refusals_are_told() {
    let body = json!({
        "type": "about:blank", "title": "Unprocessable Content", "status": 422, "detail": "the quota is wrong",
        "errors": [{"line": 1, "column": 10, "message": "unknown tier `gold`", "hint": "did you mean `pro`?"}],
    });
    let refused = answer(422, "", &body.to_string());
    assert_snapshot!(check_fails(&["usage", "acme"], vec![refused]), @"
    exit code 1
    the server refuses (422): Unprocessable Content
    the quota is wrong
      line 1, column 10: unknown tier `gold`
         = did you mean `pro`?
    ");
    let refused = problem(412, "Precondition Failed", "it has version 9 now");
    assert_snapshot!(check_fails(&["quota", "delete", "acme", "--if-match", "7"], vec![refused]), @"
    exit code 1
    the server refuses (412): Precondition Failed
    it has version 9 now
    It was changed since you looked: look again, and decide again.
    ");
    let refused = problem(401, "Unauthorized", "a bearer token is needed");
    assert_snapshot!(check_fails(&["quota", "list"], vec![refused.clone()]), @"
    exit code 1
    the server refuses (401): Unauthorized
    a bearer token is needed
    The token that was shown is not one of the server's.
    ");
    let folder = tempfile::tempdir().unwrap();
    let (finished, asked) = ask_without_token(folder.path(), &["quota", "list"], vec![refused]);
    assert_eq!(asked[0].field("authorization"), None);
    assert!(finished.stderr.contains("No token was shown: name its file with --token-file"), "{finished:?}");
}

#[test]
fn what_is_not_the_admin_api_is_noticed() {
    let said = check_fails(&["quota", "get", "acme"], vec![answer(404, "", "nothing here\n")]);
    assert_snapshot!(said, @"
    exit code 1
    status 404, and nothing that the admin API says: is this Tollgate's admin listener?
    nothing here
    ");
    let said = check_fails(&["quota", "list"], vec![ok(&json!({"hello": 1}))]);
    assert!(said.contains("without a list"), "{said}");
}

#[test]
fn a_lost_connection_is_tried_once_more_with_the_same_key() {
    let (told, asked) = check(&["quota", "delete", "acme"], vec![Canned::HangUp, ok(&json!({"version": 8}))]);
    assert!(told.contains("deleted"), "{told}");
    let key = |i: usize| asked[i].field("idempotency-key").unwrap().to_owned();
    assert_eq!(key(0), key(1));
    let said = check_fails(&["quota", "delete", "acme"], vec![Canned::HangUp, Canned::HangUp]);
    assert!(said.contains("exit code 1") && said.contains("the connection was lost"), "{said}");
}

#[test]
fn who_asks_too_often_waits_and_asks_again() {
    let busy = || {
        let body = json!({"title": "Too Many Requests", "detail": "slower"}).to_string();
        answer(429, "retry-after: 0\r\n", &body)
    };
    let (_, asked) = check(&["quota", "delete", "acme"], vec![busy(), busy(), ok(&json!({"version": 8}))]);
    let keys: Vec<_> = asked.iter().map(|asked| asked.field("idempotency-key").unwrap()).collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    let patient = answer(429, "retry-after: 3600\r\n", r#"{"title": "Too Many Requests"}"#);
    let said = check_fails(&["quota", "list"], vec![patient]);
    assert!(said.contains("Try again in 3600 s."), "{said}");
}

#[test]
fn what_is_typed_wrong_is_said_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let check = |arguments: &[&str], part: &str| {
        let finished = tollgate(folder.path(), arguments);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{arguments:?} {finished:?}");
        assert!(finished.stderr.contains(part), "{arguments:?}: {}", finished.stderr);
    };
    check(&["quota", "set", "acme"], "--tier");
    check(&["quota", "set", "acme", "--override", "a:b"], "says no numbers");
    check(&["quota", "set", "acme", "--tier", "a", "--no-tier"], "cannot be used");
    check(&["quota", "set", "acme", "--file", "a.json", "--tier", "pro"], "cannot be used");
    check(&["key", "ban", "--policy", "api", "--key", "a"], "--until");
    check(&["key", "ban", "--policy", "api", "--key", "a", "--for", "a while"], "is no moment");
    check(&["key", "ban", "--policy", "api", "--key", "a", "--until", "2026-01-01T00:00:00"], "append Z");
    check(&["key", "ban", "--domain", "shop", "nonsense", "--for", "1h"], "not an entry");
    check(&["key", "boost", "--policy", "api", "--key", "a", "--for", "1h"], "--percent");
    check(&["key", "lift"], "required");
    check(&["switch", "off"], "all");
    check(&["audit", "verify", "--head", "x"], "VERSION:HASH");
    check(&["audit", "list", "--from", "whenever"], "is no moment");
    check(&["usage"], "KEY");
    check(&["quota", "list", "--server", "what is this"], "is not an http://");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let finished = tollgate(Path::new("."), &["node", "list", "--server=http://127.0.0.1:1"]);
    assert_eq!(finished.code, Some(1));
    assert!(
        finished.stderr.starts_with("no answer from http://127.0.0.1:1: Connection refused"),
        "{finished:?}"
    );
    let finished = tollgate(Path::new("."), &["node", "list", "--token-file", "/nowhere/token"]);
    assert!(finished.stderr.starts_with("cannot read `/nowhere/token`"), "{finished:?}");
}

#[test]
fn a_token_is_never_shown() {
    let hidden = tollgate(Path::new("."), &["quota", "list", "--help"]);
    assert!(hidden.stdout.contains("TOLLGATE_ADMIN_TOKEN") && !hidden.stdout.contains(TOKEN), "{hidden:?}");
    let bad = tollgate(Path::new("."), &["quota", "list", "--token", "with\na line"]);
    assert!(bad.code == Some(2) && !bad.stderr.contains("a line"), "{bad:?}");
}

#[test]
fn every_command_has_an_example() {
    let groups: [(&str, &[&str]); 8] = [
        ("quota", &["list", "get", "set", "delete"]),
        ("policy", &["list", "get", "set", "delete"]),
        ("usage", &["reset"]),
        ("key", &["inspect", "reset", "ban", "boost", "list", "lift"]),
        ("switch", &["show", "off", "on"]),
        ("audit", &["list", "export", "verify"]),
        ("node", &["list"]),
        ("import", &[]),
    ];
    for (group, commands) in groups {
        for words in commands.iter().map(|command| vec![group, command]).chain([vec![group]]) {
            let finished = tollgate(Path::new("."), &[&words[..], &["--help"]].concat());
            let example = format!("tollgate {}", words.join(" "));
            let help = finished.stdout;
            let examples = help.split("Example").nth(1).unwrap_or_else(|| panic!("{words:?}: {help}"));
            assert!(examples.contains(&example), "{words:?}: {help}");
        }
    }
}
