//! Real programs for tests: Tollgate as a process of its own, Envoy and other proxies in front of it, clients that others have written.
//!
//! What a server promises holds between processes: its exit code, its ports after a restart, what Envoy makes of its answers. So
//! these tests talk to programs, over sockets, and mock nothing. Everything listens at a port that the system chose, lives in
//! a directory of its own, and ends with the value that stands for it. Nobody sleeps and hopes: [`until`] asks again and
//! again, and gives up after a while. Where a test fails, the programs' own words are printed with it.

mod detour;
mod envoy;
pub mod hostile;
mod http;
pub mod postgres;
mod process;
mod proxy;
mod quota;
pub mod redis;
pub mod settlements;
pub mod tokens;
mod tollgate;
mod upstream;
mod venv;
mod wait;
mod wall_time;

pub use detour::Detour;
pub use envoy::{Envoy, Gateway, Place};
pub use http::{Client, Reply, connect_from, fetch};
pub use process::{Finished, Signal, run};
pub use proxy::Proxy;
pub use quota::{DurableQuota, Killed};
pub use tollgate::{Launch, Tollgate};
pub use upstream::Upstream;
pub use venv::{python, python_for, tool};
pub use wait::{holds_within, until};
pub use wall_time::WallTime;
