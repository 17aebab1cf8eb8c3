//! Clients that mean harm, or know no better: everything that a server must survive, one attack each.
//!
//! Every attack speaks to a running server over sockets, byte by byte, because no client library would send what these send. It
//! says what became of it as a [`Tally`]: what was seen how often, and what should not have been. Whoever runs one watches the
//! server from outside meanwhile ([`Vitals`]) and keeps a well-behaved client asking ([`Companion`]).

mod bodies;
mod companion;
mod crowd;
mod floods;
mod frames;
mod grpc;
mod hoards;
mod hosts;
mod http1;
mod memory;
mod patience;
mod raw;
mod resp;
mod responses;
mod rfc9113;
mod seen;
mod smuggling;
mod streams;
mod vitals;

use std::net::SocketAddr;

pub use companion::{Companion, Service};
pub use responses::ask_admin_without_reading;
pub use seen::Tally;
pub use vitals::Vitals;

use super::tollgate::Tollgate;

/// The rules that attacks and the companion ask under.
pub const RULES: &str = "
domain: hostile
descriptors:
  - key: user
    rate_limit: {requests: 2, period: 1h, burst: 2}
policies:
  two-an-hour: {requests: 2, period: 1h, burst: 2}
  plenty: {requests: 1000000000, period: 1h, burst: 1000000000}
";

/// Which listener is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// HTTP, of both versions.
    Http,
    /// gRPC.
    Grpc,
    /// RESP.
    Resp,
    /// Metrics and health.
    Admin,
}

/// How long an attack takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As long as what it sends.
    Quick,
    /// Until the server loses patience. Such attacks are best run side by side.
    Patient,
}

/// One way to do harm.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// What it is called.
    pub name: &'static str,
    /// Whom it is against.
    pub on: Listener,
    /// How long it takes.
    pub pace: Pace,
    /// What must come of it.
    pub expected: &'static str,
    /// How much the server may grow meanwhile, for a force of 1.
    pub peak_bytes_max: u64,
    act: fn(&Field) -> Tally,
}

/// Where an attack takes place.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The listener that is attacked.
    pub address: SocketAddr,
    /// Which one it is.
    pub on: Listener,
    /// How hard: 1 for a test, more where there is time.
    pub force: usize,
}

/// What an attack may cost the server unless it says otherwise.
const PEAK_BYTES_MAX: u64 = 32 << 20;

impl Attack {
    /// One that may cost so much instead.
    fn costing(self, peak_bytes_max: u64) -> Attack {
        Attack { peak_bytes_max, ..self }
    }

    /// Attacks, and says what became of it.
    pub fn run(&self, tollgate: &Tollgate, force: usize) -> Tally {
        let address = match self.on {
            Listener::Http => tollgate.http(),
            Listener::Grpc => tollgate.grpc(),
            Listener::Resp => tollgate.resp(),
            Listener::Admin => tollgate.admin(),
        };
        (self.act)(&Field { address, on: self.on, force })
    }
}

/// All attacks.
pub fn attacks() -> Vec<Attack> {
    [
        http1::attacks(),
        bodies::attacks(),
        smuggling::attacks(),
        hosts::attacks(),
        grpc::attacks(),
        floods::attacks(),
        streams::attacks(),
        responses::attacks(),
        memory::attacks(),
        rfc9113::attacks(),
        resp::attacks(),
        crowd::attacks(),
        hoards::attacks(),
        patience::attacks(),
    ]
    .concat()
}

/// One attack for a table of them.
const fn quick(on: Listener, name: &'static str, expected: &'static str, act: fn(&Field) -> Tally) -> Attack {
    Attack { name, on, pace: Pace::Quick, expected, peak_bytes_max: PEAK_BYTES_MAX, act }
}

/// One attack that waits for the server.
const fn patient(
    on: Listener,
    name: &'static str,
    expected: &'static str,
    act: fn(&Field) -> Tally,
) -> Attack {
    Attack { name, on, pace: Pace::Patient, expected, peak_bytes_max: PEAK_BYTES_MAX, act }
}
