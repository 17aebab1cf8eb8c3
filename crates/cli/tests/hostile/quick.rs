//! Attacks that are over when everything is sent, one after the other, each with the memory that it takes.

use tollgate_testkit::real::hostile::{Listener, Pace, Vitals};

use super::{SETTLE_TIME, Watched, attacks_on, launch};

/// A server that is smaller than by default has the smaller memory account, so that what is not charged to it shows.
const MEMORY: &str = "256MiB";

/// Runs all of them against one server.
fn check(listener: Listener) {
    let watched = Watched::start(launch().flag("memory", MEMORY));
    let mut failures = Vec::new();
    for attack in attacks_on(listener, Pace::Quick) {
        let vitals = Vitals::watch(&watched.tollgate);
        let tally = attack.run(&watched.tollgate, 1);
        let peak_bytes = vitals.peak_growth_bytes();
        println!("{listener:?}: {}: {tally}; {} KiB", attack.name, peak_bytes >> 10);
        for wrong in tally.wrong() {
            failures.push(format!("{}: {wrong}", attack.name));
        }
        if peak_bytes > attack.peak_bytes_max {
            failures.push(format!("{}: {} MiB", attack.name, peak_bytes >> 20));
        }
        if !vitals.settles_within(SETTLE_TIME) {
            failures.push(format!("{}: {} connections are left", attack.name, vitals.files_left()));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    watched.finish();
}

#[test]
fn http() {
    check(Listener::Http);
}

#[test]
fn grpc() {
    check(Listener::Grpc);
}

#[test]
fn resp() {
    check(Listener::Resp);
}

#[test]
fn admin() {
    check(Listener::Admin);
}
