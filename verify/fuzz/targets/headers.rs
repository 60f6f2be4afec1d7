//! See `tower_redlock::fuzzing::headers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tower_redlock::fuzzing::headers(data));
