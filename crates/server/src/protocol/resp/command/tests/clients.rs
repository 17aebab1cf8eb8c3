//! What clients and tools ask before and around the commands that matter.

use super::super::super::testing::{gate, talk};
use super::check;

#[tokio::test]
async fn ping_and_echo() {
    check(
        &["PING", "ping a", "ECHO b", "ECHO", "PING a b"],
        &[
            "+PONG|",
            "$1|a|",
            "$1|b|",
            r"-ERR wrong number of arguments for \'echo\' command|",
            r"-ERR wrong number of arguments for \'ping\' command|",
        ],
    )
    .await;
}

#[tokio::test]
async fn select_auth_and_config() {
    check(
        &["SELECT 0", "SELECT 1", "SELECT -1", "SELECT x"],
        &[
            "+OK|",
            "-ERR DB index is out of range|",
            "-ERR DB index is out of range|",
            "-ERR value is not an integer or out of range|",
        ],
    )
    .await;
    check(
        &["AUTH x", "AUTH default x", "AUTH a b", "AUTH a b c", "AUTH"],
        &[
            "-ERR AUTH <password> called without any password configured for the default user. \
         Are you sure your configuration is correct?|",
            "+OK|",
            "-WRONGPASS invalid username-password pair or user is disabled.|",
            "-ERR syntax error|",
            r"-ERR wrong number of arguments for \'auth\' command|",
        ],
    )
    .await;
    check(
        &["CONFIG GET save nosuch AppendOnly", "CONFIG GET nosuch", "CONFIG SET a b", "CONFIG GET"],
        &[
            "*4|$4|save|$0||$10|appendonly|$2|no|",
            "*0|",
            r"-ERR unknown subcommand \'SET\'. Try COMMAND DOCS CONFIG.|",
            r"-ERR wrong number of arguments for \'config|get\' command|",
        ],
    )
    .await;
}

/// What is said to a greeting, but for the number of the connection.
fn hello(version: u8, head: Option<&str>) -> String {
    let head = head.unwrap_or("*14|");
    format!(
        "{head}$6|server|$8|tollgate|$7|version|$5|7.0.0|$5|proto|:{version}|$2|id|:ID|\
         $4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|"
    )
}

#[tokio::test]
async fn greetings() {
    check(
        &["HELLO 3", "CLIENT GETNAME", "COMMAND INFO nosuch", "CONFIG GET x", "RESET", "CLIENT GETNAME"],
        &[&hello(3, Some("%7|")), "_|", "*1|_|", "%0|", "+RESET|", "$-1|"],
    )
    .await;
    check(
        &["HELLO 3 AUTH default x SETNAME me", "HELLO", "CLIENT GETNAME", "HELLO 2"],
        &[&hello(3, Some("%7|")), &hello(3, Some("%7|")), "$2|me|", &hello(2, None)],
    )
    .await;
    check(
        &[
            "HELLO 4",
            "HELLO x",
            "HELLO 3 FOO",
            "HELLO 3 AUTH a",
            "HELLO 3 AUTH a b",
            "HELLO 3 SETNAME",
            "HELLO 3 SETNAME 'a b'",
            "CLIENT GETNAME",
        ],
        &[
            "-NOPROTO unsupported protocol version|",
            "-ERR Protocol version is not an integer or out of range|",
            r"-ERR Syntax error in HELLO option \'FOO\'|",
            r"-ERR Syntax error in HELLO option \'AUTH\'|",
            "-WRONGPASS invalid username-password pair or user is disabled.|",
            r"-ERR Syntax error in HELLO option \'SETNAME\'|",
            "-ERR Client names cannot contain spaces, newlines or special characters.|",
            "$-1|", // Still the first version.
        ],
    )
    .await;
}

#[tokio::test]
async fn client() {
    check(
        &[
            "CLIENT SETNAME me",
            "client getname",
            "CLIENT SETINFO lib-name x",
            "CLIENT NO-EVICT on",
            "CLIENT NO-TOUCH x",
            "CLIENT SETNAME",
            "CLIENT SETNAME ''",
            "CLIENT GETNAME",
            "CLIENT FOO",
        ],
        &[
            "+OK|",
            "$2|me|",
            "+OK|",
            "+OK|",
            "-ERR syntax error|",
            r"-ERR wrong number of arguments for \'client|setname\' command|",
            "+OK|",
            "$-1|",
            r"-ERR unknown subcommand \'FOO\'. Try COMMAND DOCS CLIENT.|",
        ],
    )
    .await;
    let name = "x".repeat(256);
    check(
        &[&format!("CLIENT SETNAME {name}"), &format!("CLIENT SETNAME {name}x")],
        &["+OK|", "-ERR Client names cannot be longer than 256 bytes.|"],
    )
    .await;
}

async fn text(line: &str) -> String {
    String::from_utf8(talk(&gate(), format!("{line}\r\n").as_bytes()).await).unwrap()
}

#[tokio::test]
async fn connections_have_numbers_of_their_own() {
    assert_ne!(text("CLIENT ID").await, text("CLIENT ID").await);
    assert!(text("CLIENT INFO").await.contains(" user=default resp=2\n"));
    assert!(text("HELLO 3\r\nCLIENT LIST").await.contains("\r\ntxt:id="));
}

#[tokio::test]
async fn info() {
    let all = text("CL.THROTTLE k 10 10 60\r\nINFO").await;
    for part in [
        "# Server\r\n",
        "redis_version:7",
        "tollgate_version:",
        "# Stats\r\n",
        "\r\nkeys:1\r\n",
        "evicted_keys:0\r\n",
    ] {
        assert!(all.contains(part), "no {part:?} in {all}");
    }
    assert!(text("INFO everything").await.contains("# Memory\r\nused_memory:"));
    let stats = text("INFO STATS").await;
    assert!(stats.contains("\r\n# Stats\r\n") && !stats.contains("# Server"), "{stats}");
    check(&["INFO nosuch"], &["$0||"]).await;
    assert!(text("HELLO 3\r\nINFO").await.contains("\r\ntxt:# Server\r\n"));
}

#[tokio::test]
async fn commands() {
    check(
        &["COMMAND COUNT", "COMMAND COUNT x", "COMMAND FOO", "COMMAND LIST x"],
        &[
            ":16|",
            r"-ERR wrong number of arguments for \'command|count\' command|",
            r"-ERR unknown subcommand \'FOO\'. Try COMMAND DOCS COMMAND.|",
            "-ERR syntax error|",
        ],
    )
    .await;
    let throttle = "*10|$11|cl.throttle|:-5|*2|$5|write|$4|fast|:1|:1|:1|*0|*0|*0|*0|";
    check(&["COMMAND INFO CL.THROTTLE nosuch"], &["*2|", throttle, "*-1|"]).await;
    check(&["COMMAND DOCS reset nosuch RESET"], &[
        "*2|$5|reset|*8|$7|summary|$36|Makes this connection as good as new|$5|since|$5|0.1.0|$5|group|$10|connection|$9|arguments|*0|",
    ])
    .await;
    assert!(text("COMMAND").await.starts_with("*16\r\n*10\r\n$11\r\ncl.throttle\r\n"));
    assert!(text("COMMAND LIST").await.starts_with("*16\r\n$11\r\ncl.throttle\r\n"));
    assert!(text("HELLO 3\r\nCOMMAND DOCS").await.contains("%16\r\n$11\r\ncl.throttle\r\n%4\r\n"));
}
