//! Messages of Envoy's rate limit service.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_server::fuzzing::rls(bytes));
