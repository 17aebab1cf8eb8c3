//! RESP: what Redis clients speak.
//!
//! Whoever calls redis-cell, or a script of their own, changes an address and nothing else. [`frame`] turns bytes into commands,
//! [`command`] asks the gate, [`reply`] turns answers into bytes, and [`connection`] keeps the buffers between them bounded.

mod command;
mod connection;
mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod reply;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use crate::drain::Drain;
use crate::gate::Gate;
use crate::stream::Stream;

/// Serves one connection until it closes, breaks the protocol, or the server stops.
pub(crate) async fn serve(stream: Stream, gate: Arc<Gate>, drain: Drain) {
    let room = Arc::clone(stream.room());
    let address = stream.peer().address.ip();
    connection::run(stream, (&gate, address), &room, drain).await;
}
