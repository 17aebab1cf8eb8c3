//! What becomes of requests when the Redis that counts them is killed, frozen, slow, full, moved, or not Redis at all.
//!
//! The server and Redis are processes of their own, and requests keep coming at a steady pace whatever happens. What is shown of each
//! fault: every request is answered; a rule that is open admits, one that is closed denies, one that is local admits the node's share and
//! no more; nobody is charged twice; and when Redis is well again, so is everything else, without anybody's help.
//!
//! Scenes are played twice: with rules that ask Redis every time, and with rules that lease units of it. Then what is in hand is spent first, and nothing
//! is admitted that Redis has not counted.
#![allow(clippy::unwrap_used, clippy::panic)]

mod cluster;
mod holds;
mod leases;
mod load;
mod node;
mod refusals;
mod scene;
mod sentinel;
mod strangers;
mod wire;

use scene::{CLOSED, Consistency, OPEN, Scene, played};
