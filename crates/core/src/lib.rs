//! The decisions of Tollgate, and nothing else.
//!
//! A limit is a value that was validated once; a decision is a pure function of the limit, the state of one
//! key, the question and the time: `(limit, state, ask) -> (decision, state)`. Nothing in this crate reads a
//! clock, does I/O, logs, or draws a random number, so the same code runs in production, under a made-up
//! clock, and in a simulation, and it cannot fail: whatever could go wrong is refused when the limit is built.
//!
//! ```
//! use tollgate_core::{Ask, Cost, Limit, Rate, Tick, Time, TokenBucket};
//!
//! let tick = Tick::NANOSECOND;
//! let rate = Rate::new(100, tick.span(std::time::Duration::from_secs(60))?)?;
//! let limit = Limit::from(TokenBucket::new(rate, 20)?);
//! let mut state = limit.fresh();
//! let now = Time::from_ticks(1_700_000_000_000_000_000);
//!
//! for left in (0..20).rev() {
//!     let decision = limit.decide(&mut state, Ask::take(Cost::ONE, now));
//!     assert!(decision.is_allowed());
//!     assert_eq!(decision.remaining, left);
//! }
//! let denied = limit.decide(&mut state, Ask::take(Cost::ONE, now));
//! assert_eq!(denied.retry_after().map(|s| tick.duration(s).as_millis()), Some(600));
//! # Ok::<(), tollgate_core::LimitError>(())
//! ```
//!
//! One file per algorithm stands in [`algorithm`]; the registry that lists them is [`Limit`].

pub mod algorithm;
mod ask;
mod calendar;
mod coarse;
mod decision;
mod divisor;
mod error;
mod lease;
mod limit;
mod rate;
mod script;
mod share;
mod shared;
mod time;
mod window;
mod window_text;
mod word;

pub use algorithm::Algorithm;
pub use algorithm::blocked::Blocked;
pub use algorithm::concurrency::{Concurrency, Holder, Holders};
pub use algorithm::fixed_window::{Count, FixedWindow};
pub use algorithm::leaky_bucket::LeakyBucket;
pub use algorithm::leaky_queue::LeakyQueue;
pub use algorithm::sliding_log::SlidingLog;
pub use algorithm::sliding_window::SlidingWindow;
pub use algorithm::sub_windows::{OldestCounts, SubWindows};
pub use algorithm::token_bucket::TokenBucket;
pub use ask::{Ask, Cost, Intent, Refund};
pub use calendar::{Calendar, CalendarUnit};
pub use coarse::CoarseLimit;
pub use decision::{Decision, Outcome};
pub use error::LimitError;
pub use limit::{Limit, State};
pub use rate::Rate;
pub use script::{CallKey, CallWriter, LeaseRest, Script, Scripted, SettleChange, SettleOnce, Verb};
pub use share::Share;
pub use shared::{Answer, SharedLimit};
pub use time::{Span, Tick, Time};
pub use window::{Period, Window, Windows};
pub use word::{Packed, PackedVisitor, WORD_MAX};
