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
    pub(crate) response_bytes: Option<u64>,
}

/// Default for records, where the servers' memory allows it.
const MAX_RECORDS: u64 = 4_000_000;
/// Default for the bytes of answers, where the servers' memory allows it.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;

impl RecordBounds {
    /// Whether this is too much, answers apart.
    fn are_exceeded(self, usage: Usage, servers: ServerMemory) -> bool {
        match self.records {
            Some(records) => usage.records > records,
            None => usage.records > MAX_RECORDS || usage.bytes > servers.limit / 2,
        }
    }

    fn response_bytes(self, servers: ServerMemory) -> u64 {
        self.response_bytes.unwrap_or_else(|| MAX_RESPONSE_BYTES.min(servers.limit / 4))
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
        if self.is_forked() {
            return Err(LockError::Forked { built_in: self.process });
        }
        let now = self.look(core);
        let mut state = sync::lock(&self.state);
        state.kept.expire(now);
        let usage = Usage { records: 1, bytes, answers: 0 };
        let used = state.kept.total().plus(state.reserved);
        if !self.bounds.are_exceeded(used.plus(usage), state.servers) {
            state.reserved = state.reserved.plus(usage);
            return Ok(usage);
        }
        let limit = used.records;
        let retry_after = state.kept.next_end().map(|end| end.saturating_duration_since(now));
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
        if self.is_forked() {
            return false;
        }
        let now = self.look(core);
        let mut state = sync::lock(&self.state);
        state.kept.expire(now);
        let limit = self.bounds.response_bytes(state.servers);
        let used = state.kept.total().plus(state.reserved).answers;
        let recent = state.answers[0].saturating_add(state.answers[1]).saturating_add(bytes);
        let full = if used.saturating_add(bytes) > limit {
            "max_stored_response_bytes"
        } else if bytes > SMALL_ANSWER && recent > state.servers.room / SHARES {
            "memory"
        } else {
            state.reserved.answers = state.reserved.answers.saturating_add(bytes);
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
                     max_stored_response_bytes allows: further ones are not kept, and who repeats such a \
                     request is told that it is done, without its answer; keep them in a store apart \
                     (OnceLayer::store), or for less time (retain), or raise max_stored_response_bytes"
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
        let end = super::window::bucket(now, retain);
        if self.is_forked() {
            return end;
        }
        let mut state = sync::lock(&self.state);
        state.reserved = state.reserved.minus(reserved);
        if let Some((before, at)) = before {
            state.kept.remove(before, at);
        }
        state.kept.add(usage, end);
        end
    }

    /// What was reserved, or written, is free again.
    pub(super) fn free(&self, reserved: Usage, written: Option<(Usage, Timestamp)>) {
        if self.is_forked() {
            return;
        }
        let mut state = sync::lock(&self.state);
        state.reserved = state.reserved.minus(reserved);
        if let Some((usage, at)) = written {
            state.kept.remove(usage, at);
        }
    }

    /// Another thread of the parent may have held the mutex at the fork.
    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// Sees to it that what is known of the servers' memory is new enough. Returns the time.
    fn look(&self, core: &Core) -> Timestamp {
        let now = self.timers.clock().now();
        let is_due = |looked: Option<Timestamp>| {
            looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK_INTERVAL)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SystemClock;

    /// Another thread of the parent held the mutex at the fork: it is locked in the child for ever.
    #[test]
    fn fork_leaves_the_mutex_alone() {
        let timers = Arc::new(Timers::new(Arc::new(SystemClock::new())));
        let mut quota = Quota::new(RecordBounds::default(), timers);
        Arc::get_mut(&mut quota).expect("nobody else has it").process = 0;
        let _held = quota.state.lock().expect("nobody has panicked");
        let none = Usage::default();
        quota.free(none, None);
        let end = quota.write((none, none), None, Duration::from_secs(1));
        assert!(end > Timestamp::ZERO);
    }

    #[test]
    fn records_take_half_of_the_servers_memory_and_answers_a_quarter() {
        let bounds = RecordBounds::default();
        let servers = ServerMemory { limit: 40_000, room: 40_000 };
        let usage = |records, bytes| Usage { records, bytes, answers: 1 << 40 };
        assert!(!bounds.are_exceeded(usage(60, 20_000), servers), "answers count apart");
        assert!(bounds.are_exceeded(usage(60, 20_001), servers));
        assert_eq!(bounds.response_bytes(servers), 10_000);
        // Whose bounds are set keeps to them, and to nothing else.
        let set = RecordBounds { records: Some(60), response_bytes: Some(1 << 30) };
        assert!(!set.are_exceeded(usage(60, u64::MAX), servers));
        assert!(set.are_exceeded(usage(61, 0), servers));
        assert_eq!(set.response_bytes(servers), 1 << 30);
        // Without a limit of the servers'.
        let servers = ServerMemory::UNKNOWN;
        assert!(!bounds.are_exceeded(usage(4_000_000, 1 << 40), servers));
        assert!(bounds.are_exceeded(usage(4_000_001, 0), servers));
        assert_eq!(bounds.response_bytes(servers), 64 << 20);
    }
}
