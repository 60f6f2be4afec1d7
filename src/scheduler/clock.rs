//! The time that jobs are decided by, and that is stored of them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{lock::Core, schedule::WallTime, time::Timestamp};

/// What is stored may lie so far ahead: clocks of replicas and nodes differ.
const TOLERANCE: Duration = Duration::from_secs(60);

/// The wall clock that a quorum of nodes agrees on. While fewer are connected it goes on from there
/// with this process's own count of time. So jumps of this machine's wall clock decide nothing, and
/// get stored nowhere.
///
/// Where the nodes have no clocks of their own, it is this machine's wall clock, jumps included.
#[derive(Debug)]
pub(super) struct JobClock {
    core: Arc<Core>,
    began: Reading,
    /// The last one of a quorum.
    last: Mutex<Option<Reading>>,
}

/// What a wall clock showed.
#[derive(Clone, Copy, Debug)]
struct Reading {
    wall: Duration,
    at: Timestamp,
}

impl Reading {
    /// What a clock shows at `now` that was not set since.
    fn continued(self, now: Timestamp) -> Duration {
        self.wall.saturating_add(now.saturating_duration_since(self.at))
    }
}

impl JobClock {
    pub(super) fn new(core: Arc<Core>) -> Self {
        let began = Reading { wall: core.clock().wall(), at: core.clock().now() };
        Self { core, began, last: Mutex::new(None) }
    }

    /// The time since the Unix epoch.
    pub(super) fn wall(&self) -> Duration {
        let own = || self.core.clock().wall();
        self.checked(self.core.clock().now()).unwrap_or_else(own)
    }

    /// What is stored and lies after this was stored by a clock that was wrong.
    pub(super) fn limit(&self) -> WallTime {
        let now = self.core.clock().now();
        // Our own clock may have been set back: what it stored before is not of the future.
        let own = || self.core.clock().wall().max(self.began.continued(now));
        let latest = self.checked(now).unwrap_or_else(own);
        WallTime::since_epoch(latest.saturating_add(TOLERANCE))
    }

    fn checked(&self, now: Timestamp) -> Option<Duration> {
        // Nodes are foreign code, so not under the mutex.
        let common = self.core.common_wall(now);
        let mut last = crate::sync::lock(&self.last);
        if let Some(wall) = common {
            *last = Some(Reading { wall, at: now });
        }
        last.map(|last| last.continued(now))
    }
}
