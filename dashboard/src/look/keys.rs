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

pub(super) fn serialize_time<S: Serializer>(
    at: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serialize_number(at.and_then(unix_millis), serializer)
}

pub(super) fn serialize_span<S: Serializer>(
    span: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serialize_number(span.map(millis), serializer)
}

fn serialize_number<S: Serializer>(number: Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => serializer.serialize_u64(number),
        None => serializer.serialize_none(),
    }
}
