//! The pure parts of HTTP/2: bytes to frames and header fields, and back.
//!
//! A server that answers in two microseconds cannot spend as much again on a general HTTP/2 stack. What a connection needs of the
//! protocol is little: where a frame ends ([`frame`], RFC 9113) and what a header block says ([`hpack`], RFC 7541). Here are these two and
//! nothing else: no I/O, no clock, no streams, no state but the table of header fields that a connection's two ends share.
//!
//! All input is a stranger's. Whatever it is, nothing here panics, and every buffer has a bound.

#![forbid(unsafe_code)]

pub mod frame;
pub mod hpack;
