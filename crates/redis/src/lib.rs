//! Carries questions to Redis, and its answers back.
//!
//! What is asked and answered, and when to ask at all, stands in `tollgate_store::authority`, without I/O. This crate is the shell around
//! it: an [`Address`] says where the authority is; a connection writes commands and reads replies, in order, several flights at
//! once; a shard is one Redis node with its queue, its breaker and its connection; a topology knows which shard keeps a key.
//!
//! A process has one [`Fleet`], and each of its threads an [`Authority`], made inside its runtime.

mod address;
mod authority;
mod connection;
mod fleet;
mod heartbeat;
mod keys;
mod script;
mod shard;
mod ticket;
mod tls;
mod topology;
mod wire;

pub use address::{Address, AddressError, Credentials, Layout, NODES_MAX, Node, Secret};
pub use authority::Authority;
pub use fleet::{Fleet, Pin, Settings, SettingsError};
pub use keys::{PREFIX_BYTES_MAX, PrefixError};
pub use shard::{FAILURES, ShardStats};
pub use tls::{Tls, TlsError};
