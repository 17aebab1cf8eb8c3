//! What every implementation of Tollgate's algorithms has to agree with.
//!
//! An algorithm exists several times: as a pure function, as a word that a table swaps, as a script inside
//! Redis. That they agree is shown in one place and in one way: a [`Spec`] holds the numbers of a limit and builds
//! both the real [`tollgate_core::Limit`] and a naive [`Oracle`]; a [`Trace`] is a made-up history of questions;
//! [`conform`] plays it to an implementation (a [`Subject`]) and compares every field of every answer.
//!
//! What only shows between processes is shown with [`real`] ones: the server as a program, Envoy, clients in other languages.
//!
//! A store's own test is one call:
//!
//! ```
//! use tollgate_testkit::{States, run_suite};
//!
//! let traces = run_suite(|_spec| Some(States::default()), 4).unwrap_or_else(|divergence| panic!("{divergence}"));
//! assert!(traces > 0);
//! ```

// A test kit panics where a test would.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod admissions;
mod conformance;
mod oracle;
pub mod real;
pub mod simulation;
mod spec;
mod subject;
mod timeline;
mod trace;

pub use admissions::{Admission, Admissions};
pub use conformance::{Divergence, conform, run_suite, run_suite_on};
pub use oracle::Oracle;
pub use spec::Spec;
pub use subject::{States, Subject, Words};
pub use timeline::Timeline;
pub use trace::{Act, Gap, Step, Trace, Units};
