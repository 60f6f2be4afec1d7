//! Events of a manager's locks and nodes, for receivers.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::sync::broadcast;

use crate::{
    FencingToken, LockError, Resource,
    error::{LossCause, Reason},
    sync::atomic::{AtomicBool, Ordering},
    time::Clock,
};

/// Something that happened to a lock of this process, or to a node as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LockEvent {
    /// Its time, by this process's wall clock.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub at: SystemTime,
    /// The kind of the event, with its details.
    #[cfg_attr(feature = "config", serde(flatten))]
    pub kind: LockEventKind,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[cfg_attr(feature = "config", serde(tag = "event", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LockEventKind {
    /// A request was granted its lock after it had waited.
    Granted {
        /// The names.
        #[cfg_attr(feature = "config", serde(serialize_with = "as_text"))]
        resource: Resource,
        /// Whether the lock is [shared](crate::LockOptions::shared).
        shared: bool,
        /// The lock's fencing token.
        token: FencingToken,
        /// Time since the request.
        #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
        waited: Duration,
    },
    /// A request ended without a lock. Not sent for a candidate for leading or a tick of a job that finds
    /// another holder.
    Refused {
        /// The names.
        #[cfg_attr(feature = "config", serde(serialize_with = "as_text"))]
        resource: Resource,
        /// Whether the lock is [shared](crate::LockOptions::shared).
        shared: bool,
        /// Time since the request.
        #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
        waited: Duration,
        /// Why it ended.
        #[cfg_attr(feature = "config", serde(serialize_with = "as_text"))]
        error: LockError,
    },
    /// A lock ended before it was released.
    Lost {
        /// The names.
        #[cfg_attr(feature = "config", serde(serialize_with = "as_text"))]
        resource: Resource,
        /// Whether the lock is [shared](crate::LockOptions::shared).
        shared: bool,
        /// Why the lock ended.
        #[cfg_attr(feature = "config", serde(serialize_with = "as_text"))]
        cause: LossCause,
    },
    /// Guarded work was dropped at the end of its lock.
    HardStopped {
        /// The names.
        #[cfg_attr(feature = "config", serde(serialize_with = "as_text"))]
        resource: Resource,
        /// Whether the lock is [shared](crate::LockOptions::shared).
        shared: bool,
        /// The lock's fencing token.
        token: FencingToken,
    },
    /// Guarded work blocks beyond the end of its lock, and can't be dropped. The event is repeated
    /// while it does.
    Overrun {
        /// The names.
        #[cfg_attr(feature = "config", serde(serialize_with = "as_text"))]
        resource: Resource,
        /// Whether the lock is [shared](crate::LockOptions::shared).
        shared: bool,
        /// Time since the end of the lock.
        #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
        by: Duration,
    },
    /// The proposed token of a lock was not above the nodes' fences. The lock got a greater token,
    /// and the fences were raised.
    FenceRaised {
        /// The names.
        #[cfg_attr(feature = "config", serde(serialize_with = "as_text"))]
        resource: Resource,
        /// Whether the lock is [shared](crate::LockOptions::shared).
        shared: bool,
        /// The greater token.
        token: FencingToken,
    },
    /// Too few nodes stored the record of work done [once](mod@crate::once) before its lock ended: the
    /// work may run again, or may have run elsewhere.
    Unrecorded {
        /// The key's lock.
        #[cfg_attr(feature = "config", serde(serialize_with = "as_text"))]
        resource: Resource,
        /// The lock's fencing token.
        token: FencingToken,
    },
    /// A node stopped voting.
    NodeOut {
        /// Its name.
        node: Arc<str>,
        /// Why it does not vote.
        #[cfg_attr(feature = "config", serde(serialize_with = "as_text"))]
        reason: Reason,
    },
    /// One of the reasons for which a node did not vote has ended.
    NodeBack {
        /// Its name.
        node: Arc<str>,
    },
}

impl LockEventKind {
    /// Returns the name of the kind, as it is serialized: `granted`, `node_out`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Granted { .. } => "granted",
            Self::Refused { .. } => "refused",
            Self::Lost { .. } => "lost",
            Self::HardStopped { .. } => "hard_stopped",
            Self::Overrun { .. } => "overrun",
            Self::FenceRaised { .. } => "fence_raised",
            Self::Unrecorded { .. } => "unrecorded",
            Self::NodeOut { .. } => "node_out",
            Self::NodeBack { .. } => "node_back",
        }
    }

    /// Returns whether the event is about a [shared](crate::LockOptions::shared) lock.
    pub const fn is_shared(&self) -> bool {
        match self {
            Self::Granted { shared, .. }
            | Self::Refused { shared, .. }
            | Self::Lost { shared, .. }
            | Self::HardStopped { shared, .. }
            | Self::Overrun { shared, .. }
            | Self::FenceRaised { shared, .. } => *shared,
            Self::Unrecorded { .. } | Self::NodeOut { .. } | Self::NodeBack { .. } => false,
        }
    }

    /// Returns the names that the event is about; `None` if it is about a node.
    pub const fn resource(&self) -> Option<&Resource> {
        match self {
            Self::Granted { resource, .. }
            | Self::Refused { resource, .. }
            | Self::Lost { resource, .. }
            | Self::HardStopped { resource, .. }
            | Self::Overrun { resource, .. }
            | Self::FenceRaised { resource, .. }
            | Self::Unrecorded { resource, .. } => Some(resource),
            Self::NodeOut { .. } | Self::NodeBack { .. } => None,
        }
    }
}

impl fmt::Display for LockEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut resource = self.resource().map(display_names).unwrap_or_default();
        if self.is_shared() {
            resource.push_str(" (shared)");
        }
        match self {
            Self::Granted { token, waited, .. } => {
                write!(f, "{resource} was acquired after {waited:.1?}, with token {token}")
            }
            Self::Refused { waited, error, .. } => {
                write!(f, "{resource} was not acquired within {waited:.1?}: {error}")
            }
            Self::Lost { cause, .. } => write!(f, "{resource} was lost: {cause}"),
            Self::HardStopped { token, .. } => {
                write!(
                    f,
                    "the work under {resource}, token {token}, was dropped at the end of its lock"
                )
            }
            Self::Overrun { by, .. } => {
                write!(f, "the work under {resource} blocks {by:.1?} past the end of its lock")
            }
            Self::FenceRaised { token, .. } => {
                write!(f, "the fences of {resource} were raised to those of token {token}")
            }
            Self::Unrecorded { token, .. } => {
                write!(
                    f,
                    "the record of {resource}, token {token}, was not stored before its lock ended: the work \
                     may run again"
                )
            }
            Self::NodeOut { node, reason } => write!(f, "{node} does not vote any more: {reason}"),
            Self::NodeBack { node } => write!(f, "{node} is back"),
        }
    }
}

