//! Clients of a listener that wants tokens: in Redis's own words.

use super::super::super::frame::{
    STRANGER_ARGUMENT_BYTES_MAX, STRANGER_ARGUMENTS_MAX, STRANGER_LINE_BYTES_MAX,
};
use super::super::super::testing::{guarded, talk};
use super::check_on;
use crate::access::Access;

const NOAUTH: &str = "-NOAUTH Authentication required.|";
const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.|";
const HELLO_NOAUTH: &str = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the \
     HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
     protocol version at the same time|";

async fn check(lines: &[&str], expected: &[&str]) {
    check_on(&guarded(), lines, expected).await;
}

#[tokio::test]
async fn nothing_is_answered_before_a_token_is_shown() {
    check(
        &[
            "PING",
            "CL.THROTTLE k 1 1 60",
            "TG.CHECK small k",
            "INFO",
            "COMMAND",
            "CLIENT ID",
            "SELECT 0",
            "QUIT",
        ],
        &[NOAUTH, NOAUTH, NOAUTH, NOAUTH, NOAUTH, NOAUTH, NOAUTH, "+OK|"],
    )
    .await;
}

#[tokio::test]
async fn a_token_is_shown_in_three_ways() {
    check(&["AUTH 0123456789abcdef", "PING"], &["+OK|", "+PONG|"]).await;
    check(&["AUTH default fedcba9876543210", "PING"], &["+OK|", "+PONG|"]).await;
    check(&["HELLO 2 AUTH default 0123456789abcdef SETNAME me", "CLIENT GETNAME"], &[
        "*14|$6|server|$8|tollgate|$7|version|$5|7.0.0|$5|proto|:2|$2|id|:ID|$4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|",
        "$2|me|",
    ])
    .await;
}

#[tokio::test]
async fn a_wrong_token_lets_nobody_in() {
    check(
        &[
            "AUTH 0123456789abcdeF",
            "AUTH default 0123456789abcde",
            "AUTH admin 0123456789abcdef",
            "AUTH default 0123456789abcdef x",
            "AUTH",
            "HELLO 3 AUTH default wrong",
            "HELLO 3 AUTH other 0123456789abcdef",
            "HELLO 3 AUTH default wrong SETNAME me",
            "PING",
        ],
        &[
            WRONGPASS,
            WRONGPASS,
            WRONGPASS,
            "-ERR syntax error|",
            r"-ERR wrong number of arguments for \'auth\' command|",
            WRONGPASS,
            WRONGPASS,
            WRONGPASS,
            NOAUTH,
        ],
    )
    .await;
}

#[tokio::test]
async fn a_greeting_needs_a_token_too() {
    // Neither the version nor the name is taken over.
    check(
        &["HELLO", "HELLO 3 SETNAME me", "AUTH 0123456789abcdef", "CLIENT GETNAME"],
        &[HELLO_NOAUTH, HELLO_NOAUTH, "+OK|", "$-1|"],
    )
    .await;
}

#[tokio::test]
async fn whoever_is_in_stays_until_it_resets() {
    check(
        &["AUTH 0123456789abcdef", "AUTH wrong", "PING", "RESET", "PING"],
        &["+OK|", WRONGPASS, "+PONG|", "+RESET|", NOAUTH],
    )
    .await;
}

#[tokio::test]
async fn those_without_a_token_are_counted_and_take_nothing() {
    let gate = guarded();
    check_on(
        &gate,
        &["CL.THROTTLE k 1 1 60", "AUTH wrong", "AUTH 0123456789abcdef"],
        &[NOAUTH, WRONGPASS, "+OK|"],
    )
    .await;
    let metrics = gate.metrics_text().unwrap();
    assert!(metrics.contains("ratelimit_unauthorized_total{protocol=\"resp\"} 2\n"), "{metrics}");
    assert!(
        metrics.contains("ratelimit_requests_total{protocol=\"resp\",outcome=\"allowed\"} 0\n"),
        "{metrics}"
    );
}

/// A command of so many arguments, the last of which has so many bytes.
fn command(arguments: usize, bytes: usize) -> String {
    let mut command = format!("*{arguments}\r\n$4\r\nECHO\r\n");
    command.push_str(&"$1\r\nx\r\n".repeat(arguments - 2));
    command + &format!("${bytes}\r\n{}\r\n", "x".repeat(bytes))
}

