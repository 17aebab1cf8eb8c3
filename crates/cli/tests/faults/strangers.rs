//! Whatever answers in the place of Redis is not Redis.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use tollgate_testkit::real::hostile::Vitals;
use tollgate_testkit::real::redis::RedisServer;
use tollgate_testkit::real::{Detour, until};

use crate::{Consistency, Scene, played};

played! {
    who_speaks_another_language_is_not_believed
    who_says_nothing_is_not_waited_for
    who_never_ends_a_word_is_cut_off
    who_never_ends_a_list_is_cut_off
    who_never_stops_answering_is_cut_off
    nonsense_in_the_middle_breaks_the_connection_and_no_count
}

/// What may be kept of what a stranger says, for all threads together: buffers have a bound, and there is one for each connection.
const GROWTH_BYTES_MAX: u64 = 32 << 20;

/// Somebody who does this with every connection.
fn stranger(behave: fn(&mut TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || behave(&mut stream));
        }
    });
    address
}

/// A server that has never seen its Redis follows its rules, and does not grow.
fn check(consistency: Consistency, behave: fn(&mut TcpStream)) {
    let mut scene = Scene::without_store(consistency, &format!("redis://{}", stranger(behave)));
    let vitals = Vitals::watch(&scene.tollgate);
    scene.check_away();
    scene.load.pass(50);
    assert!(vitals.peak_growth_bytes() < GROWTH_BYTES_MAX, "{} bytes more", vitals.peak_growth_bytes());
    scene.load.finish();
}

/// Waits for whatever is asked.
fn listen(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 1024]), Ok(1..))
}

fn who_speaks_another_language_is_not_believed(consistency: Consistency) {
    check(consistency, |stream| {
        while listen(stream) && stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").is_ok() {}
    });
}

fn who_says_nothing_is_not_waited_for(consistency: Consistency) {
    check(consistency, |stream| while listen(stream) {});
}

fn who_never_ends_a_word_is_cut_off(consistency: Consistency) {
    check(consistency, |stream| {
        let word = b"+".repeat(64 << 10);
        while stream.write_all(&word).is_ok() {}
    });
}

fn who_never_ends_a_list_is_cut_off(consistency: Consistency) {
    check(consistency, |stream| {
        let lists = b"*1048576\r\n".repeat(1_000);
        while stream.write_all(&lists).is_ok() {}
    });
}

fn who_never_stops_answering_is_cut_off(consistency: Consistency) {
    check(consistency, |stream| {
        let numbers = b":1\r\n".repeat(16_000);
        while stream.write_all(&numbers).is_ok() {}
    });
}

fn nonsense_in_the_middle_breaks_the_connection_and_no_count(consistency: Consistency) {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let mut scene = Scene::impatient(consistency, &format!("redis://{}", detour.address()));
    let vitals = Vitals::watch(&scene.tollgate);
    for noise in [&b"*3\r\n:1\r\n+what"[..], b"$999999\r\n", b"\0\0\0\0", b"*0\r\n:7\r\n:7\r\n"] {
        let breaks = scene.metric("ratelimit_redis_errors_total", "");
        detour.replace_answers(Some(noise));
        until("answers are not understood", || {
            scene.load.pass(5);
            (scene.metric("ratelimit_redis_errors_total", "") > breaks + 20).then_some(())
        });
        detour.replace_answers(None);
        detour.reset(); // Some of it may be half of something.
        scene.check_recovers();
    }
    assert!(scene.openings() > 0);
    assert!(vitals.peak_growth_bytes() < GROWTH_BYTES_MAX, "{} bytes more", vitals.peak_growth_bytes());
    scene.check_counted_at_least();
}
