//! The costliest attacks again and again: what is left levels off. The allocator keeps about what the highest mark was, so one look at
//! memory cannot tell what is kept from what is lost; many can.

use tollgate_testkit::real::hostile::{Attack, Pace, attacks};

use super::{SETTLE_TIME, Watched, launch};

/// How often each is run.
const RUNS: usize = 100;
/// The first and the last so many are compared. By then every thread of the server has served some of the connections, whose memory
/// its allocator keeps: a thread that comes later is no leak.
const FIRST: usize = 25;
const LAST: usize = 5;

/// Memory comes in huge pages, and counters grow meanwhile: a few of those are no leak. What is lost with every run becomes more.
const STEP_BYTES: u64 = 8 << 20;

/// After the last runs, at its lowest, hardly more is left than after the first ones at its highest.
fn check(name: &str) {
    let chosen: Vec<Attack> = attacks()
        .into_iter()
        .filter(|attack| attack.name.contains(name) && attack.pace == Pace::Quick)
        .collect();
    assert!(!chosen.is_empty(), "no attack is called {name}");
    for attack in chosen {
        let watched = Watched::start(launch());
        let left_bytes: Vec<u64> = (0..RUNS)
            .map(|_| {
                let tally = attack.run(&watched.tollgate, 1);
                assert!(tally.wrong().is_empty(), "{:?}: {name}: {:#?}", attack.on, tally.wrong());
                assert!(watched.vitals.settles_within(SETTLE_TIME), "connections are left");
                watched.vitals.growth_bytes()
            })
            .collect();
        println!(
            "{:?}: {name}: {:?} KiB",
            attack.on,
            left_bytes.iter().map(|left| left >> 10).collect::<Vec<_>>()
        );
        let first = left_bytes[..FIRST].iter().max().unwrap();
        let last = left_bytes[RUNS - LAST..].iter().min().unwrap();
        assert!(*last <= first + STEP_BYTES, "{:?}: {name}: {left_bytes:?}", attack.on);
        watched.finish();
    }
}

#[test]
fn bodies_that_do_not_end() {
    check("1,100 bodies");
}

#[test]
fn answers_without_a_window() {
    check("without a window");
}
