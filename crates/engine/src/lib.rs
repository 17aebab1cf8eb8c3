//! Tollgate as a library: rules and counters in, verdicts out.
//!
//! The [`Engine`] decides, for every request of an API, whether it may pass. It does no I/O, is not async, reads no clock and starts no
//! thread: time is an argument, and one engine serves all threads of a process.
//!
//! ```
//! use tollgate::{Clock, Engine, EngineSettings, Request, Source};
//!
//! let rules = "policies: {search: {requests: 100, period: 1m, burst: 20}}";
//! let engine = Engine::new(EngineSettings::default())?;
//! let clock = Clock::new();
//! engine.load(&[Source::new("rules.yaml", rules)], clock.now())?;
//!
//! let verdict = engine.decide(&Request::policy("search", b"user:4711"), clock.now())?;
//! assert!(verdict.allowed());
//! assert_eq!(verdict.tightest().map(|ruling| ruling.decision.remaining), Some(19));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Callers that know what a request is about, rather than under which policy it falls, send descriptors, as Envoy does; the rules
//! of a domain decide which limits they meet:
//!
//! ```
//! use tollgate::{Clock, Descriptor, Engine, EngineSettings, Request, Source};
//!
//! let rules = "
//! domain: shop
//! descriptors:
//! - key: path
//!   value: /login
//!   descriptors:
//!   - key: address
//!     rate_limit: {unit: minute, requests_per_unit: 1}
//! ";
//! let engine = Engine::new(EngineSettings::default())?;
//! let clock = Clock::new();
//! engine.load(&[Source::new("shop.yaml", rules)], clock.now())?;
//!
//! let login = [Descriptor::new(&[("path", "/login"), ("address", "192.0.2.1")])];
//! assert!(engine.decide(&Request::new("shop", &login), clock.now())?.allowed());
//! assert!(!engine.decide(&Request::new("shop", &login), clock.now())?.allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod engine;
mod fleet;
mod hot;
mod ids;
mod key;
mod key_acts;
mod lease;
mod leasing;
mod meeting;
mod own_limit;
mod pending;
mod request;
mod request_id;
mod reservation;
mod seal;
mod switches;
mod verdict;

pub use engine::{Engine, EngineError, EngineSettings, Released, Resumed, Step, Throttle};
pub use fleet::Keeper;
pub use hot::{HotKey, HotStats, KeyName};
pub use ids::{RequestIdSettings, RequestIdStats};
pub use key_acts::{KEY_ACTS_MAX, KeyAct, KeyActKind, KeySubject, TooManyKeyActs};
pub use lease::{Lease, NotALease, ReleaseError};
pub use pending::Pending;
pub use request::{Descriptor, Known, OwnLimit, Request, RequestError, ReservationScope, Subject};
pub use request_id::{NotARequestId, RequestId};
pub use reservation::{
    NotAReservation, Reservation, ReservationClient, ReservationSettings, ReservationStats, Reserved,
    SettleError, Settlement,
};
pub use switches::Switched;
pub use tollgate_core as core;
pub use tollgate_policy as policy;
pub use tollgate_policy::{Problems, Source, TenantSubject, TenantTerms, TooManyTenants, read_terms};
pub use tollgate_store::authority;
pub use tollgate_store::clock;
pub use tollgate_store::hot::{ShardId, SwitchSettings as HotSettings};
pub use tollgate_store::lease::{Errand, LeaseStats, UnconfirmedStats};
pub use tollgate_store::{Clock, LedgerSettings, Stats};
pub use verdict::{DecidedBy, Force, Ruling, Status, Unmatched, Verdict};

/// The example of the README, compiled and run like any other.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
