//! Tollgate as a library: rules and counters in, verdicts out.
//!
//! The [`Engine`] decides, for every request of an API, whether it may pass. It does no I/O, is not async, reads no clock and starts no
//! thread: time is an argument.

mod engine;
mod key;
mod lease;
mod meeting;
mod request;
mod switches;
mod verdict;

pub use engine::{Asks, Engine, EngineError, EngineSettings, Step};
pub use lease::{Lease, NotALease};
pub use request::{Descriptor, OwnLimit, Request, RequestError, Subject};
pub use switches::Switched;
pub use tollgate_core as core;
pub use tollgate_policy as policy;
pub use tollgate_store::{Clock, LedgerSettings, Stats};
pub use verdict::{DecidedBy, Force, Ruling, Status, Verdict};