#[tokio::test]
async fn strangers_have_less_room() {
    let (arguments, bytes, line) =
        (STRANGER_ARGUMENTS_MAX, STRANGER_ARGUMENT_BYTES_MAX, STRANGER_LINE_BYTES_MAX);
    let allowed = "-NOAUTH Authentication required.\r\n";
    let echo = |length: usize| format!("ECHO {}\r\n", "x".repeat(length - "ECHO \r".len()));
    for (sent, expected) in [
        (command(2, bytes), allowed),
        (command(2, bytes + 1), "-ERR Protocol error: unauthenticated bulk length\r\n"),
        (command(arguments, 1), "-ERR wrong number of arguments for 'echo' command\r\n"),
        (command(arguments + 1, 1), "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        (echo(line), allowed),
        (echo(line + 1), "-ERR Protocol error: too big inline request\r\n"),
    ] {
        assert_eq!(String::from_utf8(talk(&guarded(), sent.as_bytes()).await).unwrap(), expected);
    }
    // Within one reading, too.
    for sent in [command(2, bytes + 1), echo(line + 1)] {
        let answer = talk(&guarded(), format!("AUTH 0123456789abcdef\r\n{sent}").as_bytes()).await;
        assert!(answer.starts_with(b"+OK\r\n$16"), "{}", answer[..40].escape_ascii());
    }
}

#[tokio::test]
async fn what_a_token_may_not_do_is_refused_and_takes_nothing() {
    let access = Access::of_lines("0123456789abcdef scopes=check policies=small,tiered");
    let gate = super::super::super::testing::gate().with_access(access);
    check_on(
        &gate,
        &[
            "AUTH 0123456789abcdef",
            "CL.THROTTLE k 1 1 60",
            "TG.CHECK tiered k TIER gold",
            "TG.CHECK other k",
            "TG.PEEK other k",
            "TG.ACQUIRE other k",
            "PING",
        ],
        &[
            "+OK|",
            "-NOPERM this token lacks the scope `override`|",
            "-NOPERM this token lacks the scope `tier`|",
            r#"-NOPERM this token may not use the policy \"other\"|"#,
            r#"-NOPERM this token may not use the policy \"other\"|"#,
            r#"-NOPERM this token may not use the policy \"other\"|"#,
            "+PONG|",
        ],
    )
    .await;
    let metrics = gate.metrics_text().unwrap();
    assert!(metrics.contains("ratelimit_unauthorized_total{protocol=\"resp\"} 5\n"), "{metrics}");
    assert!(
        metrics.contains("ratelimit_requests_total{protocol=\"resp\",outcome=\"allowed\"} 0\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("ratelimit_requests_total{protocol=\"resp\",outcome=\"denied\"} 0\n"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_token_without_the_scope_check_releases_nothing() {
    let access = Access::of_lines("0123456789abcdef\nfedcba9876543210 scopes=reserve");
    let gate = super::super::super::testing::gate().with_access(access);
    let acquired = talk(&gate, b"AUTH 0123456789abcdef\r\nTG.ACQUIRE jobs k\r\n").await;
    let acquired = String::from_utf8(acquired).unwrap();
    let lease = acquired.lines().last().unwrap();
    check_on(
        &gate,
        &[
            "AUTH fedcba9876543210",
            &format!("TG.RELEASE {lease}"),
            "AUTH 0123456789abcdef",
            &format!("TG.RELEASE {lease}"),
        ],
        &["+OK|", "-NOPERM this token lacks the scope `check`|", "+OK|", ":1|"],
    )
    .await;
}

#[tokio::test]
async fn a_bounded_token_learns_no_names_of_other_policies() {
    let access = Access::of_lines("0123456789abcdef policies=small,nosuch*");
    let gate = super::super::super::testing::gate().with_access(access);
    let unknown = r#"-ERR unknown policy \"nosuch\"; it could be small|"#;
    check_on(
        &gate,
        &["AUTH 0123456789abcdef", "TG.CHECK nosuch k", "TG.PEEK nosuch k", "TG.ACQUIRE nosuch k"],
        &["+OK|", unknown, unknown, unknown],
    )
    .await;
}

#[tokio::test]
async fn a_connection_that_guesses_is_closed_and_a_new_one_is_not() {
    let gate = guarded();
    let guesses = "AUTH wrong-0123456789\r\n".repeat(1_000);
    let answers = talk(&gate, guesses.as_bytes()).await;
    assert_eq!(String::from_utf8(answers).unwrap().matches("WRONGPASS").count(), 10);
    let answers = talk(&gate, b"AUTH 0123456789abcdef\r\nPING\r\n").await;
    assert_eq!(answers, b"+OK\r\n+PONG\r\n", "a valid token is looked at, though its address guesses");
    let answers = talk(&gate, b"AUTH wrong\r\nAUTH 0123456789abcdef\r\nPING\r\n").await;
    assert_eq!(String::from_utf8(answers).unwrap().lines().count(), 1, "a connection may be wrong once");
}

#[tokio::test]
async fn a_token_that_has_expired_is_refused() {
    let access = Access::of_lines(
        "0123456789abcdef expires=2020-01-01T00:00:00Z\nfedcba9876543210 expires=2100-01-01T00:00:00Z",
    );
    let gate = super::super::super::testing::gate().with_access(access);
    check_on(
        &gate,
        &["AUTH 0123456789abcdef", "PING", "AUTH fedcba9876543210", "PING"],
        &[WRONGPASS, NOAUTH, "+OK|", "+PONG|"],
    )
    .await;
}
