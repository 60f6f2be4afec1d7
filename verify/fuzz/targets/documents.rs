//! See `tower_redlock::fuzzing::documents`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tower_redlock::fuzzing::documents(data));
