//! What calls are counted as.

use tollgate::core::Span;
use tollgate::{KeyAct, KeyActKind, KeySubject};

use super::super::super::testing::{gate, shadow_gate, talk};
use super::check_on;

/// Sends lines, and compares how many requests were allowed, denied, peeks, and bad, and which decisions there were.
async fn check(lines: &[&str], requests: [u64; 4], decisions: &[&str]) {
    let gate = gate();
    talk(&gate, (lines.join("\r\n") + "\r\n").as_bytes()).await;
    let text = gate.metrics_text().unwrap();
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    let outcome =
        |outcome| number(&format!(r#"ratelimit_requests_total{{protocol="resp",outcome="{outcome}"}}"#));
    let bad = number(r#"ratelimit_bad_requests_total{protocol="resp"}"#);
    assert_eq!([outcome("allowed"), outcome("denied"), outcome("peek"), bad], requests, "{lines:?}");
    let prefix = r#"ratelimit_decisions_total{domain="",rule=""#;
    let counted: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix(prefix))
        .filter(|line| !line.ends_with(" 0"))
        .collect();
    assert_eq!(counted, decisions, "{lines:?}");
}

#[tokio::test]
async fn decisions() {
    check(
        &["TG.CHECK small k 3", "TG.CHECK small k", "CL.THROTTLE k 0 1 60", "CL.THROTTLE k 0 1 60"],
        [2, 2, 0, 0],
        &[
            r#"(cl.throttle)",outcome="allowed"} 1"#,
            r#"(cl.throttle)",outcome="denied"} 1"#,
            r#"small",outcome="allowed"} 1"#,
            r#"small",outcome="denied"} 1"#,
        ],
    )
    .await;
}

#[tokio::test]
async fn peeks_are_no_decisions() {
    check(&["TG.PEEK small k", "TG.PEEK small k 4", "CL.THROTTLE k 1 1 60 0"], [0, 0, 3, 0], &[]).await;
}

#[tokio::test]
async fn bad_calls_once_each() {
    for bad in [
        "CL.THROTTLE k 1 x 1",
        "CL.THROTTLE k 1 1",
        "CL.THROTTLE k 9223372036854775807 1 1",
        "TG.CHECK small k -1",
        "TG.CHECK small k 1 TIERS gold",
        "TG.CHECK small",
        "TG.CHECK nosuch k",
        "TG.PEEK nosuch k",
        "TG.CHECK tiered k TIER lead",
        "TG.ACQUIRE small k",
        "TG.ACQUIRE jobs k x",
        "TG.RELEASE xyz",
        r#"TG.RELEASE "\xff""#,
    ] {
        check(&[bad], [0, 0, 0, 1], &[]).await;
    }
    // These ask for no decision, and so are no requests.
    check(&["ECHO", "FOO", "SELECT x"], [0, 0, 0, 0], &[]).await;
}

#[tokio::test]
async fn limits_in_shadow_mode_are_not_told() {
    let lines = ["TG.CHECK trial k", "TG.CHECK trial k", "TG.PEEK trial k"];
    check_on(&shadow_gate(), &lines, &["*5|:1|:-1|:-1|:0|:0|"; 3]).await;
}

#[tokio::test]
async fn a_banned_key_is_told_by_minus_two() {
    let gate = gate();
    let until = gate.now().plus(Span::from_ticks(3_600_000_000_000));
    let ban = |name: &str| {
        let subject = KeySubject::Policy { name: name.into(), key: b"bad".to_vec() };
        KeyAct { subject, until, what: KeyActKind::Ban }
    };
    gate.engine().set_key_acts(vec![ban("small"), ban("jobs")]).unwrap();
    let banned = ":0|:-2|:-2|:3600000|:3600000|";
    check_on(
        &gate,
        &["TG.CHECK small bad", "TG.PEEK small bad", "TG.ACQUIRE jobs bad", "TG.CHECK open bad"],
        &["*5|", banned, "*5|", banned, "*6|", banned, "$-1|", "*5|:1|:-1|:-1|:0|:0|"],
    )
    .await;
}
