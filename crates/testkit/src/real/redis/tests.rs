//! The fixture does what it says, with both servers.

use super::{RedisClient, RedisLaunch, Reply};

fn check(launch: RedisLaunch) {
    let mut server = launch.setting("maxmemory 64mb").start();
    let address = server.address();
    let mut client = server.client();
    assert_eq!(client.run("SET a 1"), Reply::Simple("OK".to_owned()));
    assert_eq!(client.run("GET a"), Reply::Bulk(b"1".to_vec()));
    assert_eq!(client.run("GET b"), Reply::Nil);
    assert_eq!(client.run("INCR a").integer(), 2);
    assert!(matches!(client.run("LPUSH a 1"), Reply::Error(message) if message.starts_with("WRONGTYPE")));
    let limit = Reply::Array(vec![Reply::Bulk(b"maxmemory".to_vec()), Reply::Bulk(b"67108864".to_vec())]);
    assert_eq!(client.run("CONFIG GET maxmemory"), limit);

    server.freeze();
    client.send(&[b"GET", b"a"]).expect("a connection that stays");
    server.thaw();
    assert_eq!(client.receive().expect("an answer").text(), "2");

    server.kill();
    assert!(client.try_command(&[b"PING"]).is_err(), "a killed server answers");
    assert!(RedisClient::connect(address).is_err(), "a killed server is reached");
    server.restart();
    assert_eq!(server.address(), address);
    assert_eq!(server.client().run("GET a"), Reply::Nil);
    drop(server);
    assert!(RedisClient::connect(address).is_err(), "a server that outlives its owner");
}

#[test]
fn redis_starts_freezes_dies_and_comes_back() {
    check(RedisLaunch::redis());
}

#[test]
fn valkey_starts_freezes_dies_and_comes_back() {
    check(RedisLaunch::valkey());
}
