//! The bounds of one manager, and what it has written.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{
    servers::ServerMemory,
    window::{Usage, Window},
};
use crate::{
    error::LockError,
    lock::{core::Core, told::Told},
    metrics, sync,
    time::{Timers, Timestamp},
};

/// The most that the nodes may keep of one manager's records; unset means by the servers' memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordBounds {
    pub(crate) records: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// Default for records, where the servers' memory allows it.
const MAX_RECORDS: u64 = 4_000_000;
/// Default for bytes, where the servers' memory allows it.
const MAX_BYTES: u64 = 64 << 20;
/// What a record without an answer takes at the most with usual names, in bytes.
const USUAL_RECORD: u64 = 300;

impl RecordBounds {
    fn records(self, servers: ServerMemory) -> u64 {
        self.records.unwrap_or_else(|| MAX_RECORDS.min(servers.limit / 2 / USUAL_RECORD))
    }

    fn bytes(self, servers: ServerMemory) -> u64 {
        self.bytes.unwrap_or_else(|| MAX_BYTES.min(servers.limit / 4))
    }
}

/// Counts what this manager wrote and has not expired, and what is about to be written.
pub(crate) struct Quota {
    bounds: RecordBounds,
    timers: Arc<Timers>,
    state: Mutex<State>,
    /// The process that it was built in: a fork has a copy of the mutex as it was.
    process: u32,
}

#[derive(Debug)]
struct State {
    kept: Window,
    /// What work under way has taken, and has not written yet.
    reserved: Usage,
    servers: ServerMemory,
    /// When `servers` was found out.
    looked: Option<Timestamp>,
    /// Bytes of answers since the last look, and between that and the one before: the servers may
    /// not have told of them.
    answers: [u64; 2],
    /// About answers, and about records.
    told: [Told; 2],
}

/// Least time between two looks at what is known of the servers' memory. They tell it as often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks a manager takes no more than one of so many shares of the room for answers, as
/// others see the same room.
const SHARES: u64 = 8;
/// An answer of up to so many bytes is kept while the servers are nearly full: it is no more than
/// a few records.
const SMALL_ANSWER: u64 = 1 << 10;

impl Quota {
    pub(crate) fn new(bounds: RecordBounds, timers: Arc<Timers>) -> Arc<Self> {
        let state = State {
            kept: Window::default(),
            reserved: Usage::default(),
            servers: ServerMemory::UNKNOWN,
            looked: None,
            answers: [0; 2],
            told: [Told::default(); 2],
        };
        Arc::new(Self { bounds, timers, state: Mutex::new(state), process: std::process::id() })
    }

    /// Takes room for one record of so many bytes, before its work begins.
    pub(super) fn reserve(&self, core: &Core, bytes: u64) -> Result<Usage, LockError> {
        let now = self.look(core);
        let mut state = sync::lock(&self.state);
        state.kept.expire(now);
        let limit = self.bounds.records(state.servers);
        if state.kept.total().records.saturating_add(state.reserved.records) < limit {
            let usage = Usage { records: 1, bytes };
            state.reserved = state.reserved.plus(usage);
            return Ok(usage);
        }
        let retry_after = state.kept.next_end().map(|end| end.since(now));
        let warns = state.told[1].warns(now);
        drop(state);
        metrics::over_quota("max_records");
        if let Some(requests) = warns {
            crate::log::warn!(
                limit,
                requests,
                "as many records of work that is done are kept for this manager as max_records \
                 allows: work is refused before it runs; raise max_records, or keep records for less \
                 time (retain)"
            );
        }
        Err(LockError::TooManyRecords { limit, retry_after })
    }

    /// Takes so many bytes more for an answer. False where it is not to be kept.
    pub(super) fn admit(&self, core: &Core, bytes: u64) -> bool {
        let now = self.look(core);
        let mut state = sync::lock(&self.state);
        state.kept.expire(now);
        let limit = self.bounds.bytes(state.servers);
        let used = state.kept.total().bytes.saturating_add(state.reserved.bytes);
        let recent = state.answers[0].saturating_add(state.answers[1]).saturating_add(bytes);
        let full = if used.saturating_add(bytes) > limit {
            "max_record_bytes"
        } else if bytes > SMALL_ANSWER && recent > state.servers.room / SHARES {
            "memory"
        } else {
            state.reserved.bytes = state.reserved.bytes.saturating_add(bytes);
            state.answers[0] = state.answers[0].saturating_add(bytes);
            return true;
        };
        let warns = state.told[0].warns(now);
        drop(state);
        metrics::over_quota(full);
        if let Some(answers) = warns {
            if full == "memory" {
                crate::log::warn!(
                    answers,
                    "the servers are nearly three quarters full, or have little room for so many \
                     answers at once: those above 1 KiB are not kept, and who repeats such a request \
                     is told that it is done, without its answer; raise maxmemory, or keep answers in \
                     a store apart (OnceLayer::store)"
                );
            } else {
                crate::log::warn!(
                    limit,
                    answers,
                    "the answers kept on the servers for this manager take as much as \
                     max_record_bytes allows: further ones are not kept, and who repeats such a \
                     request is told that it is done, without its answer; keep them in a store apart \
                     (OnceLayer::store), or for less time (retain), or raise max_record_bytes"
                );
            }
        }
        false
    }

    /// What was reserved is written, or is kept for another time: in place of `before`, with the end of
    /// its bucket, until `retain` is over. Returns the end of the bucket.
    pub(super) fn write(
        &self,
        (reserved, usage): (Usage, Usage),
        before: Option<(Usage, Timestamp)>,
        retain: Duration,
    ) -> Timestamp {
        let now = self.timers.clock().now();
        let mut state = sync::lock(&self.state);
        state.reserved = state.reserved.minus(reserved);
        let mut end = super::window::bucket(now, retain);
        if let Some((before, at)) = before {
            state.kept.remove(before, at);
            end = end.max(at);
        }
        state.kept.add(usage, end);
        end
    }

    /// What was reserved, or written, is free again.
    pub(super) fn free(&self, reserved: Usage, written: Option<(Usage, Timestamp)>) {
        // Another thread of the parent may have held the mutex at the fork.
        if std::process::id() != self.process {
            return;
        }
        let mut state = sync::lock(&self.state);
        state.reserved = state.reserved.minus(reserved);
        if let Some((usage, at)) = written {
            state.kept.remove(usage, at);
        }
    }

    /// Sees to it that what is known of the servers' memory is new enough. Returns the time.
    fn look(&self, core: &Core) -> Timestamp {
        let now = self.timers.clock().now();
        let is_due = |looked: Option<Timestamp>| {
            looked.is_none_or(|looked| now.since(looked) >= LOOK_INTERVAL)
        };
        if is_due(sync::lock(&self.state).looked) {
            let servers = ServerMemory::of(core);
            let mut state = sync::lock(&self.state);
            if is_due(state.looked) {
                (state.servers, state.looked) = (servers, Some(now));
                state.answers = [0, state.answers[0]];
            }
        }
        now
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quota").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}
