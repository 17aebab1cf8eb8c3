//! The detour does what it says.

use std::io::ErrorKind;
use std::time::Duration;

use super::Detour;
use crate::real::redis::{RedisClient, RedisServer};

#[test]
fn leads_to_the_server_and_loses_what_it_is_told_to() {
    let server = RedisServer::start();
    let detour = Detour::to(server.address());
    let mut client = RedisClient::connect(detour.address()).expect("a way");
    assert_eq!(client.run("INCR a").integer(), 1);
    detour.delay(Duration::from_millis(1));
    assert_eq!(client.run("INCR a").integer(), 2);
    assert_eq!(detour.lost(), 0);

    detour.lose_next();
    let error = client.try_command(&[b"INCR", b"a"]).expect_err("an answer that was to be lost");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!((detour.lost(), server.client().run("GET a").text()), (1, "3".to_owned()));

    let mut client = RedisClient::connect(detour.address()).expect("a way");
    assert_eq!(client.run("INCR a").integer(), 4);
    detour.lose_every(Some(1));
    client.try_command(&[b"INCR", b"a"]).expect_err("an answer that was to be lost");
    detour.lose_every(None);
    let mut client = RedisClient::connect(detour.address()).expect("a way");
    assert_eq!((detour.lost(), client.run("INCR a").integer()), (2, 6));

    detour.replace_answers(Some(b":7\r\n"));
    assert_eq!(client.run("INCR a").integer(), 7);
    assert_eq!(client.run("INCR a").integer(), 7);
    detour.replace_answers(None);
    assert_eq!(client.run("INCR a").integer(), 9);
    detour.silence();
    client.send(&[b"INCR", b"a"]).expect("nobody says that it will not arrive");
    let mut other = RedisClient::connect(detour.address()).expect("a way");
    assert_eq!(other.run("GET a").text(), "9");
    assert_eq!(detour.made(), 4);
    let mut client = other;
    detour.reset();
    let error = client.try_command(&[b"INCR", b"a"]).expect_err("a connection that was to be reset");
    assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
}
