//! Every command through a connection: what clients send, and what they get, byte by byte.
#![allow(clippy::unwrap_used, clippy::panic)]

mod clients;
mod counted;
mod tokens;

use super::super::testing::{PERIOD, gate, talk};
use super::*;

/// Times that are longer than this are rounded up to a multiple of it: while a test runs, some of it comes back.
const ABOUT: i64 = 60_000;

/// Sends lines over one connection and compares the answers, in which `|` stands for the end of a line, and `ID` for the number that
/// the connection has.
async fn check(lines: &[&str], expected: &[&str]) {
    check_on(&gate(), lines, expected).await;
}

async fn check_on(gate: &Gate, lines: &[&str], expected: &[&str]) {
    let sent = lines.join("\r\n") + "\r\n";
    let received = talk(gate, sent.as_bytes()).await;
    let received = received.escape_ascii().to_string().replace(r"\r\n", "\n");
    let mut last = "";
    let received: String = received
        .lines()
        .map(|line| match line.strip_prefix(':').map(|number| number.parse::<i64>().unwrap()) {
            Some(_) if std::mem::replace(&mut last, line) == "id" => ":ID|".to_owned(),
            Some(number) if number > ABOUT => format!(":{}|", (number + ABOUT - 1) / ABOUT * ABOUT),
            _ => {
                last = line;
                format!("{line}|")
            }
        })
        .collect();
    assert_eq!(received, expected.concat(), "{lines:?}");
}

/// Calls that follow each other are decided together. Whatever comes between them, answers come in the order of the calls.
#[tokio::test]
async fn calls_of_several_kinds_are_answered_in_their_order() {
    let throttle = "CL.THROTTLE k 1 1 4020000";
    let (first, second) = ("*5|:0|:2|:1|:-1|:4020000|", "*5|:0|:2|:0|:-1|:8040000|");
    let limited = "*5|:1|:2|:0|:4020000|:8040000|";
    check(
        &[
            throttle,
            "TG.CHECK none k",
            "TG.CHECK open k",
            throttle,
            throttle,
            "PING",
            "CL.THROTTLE other 1 1 4020000",
            "CL.THROTTLE k x 1 1",
            throttle,
            "CL.THROTTLE k",
            "TG.CHECK open k x",
            "TG.CHECK open k",
            "NONE",
            throttle,
        ],
        &[
            first,
            "-ERR unknown policy \\\"none\\\"; it could be jobs, open, queue, small, tiered|",
            "*5|:1|:-1|:-1|:0|:0|",
            second,
            limited,
            "+PONG|",
            first,
            "-ERR max_burst must be a whole number from 0 to 9223372036854775807|",
            limited,
            "-ERR wrong number of arguments for \\'cl.throttle\\' command|",
            "-ERR cost must be a whole number from 0 to 18446744073709551615|",
            "*5|:1|:-1|:-1|:0|:0|",
            "-ERR unknown command \\'NONE\\', with args beginning with: |",
            limited,
        ],
    )
    .await;
}

