//! See `tower_redlock::fuzzing::resp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tower_redlock::fuzzing::resp(data));
