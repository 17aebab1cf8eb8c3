//! A load generator that does not hide how long callers wait.
//!
//! Most generators ask again when they were answered. A server that stops for a second is then asked once in that second, and one
//! slow answer stands where a thousand callers would have waited: coordinated omission. Here, in an *open loop*, the moments of sending are
//! planned before the run, and a latency counts from its planned moment, whenever the request was really sent. How late the
//! generator was itself is reported beside it ([`Tally::lag_ns`]). A *closed loop*, as fast as answers come, is there too: it tells what
//! a server can do, and what it costs.
//!
//! It is cheap, because it often shares a machine with what it measures: one thread, messages that are encoded before the run, one look
//! at the clock for everything that a read brought. Its memory does not grow with the run: what is under way has a cap, and what is
//! due but not sent is a number.

mod alarm;
mod keys;
mod pipeline;
mod plan;
mod protocol;
mod question;
mod random;
mod run;
mod session;
mod streams;
mod tally;
mod template;
mod turns;

pub use keys::{Draw, KEYS_MAX, Keys};
pub use plan::{Arrivals, Pace};
pub use question::{Protocol, Question};
pub use random::{Random, Zipf};
pub use run::{CONNECTIONS_MAX, IN_FLIGHT_MAX, Load, LoadError, Progress, Report, run};
pub use tally::Tally;