/// More calls than wait at the same time, with names and keys longer than are kept.
#[tokio::test]
async fn long_pipelines_are_decided_in_pieces() {
    let long = "k".repeat(10_000);
    let lines: Vec<String> = (0..100).map(|_| format!("TG.CHECK small {long}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let received = talk(&gate(), (lines.join("\r\n") + "\r\n").as_bytes()).await;
    let received = String::from_utf8(received).unwrap();
    assert_eq!(received.matches("*5\r\n:1\r\n").count(), 3, "{received}");
    assert_eq!(received.matches("*5\r\n:0\r\n").count(), 97);
}

#[tokio::test]
async fn throttle() {
    check(
        &[
            "CL.THROTTLE k 1 1 4020000 1",
            "cl.throttle k 1 1 4020000",
            "Cl.Throttle k 1 1 4020000",
            "CL.THROTTLE k 1 1 4020000 3",
        ],
        &[
            "*5|:0|:2|:1|:-1|:4020000|",
            "*5|:0|:2|:0|:-1|:8040000|",
            "*5|:1|:2|:0|:4020000|:8040000|",
            "*5|:1|:2|:0|:-1|:8040000|",
        ],
    )
    .await;
    check(&["CL.THROTTLE k 15 30 60 0"], &["*5|:0|:16|:16|:-1|:0|"]).await;
    check(&[r#"CL.THROTTLE "\x00\xff" 15 30 60"#], &["*5|:0|:16|:15|:-1|:2|"]).await;
    check(
        &["CL.THROTTLE k 1 1", "CL.THROTTLE k 1 1 1 1 1", "CL.THROTTLE k 1 x 1"],
        &[
            "-ERR wrong number of arguments for \\'cl.throttle\\' command|",
            "-ERR wrong number of arguments for \\'cl.throttle\\' command|",
            "-ERR count must be a whole number from 1 to 9223372036854775807|",
        ],
    )
    .await;
}

/// How long `small`, `queue` and `tiered` take to give back so many units.
fn back_ms(units: u128) -> u128 {
    PERIOD.as_millis() / 10 * units
}

#[tokio::test]
async fn checks_policies() {
    let (one, three) = (back_ms(1), back_ms(3));
    check(
        &["TG.CHECK small k", "tg.check small k 2", "TG.CHECK small k 4", "TG.CHECK small k 0"],
        &[
            &format!("*5|:1|:3|:2|:0|:{one}|"),
            &format!("*5|:1|:3|:0|:0|:{three}|"),
            &format!("*5|:0|:3|:0|:-1|:{three}|"),
            &format!("*5|:1|:3|:0|:0|:{three}|"),
        ],
    )
    .await;
    check(&["TG.CHECK open k 18446744073709551615"], &["*5|:1|:-1|:-1|:0|:0|"]).await;
}

#[tokio::test]
async fn a_denial_says_when_to_ask_again() {
    let (one, three) = (back_ms(1), back_ms(3));
    check(
        &["TG.CHECK small k 3", "TG.CHECK small k"],
        &[&format!("*5|:1|:3|:0|:0|:{three}|"), &format!("*5|:0|:3|:0|:{one}|:{three}|")],
    )
    .await;
}

#[tokio::test]
async fn peeks_at_policies() {
    let one = back_ms(1);
    check(
        &["TG.PEEK small k 4", "TG.PEEK small k", "TG.PEEK small k", "TG.CHECK small k", "TG.PEEK small k 0"],
        &[
            "*5|:0|:3|:3|:-1|:0|",
            "*5|:1|:3|:3|:0|:0|",
            "*5|:1|:3|:3|:0|:0|",
            &format!("*5|:1|:3|:2|:0|:{one}|"),
            &format!("*5|:1|:3|:2|:0|:{one}|"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_queue_says_how_long_to_wait() {
    let (one, two) = (back_ms(1), back_ms(2));
    check(
        &["TG.CHECK queue k", "TG.CHECK queue k"],
        &[&format!("*5|:1|:11|:10|:0|:{one}|"), &format!("*5|:1|:11|:9|:{one}|:{two}|")],
    )
    .await;
}

#[tokio::test]
async fn tiers() {
    let (two, five) = (back_ms(2), back_ms(5));
    check(&["TG.CHECK tiered k 2 TIER gold"], &[&format!("*5|:1|:5|:3|:0|:{two}|")]).await;
    check(&["TG.CHECK tiered k 5 tier gold"], &[&format!("*5|:1|:5|:0|:0|:{five}|")]).await;
    check(&["TG.PEEK tiered k TIER gold", "TG.PEEK tiered k"], &["*5|:1|:5|:5|:0|:0|", "*5|:1|:2|:2|:0|:0|"])
        .await;
}

#[tokio::test]
async fn bad_questions_about_policies() {
    check(
        &[
            "TG.CHECK nosuch k",
            "TG.CHECK tiered k TIER lead",
            "TG.CHECK small k -1",
            "TG.CHECK small k 18446744073709551616",
            "TG.CHECK small k 1 TIERS gold",
            "TG.CHECK small k 1 TIER",
            r#"TG.CHECK "\xff" k"#,
            "TG.CHECK small",
            "TG.PEEK small k 1 TIER gold x",
        ],
        &[
            r#"-ERR unknown policy \"nosuch\"; it could be jobs, open, queue, small, tiered|"#,
            r#"-ERR policy \"tiered\" has no tier \"lead\"; its tiers are gold|"#,
            "-ERR cost must be a whole number from 0 to 18446744073709551615|",
            "-ERR cost must be a whole number from 0 to 18446744073709551615|",
            "-ERR syntax error: after the key comes [cost] [TIER name]|",
            "-ERR syntax error: after the key comes [cost] [TIER name]|",
            "-ERR the name of a policy must be UTF-8 text|",
            r"-ERR wrong number of arguments for \'tg.check\' command|",
            r"-ERR wrong number of arguments for \'tg.peek\' command|",
        ],
    )
    .await;
}

#[tokio::test]
async fn leases() {
    let gate = gate();
    let received = String::from_utf8(talk(&gate, b"TG.ACQUIRE jobs k\r\n").await).unwrap();
    let lease = received.lines().last().unwrap();
    assert!(received.starts_with("*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:-1\r\n$"), "{received}");
    let again = talk(&gate, b"TG.ACQUIRE jobs k\r\nHELLO 3\r\nTG.ACQUIRE jobs k\r\n").await;
    let again = String::from_utf8(again).unwrap();
    assert!(again.starts_with("*6\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:-1\r\n$-1\r\n%7"), "{again}");
    assert!(again.ends_with("*6\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:-1\r\n_\r\n"), "{again}");
    let release = format!(
        "TG.RELEASE {lease}\r\nTG.RELEASE {lease}\r\nTG.ACQUIRE jobs k 0\r\nTG.RELEASE xyz\r\nTG.ACQUIRE small k\r\n"
    );
    let released = String::from_utf8(talk(&gate, release.as_bytes()).await).unwrap();
    assert_eq!(
        released.replace("\r\n", "|"),
        ":1|:0|*6|:1|:1|:1|:0|:-1|$-1|\
         -ERR this is not a lease: send back the `lease` that was given, as it is|\
         -ERR nothing to hold: no concurrency limit applies to this request|"
    );
}

#[tokio::test]
async fn without_rules_throttle_works_and_policies_say_why_they_do_not() {
    let gate = Gate::new(crate::gate::GateSettings::default()).unwrap();
    let received = talk(&gate, b"CL.THROTTLE k 1 1 1\r\nTG.CHECK a k\r\n").await;
    let expected = "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n-ERR no rate limit configuration loaded\r\n";
    assert_eq!(received.escape_ascii().to_string(), expected.escape_default().to_string());
}

#[tokio::test]
async fn unknown_commands() {
    check(
        &["FOO", r#"foo "a\nb" c"#],
        &[
            r"-ERR unknown command \'FOO\', with args beginning with: |",
            r"-ERR unknown command \'foo\', with args beginning with: \'a\\nb\' \'c\' |",
        ],
    )
    .await;
    let long = format!("*3\r\n$1000\r\n{0}\r\n$1000\r\n{0}\r\n$1000\r\n{0}\r\n", "\n".repeat(1_000));
    let received = talk(&gate(), long.as_bytes()).await;
    let escaped = r"\n".repeat(SHOWN_BYTES_MAX);
    let expected = format!("-ERR unknown command '{escaped}', with args beginning with: '{escaped}' \r\n");
    assert_eq!(String::from_utf8(received).unwrap(), expected);
}
