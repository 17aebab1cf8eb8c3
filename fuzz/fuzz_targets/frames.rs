//! Connections of HTTP/2 that arrive in pieces.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_server::fuzzing::frames(bytes));
