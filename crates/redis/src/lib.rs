//! Carries questions to Redis, and its answers back.
//!
//! What is asked and answered, and when to ask at all, stands in `tollgate_store::authority`, without I/O. This crate is the shell around
//! it: an [`Address`] says where the authority is; a connection writes commands and reads replies, in order, several flights at
//! once; a shard is one Redis node with its queue, its breaker and its connection; a topology knows which shard keeps a key.

mod address;
mod wire;

pub use address::{Address, AddressError, Credentials, Layout, Node, Secret};
