//! Times as numbers, for JSON.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serializer;

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since the epoch; `None` before it.
pub(crate) fn unix_millis(at: SystemTime) -> Option<u64> {
    at.duration_since(UNIX_EPOCH).ok().map(millis)
}

#[expect(clippy::ref_option, reason = "serde gives it so")]
pub(super) fn serialize_time<S: Serializer>(
    at: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at.and_then(unix_millis) {
        Some(number) => serializer.serialize_u64(number),
        None => serializer.serialize_none(),
    }
}
