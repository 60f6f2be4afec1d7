//! Options of a once request, and the names of keys.

use std::{sync::Arc, time::Duration};

use crate::{
    error::LockError,
    resource::{Resource, ResourceError},
    time::MAX_DURATION,
};

/// What happens to a key whose work has an unknown outcome: it returned an error after it had started, or
/// was stopped before its end, as its lock was lost, its future was dropped, it panicked, or its process
/// crashed. Over HTTP, a response may report an unknown outcome too: `RequestOutcome::Unknown`.
///
/// For effects that must not happen twice, such as payments, choose [`Hold`](Self::Hold), the default of
/// layers for `Idempotency-Key`. For work that may be repeated, such as most webhooks, whose senders retry,
/// [`Release`](Self::Release), the default of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnknownOutcome {
    /// It is free when its lock is: at once if the lock can be released, otherwise after the TTL. The next
    /// try runs.
    #[default]
    Release,
    /// It is held for this time from the start of the work, or until a person or a reconciler decides:
    /// [`OnceRequest::mark_done`](super::OnceRequest::mark_done),
    /// [`OnceRequest::forget`](super::OnceRequest::forget). Choose it above `max_hold`, as it is not
    /// extended while the work runs. Costs one more round trip, before the work.
    Hold(Duration),
}

/// Default time for which records are stored: the longest retry schedule of senders, and a day more.
const RETAIN: Duration = Duration::from_secs(96 * 3600);

/// The settings for the records of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) retain: Duration,
    pub(super) unknown: UnknownOutcome,
    /// The time for which a layer over HTTP holds a key after a server error.
    pub(super) server_error_hold: Option<Duration>,
}

impl Terms {
    pub(super) const DEFAULT: Self =
        Self { retain: RETAIN, unknown: UnknownOutcome::Release, server_error_hold: None };

    pub(super) fn check(self) -> Result<(), LockError> {
        let unknown_hold = match self.unknown {
            UnknownOutcome::Release => None,
            UnknownOutcome::Hold(hold) => Some(hold),
        };
        let times = [
            ("retain", Some(self.retain)),
            ("UnknownOutcome::Hold", unknown_hold),
            ("ServerErrors::Hold", self.server_error_hold),
        ];
        let set = times.into_iter().filter_map(|(name, time)| Some((name, time?)));
        set.into_iter().try_for_each(|(name, time)| check_time(name, time))
    }
}

/// Checks the time for which a record is stored.
fn check_time(name: &str, time: Duration) -> Result<(), LockError> {
    if time.is_zero() || time > MAX_DURATION {
        let text = format!("{name} is {time:?}, not within 1 ms and {MAX_DURATION:?}");
        return Err(LockError::InvalidRequest(text.into()));
    }
    Ok(())
}

/// Returns the resource that is locked and recorded for a key, distinct from a lock of the same name.
pub(super) fn resource(key: &Resource) -> Result<Resource, ResourceError> {
    let mut names = key.names();
    let (Some(name), None) = (names.next(), names.next()) else {
        return Err(not_one_name());
    };
    Resource::of_once(name)
}

/// Prefix of the keys of requests behind a layer. The layer's name and a colon follow.
const LAYER: &str = "layer:";

/// Prefix of the keys of requests with an `Idempotency-Key`.
pub(super) const IDEMPOTENCY: &str = "idempotency:";

/// Refuses the keys of layers as names of the application: clients choose them.
///
/// # Errors
///
/// If the key begins with a prefix of the layers.
pub(super) fn application_key(key: Resource) -> Result<Resource, ResourceError> {
    let is_of_layer = |prefix: &&str| key.names().any(|name| name.starts_with(prefix));
    match [LAYER, IDEMPOTENCY].into_iter().find(is_of_layer) {
        Some(prefix) => Err(ResourceError::Reserved { prefix }),
        None => Ok(key),
    }
}

/// Maximum length of a layer's name, in bytes.
const MAX_LAYER_NAME: usize = 64;

/// Checks the name of a layer, which is in its keys. A name has no colon, so that two names never share a
/// key.
pub(super) fn layer_name(name: impl Into<Arc<str>>) -> Arc<str> {
    let name = name.into();
    let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    let fits = (1..=MAX_LAYER_NAME).contains(&name.len());
    assert!(
        is_plain && fits && &*name != "idempotency",
        "{name:?} can't be the name of a once layer: it takes 1 to {MAX_LAYER_NAME} visible ASCII \
         characters without a colon, and is not \"idempotency\""
    );
    name
}

/// Returns the key of a request behind a layer, as [`Redlock::once_key`](crate::Redlock::once_key) takes it.
pub(super) fn layer_key(layer: &str, key: &Resource) -> Result<Resource, ResourceError> {
    let mut names = key.names();
    match (names.next(), names.next()) {
        (Some(name), None) => Resource::try_from(format!("{LAYER}{layer}:{name}")),
        _ => Err(not_one_name()),
    }
}

fn not_one_name() -> ResourceError {
    ResourceError::Setup("a once key is one name, not a set of names".into())
}

/// Returns the single name of a result of [`resource`], or of a scope.
pub(super) fn name(resource: &Resource) -> Arc<str> {
    resource.shared_names().first().map_or_else(|| "".into(), Arc::clone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::{assert_documented, duration, variant};

    #[test]
    fn defaults_are_in_the_guide() {
        assert_documented("retain", &duration(Terms::DEFAULT.retain));
        assert_documented("unknown", &variant("UnknownOutcome", Terms::DEFAULT.unknown));
    }

    #[test]
    fn times_are_within_their_limits() {
        let step = Duration::from_nanos(1);
        for (time, is_valid) in [
            (Duration::ZERO, false),
            (step, true),
            (MAX_DURATION, true),
            (MAX_DURATION + step, false),
        ] {
            assert_eq!(check_time("retain", time).is_ok(), is_valid, "{time:?}");
        }
    }
}
