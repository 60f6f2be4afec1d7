use std::{sync::Arc, time::Duration};

use crate::{
    error::LockError,
    lock::MAX_DURATION,
    resource::{Resource, ResourceError},
};

/// What becomes of a key whose work was stopped in the middle, or whose process crashed: nobody
/// knows how far it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unknown {
    /// It is free once the lock's TTL is over, and the next try runs.
    #[default]
    Release,
    /// It stays blocked for so long, counted from the start of the work, or until a person or a
    /// reconciler decides: [`OnceRequest::mark_done`](super::OnceRequest::mark_done),
    /// [`OnceRequest::forget`](super::OnceRequest::forget). Choose it above `max_hold`: it does not
    /// grow while the work runs. Costs one more round trip, before the work.
    Hold(Duration),
}

/// Three days of a sender's retries, and one more.
const RETAIN: Duration = Duration::from_secs(96 * 3600);

/// How a key is dealt with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) retain: Duration,
    pub(super) unknown: Unknown,
}

impl Terms {
    pub(super) const DEFAULT: Self = Self { retain: RETAIN, unknown: Unknown::Release };

    pub(super) fn check(self) -> Result<(), LockError> {
        let hold = match self.unknown {
            Unknown::Release => self.retain,
            Unknown::Hold(hold) => hold,
        };
        for (name, time) in [("retain", self.retain), ("Unknown::Hold", hold)] {
            if time.is_zero() || time > MAX_DURATION {
                let text = format!("{name} is {time:?}, not within 1 ms and {MAX_DURATION:?}");
                return Err(LockError::InvalidRequest(text.into()));
            }
        }
        Ok(())
    }
}

/// What is locked, and recorded, for a key: so that a lock of the same name is another one.
pub(super) fn resource(key: &Resource) -> Result<Resource, ResourceError> {
    let mut names = key.names();
    let (Some(name), None) = (names.next(), names.next()) else {
        return Err(ResourceError::Setup("a once key is one name, not a set of names".into()));
    };
    Resource::try_from(format!("once:{name}"))
}

/// What the names of records of `Idempotency-Key` begin with.
pub(super) const IDEMPOTENCY: &str = "idempotency:";

/// A key that a layer found otherwise. It is often what somebody has sent, who could take the record
/// of another's `Idempotency-Key` by its name.
pub(super) fn not_reserved(key: Resource) -> Result<Resource, ResourceError> {
    if key.names().any(|name| name.starts_with(IDEMPOTENCY)) {
        let reason = "a key must not begin with idempotency: give it another prefix";
        return Err(ResourceError::Key(reason.into()));
    }
    Ok(key)
}

/// The one name of what [`resource`] made.
pub(super) fn name(resource: &Resource) -> Arc<str> {
    resource.shared_names().first().map_or_else(|| "".into(), Arc::clone)
}
