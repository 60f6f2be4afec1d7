//! See `tower_redlock::fuzzing::idempotency_key`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tower_redlock::fuzzing::idempotency_key(data));
