//! Files of rules and of settings.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_server::fuzzing::yaml(bytes));
