//! See `tower_redlock::fuzzing::config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tower_redlock::fuzzing::config(data));
