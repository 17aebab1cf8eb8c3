//! How many nodes share a limit, as they count themselves.
#![allow(clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use common::{connect, fleet, started, until};
use tollgate_redis::Authority;
use tollgate_store::Clock;
use tollgate_testkit::real::redis::{RedisServer, Reply};

/// Whether all others count a node at present.
fn is_counted(node: &Authority) -> bool {
    Clock::new().now() <= node.fleet().counted_until()
}

fn text(server: &RedisServer) -> String {
    format!("redis://{}", server.address())
}

#[tokio::test]
async fn nodes_count_themselves() {
    let server = RedisServer::start();
    common::add_user(&server, &common::documented_rights()[0]);
    let text = common::as_user(&text(&server));
    let one = connect(&text).await;
    until("one node", async || (one.fleet().nodes() == 1).then_some(())).await;
    assert!(!is_counted(&one), "others may not know of it yet");
    let two = connect(&text).await;
    until("both know of two", async || (one.fleet().nodes() == 2 && two.fleet().nodes() == 2).then_some(()))
        .await;
    until("both know that the other knows", async || (is_counted(&one) && is_counted(&two)).then_some(()))
        .await;
    server.freeze();
    until("nobody knows any more", async || (!is_counted(&one)).then_some(())).await;
    server.thaw();
    until("they know again", async || is_counted(&one).then_some(())).await;
    drop(two);
    until("one is gone", async || (one.fleet().nodes() == 1).then_some(())).await;
}

#[tokio::test]
async fn an_authority_that_has_forgotten_all_nodes_is_not_believed_that_there_is_one() {
    let mut server = RedisServer::start();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(connect(&text(&server)).await);
    }
    let counts = |nodes: &[Authority]| nodes.iter().map(|node| node.fleet().nodes()).collect::<Vec<_>>();
    until("all know of three", async || (counts(&nodes) == [3; 3]).then_some(())).await;
    server.restart();
    let mut client = server.client();
    let mut told = 0;
    until("all have told again", async || {
        assert_eq!(counts(&nodes), [3; 3], "after {told} have told");
        told = client.run("ZCARD tollgate:1:{nodes}").integer();
        (told == 3).then_some(())
    })
    .await;
    assert_eq!(counts(&nodes), [3; 3]);
}

#[tokio::test]
async fn another_thread_tells_when_the_one_that_did_has_ended() {
    let server = RedisServer::start();
    let fleet = fleet(&text(&server));
    let first = started(&fleet).await;
    let mut client = server.client();
    let mut told_at = || match client.run("ZRANGE tollgate:1:{nodes} 0 -1 WITHSCORES") {
        Reply::Array(nodes) => nodes.get(1).map(|score| score.text().parse::<u64>().unwrap()),
        other => panic!("{other:?}"),
    };
    until("the first tells", async || told_at()).await;
    let second = started(&fleet).await;
    drop(first);
    let before = told_at();
    until("the second tells", async || (told_at() > before).then_some(())).await;
    drop(second);
}
