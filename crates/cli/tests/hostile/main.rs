//! Clients that mean harm: whatever they send, the server says what is wrong or closes, keeps within its memory, and serves everybody
//! else as if nothing had happened.
#![allow(clippy::unwrap_used, clippy::panic)]

mod crowds;
mod pages;
mod patient;
mod quick;
mod repeated;
mod untaken;

use std::time::Duration;

use tollgate_testkit::real::hostile::{Attack, Companion, Listener, Pace, RULES, Service, Vitals, attacks};
use tollgate_testkit::real::{Launch, Tollgate};

/// What may be left of all that attacks made the server grow by. The allocator keeps about as much as the costliest of them took;
/// that it does not become more is seen in `repeated`.
const LEFT_BYTES_MAX: u64 = 256 << 20;
/// How long connections may be left after an attack. Longer than the server's own time-outs.
const SETTLE_TIME: Duration = Duration::from_mins(1);

fn launch() -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", RULES)
}

/// No clock: tests do not say how fast.
fn no_clock() -> u64 {
    0
}

/// A server that is being watched, and the client that means no harm.
struct Watched {
    tollgate: Tollgate,
    companion: Companion,
    vitals: Vitals,
}

impl Watched {
    fn start(launch: Launch) -> Watched {
        let tollgate = launch.start();
        let companion = Companion::start(&tollgate, no_clock);
        companion.wait_for_rounds(3);
        let vitals = Vitals::watch(&tollgate);
        Watched { tollgate, companion, vitals }
    }

    /// What must hold after every attack: all connections gone, nothing kept, nobody harmed, nothing said that should not be.
    fn finish(self) {
        let Watched { mut tollgate, companion, vitals } = self;
        assert!(vitals.settles_within(SETTLE_TIME), "{} connections are left", vitals.files_left());
        let left_bytes = vitals.growth_bytes();
        assert!(left_bytes <= LEFT_BYTES_MAX, "{} MiB are left", left_bytes >> 20);
        companion.wait_for_rounds(3);
        let Service { asked, wrong, complaints, .. } = companion.stop();
        assert_eq!(wrong, 0, "of {asked} answers: {complaints:#?}");
        let logs = tollgate.logs();
        assert!(!logs.contains("panicked"), "{logs}");
        tollgate.signal(tollgate_testkit::real::Signal::TERM);
        assert_eq!(tollgate.wait(), Some(0), "it lived until it was told to stop");
    }
}

/// The attacks of one kind on one listener.
fn attacks_on(listener: Listener, pace: Pace) -> Vec<Attack> {
    let chosen: Vec<Attack> =
        attacks().into_iter().filter(|attack| attack.on == listener && attack.pace == pace).collect();
    assert!(!chosen.is_empty(), "nobody attacks {listener:?}");
    chosen
}