/// Returns the names as people read them.
fn display_names(resource: &Resource) -> String {
    resource.names().map(Resource::display_name).collect::<Vec<_>>().join(" + ")
}

#[cfg(feature = "config")]
fn as_text<S: serde::Serializer>(
    value: &impl std::fmt::Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Maximum number of events that a receiver may lag behind.
const CAPACITY: usize = 1_024;

/// Sends events, once there is a receiver.
#[derive(Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<LockEvent>,
    /// Whether there ever was a receiver. Until then, an event costs one load of this.
    has_listeners: AtomicBool,
}

impl Default for Events {
    fn default() -> Self {
        let sender = broadcast::Sender::new(CAPACITY);
        Self { sender, has_listeners: AtomicBool::new(false) }
    }
}

impl Events {
    pub(crate) fn listen(&self) -> broadcast::Receiver<LockEvent> {
        self.has_listeners.store(true, Ordering::Relaxed);
        self.sender.subscribe()
    }

    /// Sends the event that `kind` returns. Must not be called while a mutex of the crate is held,
    /// as it wakes the receivers.
    pub(crate) fn send(&self, clock: &dyn Clock, kind: impl FnOnce() -> LockEventKind) {
        if !self.has_listeners.load(Ordering::Relaxed) {
            return;
        }
        crate::sync::assert_unlocked();
        let at = UNIX_EPOCH.checked_add(clock.wall()).unwrap_or(UNIX_EPOCH);
        // Fails if all receivers were dropped.
        let _ = self.sender.send(LockEvent { at, kind: kind() });
    }
}

#[cfg(all(test, feature = "config"))]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn json_of(kind: LockEventKind) -> Value {
        let name = kind.name();
        let at = UNIX_EPOCH + Duration::from_secs(1);
        let json = serde_json::to_value(LockEvent { at, kind }).unwrap();
        assert_eq!(json["event"], name);
        json
    }

    #[test]
    fn text_shows_slots_by_number() {
        let (token, waited) = (FencingToken::new(7), Duration::from_secs(1));
        let text = |resource| {
            LockEventKind::Granted { resource, shared: false, token, waited }.to_string()
        };

        let slot = text(Resource::of_slot("export", 3).unwrap());
        let line = text(Resource::of_any_slot("export", 5));
        let set = text(Resource::new(["b", "a"]).unwrap());

        assert_eq!(slot, "export, slot 3 was acquired after 1.0s, with token 7");
        assert!(line.starts_with("export, any slot of 5 was acquired"), "{line}");
        assert!(set.starts_with("a + b was acquired"), "{set}");
    }

    #[test]
    fn events_are_flat_objects() {
        let resource = Resource::try_from(["a", "b"]).unwrap();
        let (token, waited) = (FencingToken::new(7), Duration::from_millis(1_500));
        let granted =
            LockEventKind::Granted { resource: resource.clone(), shared: true, token, waited };
        assert!(granted.to_string().contains(" (shared) was acquired after 1.5s"), "{granted}");
        let shown = resource.to_string();

        let at = "1970-01-01T00:00:01Z";

        assert_eq!(
            json_of(granted),
            json!({ "at": at, "event": "granted", "resource": shown, "shared": true, "token": 7, "waited": "1s 500ms" })
        );

        let error = LockError::Closed;
        let text = error.to_string();
        assert_eq!(
            json_of(LockEventKind::Refused { resource, shared: false, waited, error }),
            json!({ "at": at, "event": "refused", "resource": shown, "shared": false, "waited": "1s 500ms", "error": text })
        );

        let reason = Reason::ReadOnly;
        let text = reason.to_string();
        assert_eq!(
            LockEventKind::NodeOut { node: "n".into(), reason: reason.clone() }.to_string(),
            format!("n does not vote any more: {text}")
        );
        assert_eq!(
            json_of(LockEventKind::NodeOut { node: "n".into(), reason }),
            json!({ "at": at, "event": "node_out", "node": "n", "reason": text })
        );
    }
}
