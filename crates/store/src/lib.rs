//! Where Tollgate keeps its counters.
//!
//! The [`Ledger`] is the in-process table: it spends units without I/O and without waiting, and every decision is
//! made in it. It knows keys only as hashes and limits only as values; it never grows beyond its cap.
//!
//! ```
//! use tollgate_core::{Cost, Limit, Rate, Span, Time, TokenBucket};
//! use tollgate_store::{Charge, Clock, Ledger, LedgerSettings};
//!
//! let ledger = Ledger::new(LedgerSettings::default())?;
//! let clock = Clock::new();
//! let limit = Limit::from(TokenBucket::new(Rate::new(100, Span::from_ticks(60_000_000_000))?, 20)?);
//!
//! let charge = Charge::take(ledger.key(b"user:4711"), &limit, Cost::ONE);
//! assert!(ledger.decide(&charge, clock.now()).is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod authority;
pub mod clock;
pub mod hot;
pub mod lease;
mod ledger;
mod sync;
mod table;

pub use clock::Clock;
pub use ledger::{Charge, Entry, Key, Ledger, LedgerError, LedgerSettings, Stats};
pub use table::prefetch;
