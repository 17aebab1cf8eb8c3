//! Heads of requests that proxies ask about.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_server::fuzzing::http_auth(bytes));
