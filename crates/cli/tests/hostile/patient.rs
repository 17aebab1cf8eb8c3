//! Attacks that wait for the server to lose its patience, side by side, so that its time-outs pass once for all.

use std::thread;

use tollgate_testkit::real::hostile::{Listener, Pace};

use super::{Watched, attacks_on, launch};

fn check(listener: Listener) {
    let watched = Watched::start(launch());
    let attacks = attacks_on(listener, Pace::Patient);
    let failures: Vec<String> = thread::scope(|scope| {
        let running: Vec<_> =
            attacks.iter().map(|attack| (attack, scope.spawn(|| attack.run(&watched.tollgate, 1)))).collect();
        let failed = running.into_iter().flat_map(|(attack, thread)| {
            let tally = thread.join().unwrap();
            println!("{listener:?}: {}: {tally}", attack.name);
            tally.wrong().iter().map(|wrong| format!("{}: {wrong}", attack.name)).collect::<Vec<_>>()
        });
        failed.collect()
    });
    let peak_bytes = watched.vitals.peak_growth_bytes();
    println!("{listener:?}: {} KiB", peak_bytes >> 10);
    assert!(failures.is_empty(), "{failures:#?}");
    let peak_bytes_max = attacks.iter().map(|attack| attack.peak_bytes_max).sum();
    assert!(peak_bytes <= peak_bytes_max, "{} MiB", peak_bytes >> 20);
    watched.finish();
}

#[test]
fn http() {
    check(Listener::Http);
}

#[test]
fn admin() {
    check(Listener::Admin);
}

#[test]
fn grpc() {
    check(Listener::Grpc);
}

#[test]
fn resp() {
    check(Listener::Resp);
}
