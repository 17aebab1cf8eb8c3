//! That the server under test does what it is told: it keeps what was committed when it is killed, and ends with all its children.

use std::fs;

use super::*;

#[test]
fn starts_answers_and_keeps_what_was_committed() {
    let mut server = PostgresServer::start();
    assert_eq!(server.sql("SELECT 1, 'a'"), "1|a");
    server.sql("CREATE TABLE kept (n BIGINT); INSERT INTO kept VALUES (7)");
    let before = server.address();
    server.restart();
    assert_eq!(server.address(), before);
    assert_eq!(server.sql("SELECT n FROM kept"), "7");
    assert!(server.url().ends_with("/tollgate"), "{}", server.url());
}

#[test]
fn ends_with_its_children_and_leaves_nothing() {
    let server = PostgresServer::start();
    let (parent, folder) = (server.pid(), server.folder().to_owned());
    let children = children(parent);
    assert!(!children.is_empty());
    server.freeze();
    server.thaw();
    assert_eq!(server.sql("SELECT 2"), "2");
    let memory = fs::read_to_string(data(&folder).join("postmaster.pid")).expect("a file of its own");
    let memory =
        memory.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)).expect("a number").to_owned();
    let is_there = || {
        let listed = fs::read_to_string("/proc/sysvipc/shm").expect("the shared memory of this machine");
        listed.lines().any(|line| line.split_whitespace().nth(1) == Some(&*memory))
    };
    assert!(is_there());
    drop(server);
    assert!(!is_there());
    let left: Vec<_> = children.into_iter().filter(|child| is_running(*child)).collect();
    assert!(left.is_empty(), "children of {parent} still run: {left:?}");
    assert!(fs::metadata(folder).is_err());
}

#[test]
fn has_databases_for_an_ordinary_user() {
    let server = PostgresServer::start();
    let url = server.new_database("another");
    assert!(url.ends_with("/another"), "{url}");
    let mut psql = server.tool("psql", USER);
    let done = run(psql.args([
        "-XtA",
        "-d",
        "another",
        "-c",
        "SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user",
    ]));
    assert_eq!(done.stdout.trim_end(), "tollgate|f", "{}", done.stderr);
}
