//! What operators decide at run time: kept, versioned, and never without saying who.
//!
//! A decision of an operator is a [`Document`]: JSON text under a [`Kind`] and an id. This crate does not know what stands in it. Every
//! [`Change`] takes the next [`Version`], of which there is one sequence without gaps for the whole fleet, and leaves an [`AuditRow`], chained to the one
//! before by its hash. The audit is also how others catch up: whoever knows version n asks for what came since.
//!
//! It all exists once, for [SQLite](https://sqlite.org) in a file and for PostgreSQL: statements are of the words that both know, only with integers and
//! texts, and below them stands one thin layer with two drivers. What a change does is a pure function of what is there; the drivers read,
//! and write what it says.
//!
//! The same database also counts, where a quota has to survive whatever happens to processes: see [`durable`].
//!
//! No change is on the path of a request, and nothing here reads a clock of its own: whoever asks says what time it is, or which clock is to be read.

mod address;
mod audit;
mod batch;
mod chain;
mod change;
mod database;
mod document;
mod driver;
pub mod durable;
mod error;
mod fleet_secret;
mod nodes;
mod page;
mod replica;
mod rows;
mod scan;
mod schema;
mod tls;
mod verify;
mod writer;

pub use address::{AddressError, DatabaseAddress, PostgresAddress, Secret, SslMode};
pub use audit::{AuditFilter, AuditRow};
pub use chain::Head;
pub use change::{Action, Change, Changed, Condition, REPEATS_KEPT_MS, Repeat, Who};
pub use database::{Database, DatabaseSettings};
pub use document::{BODY_BYTES_MAX, Document, ID_BYTES_MAX, Kind, TEXT_BYTES_MAX, UnknownKind, Version};
pub use durable::{DurableAuthority, DurableSettings, DurableStats, Left, UsageDay, UsageFilter};
pub use error::{ChangeError, DatabaseError};
pub use fleet_secret::FleetSecret;
pub use nodes::{NODES_KEPT_MS, NodeState};
pub use page::{PAGE_BYTES_MAX, PAGE_ROWS_MAX, Page};
pub use replica::Replica;
pub use verify::{Anchor, Fault, Verified, VerifyError};
