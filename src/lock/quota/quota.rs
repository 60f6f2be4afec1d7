//! The quota of one manager: its bounds, the servers' memory, and what it has written.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use super::window::{ChargedUsage, Count, Usage, bucket};
use crate::{
    error::LockError,
    metrics,
    node::Node,
    node::{Memory, NodeHealth},
    protocol::formulas,
    sync::{self, Mutex},
    time::{Timers, Timestamp},
};

/// Bounds on one manager's records; an unset one depends on the servers' memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RecordBounds {
    pub(crate) records: Option<u64>,
    pub(crate) response_bytes: Option<u64>,
}

/// Default maximum number of records, if the servers' memory allows it.
const MAX_RECORDS: u64 = 4_000_000;
/// Default maximum number of bytes of answers, if the servers' memory allows it.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;

impl RecordBounds {
    /// Returns whether `usage` exceeds the bounds, apart from answers.
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

/// The part of a manager's records that the requests of one scope may take.
#[derive(Clone, Debug)]
pub(crate) struct RecordShare {
    pub(crate) scope: Arc<str>,
    /// Maximum number of records.
    pub(crate) records: u64,
}

/// Number of counts of scopes, so that clients with many scopes take no more memory. Scopes with one hash
/// share a count.
const STRIPES: u64 = 1 << 10;

/// Counts the records that this manager wrote and that have not expired, and reservations.
pub(crate) struct Quota {
    bounds: RecordBounds,
    timers: Arc<Timers>,
    state: Mutex<QuotaState>,
    /// Differs between processes: no client can choose a scope that shares the count of another.
    hasher: RandomState,
}

#[derive(Debug)]
struct QuotaState {
    all: Count,
    /// Records of scopes, by their stripes.
    scopes: HashMap<u64, Count>,
    servers: ServerMemory,
    /// Time of the last reading of `servers`.
    read_at: Option<Timestamp>,
    /// Bytes of answers that the last reading of `servers` may not include: since that reading.
    answers_since: u64,
    /// The same between the last two readings.
    answers_before: u64,
    answer_warnings: WarnThrottle,
    record_warnings: WarnThrottle,
    scope_warnings: WarnThrottle,
}

/// Minimum interval between two readings of the servers' memory. Servers report it as often.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// Number of shares of the room for answers. A manager takes one between two readings, as others
/// see the same room.
const SHARES: u64 = 8;
/// Maximum size of an answer, in bytes, that is stored while the servers are nearly full: the size
/// of a few records.
const SMALL_ANSWER: u64 = 1 << 10;

impl Quota {
    pub(crate) fn new(bounds: RecordBounds, timers: Arc<Timers>) -> Arc<Self> {
        let state = QuotaState {
            all: Count::default(),
            scopes: HashMap::new(),
            servers: ServerMemory::UNKNOWN,
            read_at: None,
            answers_since: 0,
            answers_before: 0,
            answer_warnings: WarnThrottle::default(),
            record_warnings: WarnThrottle::default(),
            scope_warnings: WarnThrottle::default(),
        };
        let (state, hasher) = (Mutex::new(state), RandomState::new());
        Arc::new(Self { bounds, timers, state, hasher })
    }

    /// Reserves one record of `bytes` bytes, before its work begins. Returns the stripe of its scope too.
    pub(super) fn reserve(
        &self,
        nodes: &[Arc<dyn Node>],
        bytes: u64,
        share: Option<&RecordShare>,
    ) -> Result<(Usage, Option<u64>), LockError> {
        let now = self.refresh(nodes);
        let stripe = share.map(|share| self.hasher.hash_one(&*share.scope) % STRIPES);
        let mut state = sync::lock(&self.state);
        if let (Some(share), Some(stripe)) = (share, stripe) {
            let count = state.scopes.entry(stripe).or_default();
            if count.used(now).records >= share.records {
                let retry_after = count.next_end(now);
                let warns = state.scope_warnings.count(now);
                drop(state);
                return Err(scope_is_full(share, retry_after, warns));
            }
        }
        let usage = Usage { records: 1, bytes, answers: 0 };
        let used = state.all.used(now);
        if !self.bounds.are_exceeded(used.plus(usage), state.servers) {
            state.counts(stripe, |count| count.reserve(usage));
            return Ok((usage, stripe));
        }
        let limit = used.records;
        let retry_after = state.all.next_end(now);
        let warns = state.record_warnings.count(now);
        drop(state);
        metrics::over_quota("max_records");
        if let Some(requests) = warns {
            crate::log::warn!(
                limit,
                requests,
                "max_records reached: new work is refused before it runs; raise max_records, keep \
                 records for less time (retain), or limit what one caller may send \
                 (max_records_per_scope)"
            );
        }
        Err(LockError::TooManyRecords { limit, retry_after })
    }

    /// Reserves `bytes` bytes for an answer. Returns false if it must not be stored.
    pub(super) fn admit(&self, nodes: &[Arc<dyn Node>], bytes: u64) -> bool {
        let now = self.refresh(nodes);
        let mut state = sync::lock(&self.state);
        let limit = self.bounds.response_bytes(state.servers);
        let used = state.all.used(now).answers;
        let recent = state.answers_since.saturating_add(state.answers_before).saturating_add(bytes);
        let full = if used.saturating_add(bytes) > limit {
            "max_stored_response_bytes"
        } else if bytes > SMALL_ANSWER && recent > state.servers.room / SHARES {
            "memory"
        } else {
            state.all.reserve(Usage { answers: bytes, ..Usage::default() });
            state.answers_since = state.answers_since.saturating_add(bytes);
            return true;
        };
        let warns = state.answer_warnings.count(now);
        drop(state);
        metrics::over_quota(full);
        if let Some(answers) = warns {
            if full == "memory" {
                crate::log::warn!(
                    answers,
                    "the servers are nearly three quarters full, or have little room for so many \
                     answers at once: answers above 1 KiB are not stored, and repeated requests get \
                     response-not-kept; raise maxmemory, or use a separate store (OnceLayer::store)"
                );
            } else {
                crate::log::warn!(
                    limit,
                    answers,
                    "max_stored_response_bytes reached: further answers are not stored, and repeated \
                     requests get response-not-kept; use a separate store (OnceLayer::store), keep \
                     answers for less time (retain), or raise max_stored_response_bytes"
                );
            }
        }
        false
    }

    /// Counts `usage` in place of what was charged, until `retain` is over. Returns the end of its bucket.
    pub(super) fn write(&self, before: &ChargedUsage, usage: Usage, retain: Duration) -> Timestamp {
        let now = self.timers.clock().now();
        let end = bucket(now, retain);
        sync::lock(&self.state).counts(before.stripe, |count| {
            count.free(before);
            count.add(usage, end);
        });
        end
    }

    /// Frees what was charged.
    pub(super) fn free(&self, charged: &ChargedUsage) {
        sync::lock(&self.state).counts(charged.stripe, |count| count.free(charged));
    }

    /// Reads the servers' memory again if the last reading is old. Returns the time.
    fn refresh(&self, nodes: &[Arc<dyn Node>]) -> Timestamp {
        let now = self.timers.clock().now();
        let is_due = |read_at: Option<Timestamp>| {
            read_at.is_none_or(|read_at| now.saturating_duration_since(read_at) >= READ_INTERVAL)
        };
        if is_due(sync::lock(&self.state).read_at) {
            let servers = ServerMemory::of(nodes);
            let mut state = sync::lock(&self.state);
            if is_due(state.read_at) {
                (state.servers, state.read_at) = (servers, Some(now));
                state.answers_before = std::mem::take(&mut state.answers_since);
            }
        }
        now
    }
}

impl QuotaState {
    /// Changes the count of all records, and the count of a scope.
    fn counts(&mut self, stripe: Option<u64>, change: impl Fn(&mut Count)) {
        change(&mut self.all);
        if let Some(stripe) = stripe {
            change(self.scopes.entry(stripe).or_default());
        }
    }
}

/// Reports a request beyond the share of its scope.
fn scope_is_full(
    share: &RecordShare,
    retry_after: Option<Duration>,
    warns: Option<u64>,
) -> LockError {
    metrics::over_quota("max_records_per_scope");
    let (scope, limit) = (&*share.scope, share.records);
    if let Some(requests) = warns {
        crate::log::warn!(
            scope,
            limit,
            requests,
            "max_records_per_scope reached: new requests of the scope are refused before they run; limit \
             their rate, or raise max_records_per_scope"
        );
    }
    LockError::TooManyRecords { limit, retry_after }
}

opaque_debug!(Quota);

/// Memory of a quorum of the servers, in bytes; `u64::MAX` without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ServerMemory {
    /// `maxmemory`.
    limit: u64,
    /// Room for answers, which leaves a quarter of `maxmemory` free.
    room: u64,
}

impl ServerMemory {
    const UNKNOWN: Self = Self { limit: u64::MAX, room: u64::MAX };

    /// Reads the memory that the servers reported last. Calls the nodes, so it must not be called
    /// under a mutex.
    fn of(nodes: &[Arc<dyn Node>]) -> Self {
        crate::sync::assert_unlocked();
        let health: Vec<NodeHealth> = nodes.iter().map(|node| node.health()).collect();
        let known: Vec<&Memory> = health.iter().filter_map(|node| node.memory.as_ref()).collect();
        let quorum = formulas::quorum(health.len());
        Self { limit: of_quorum(&known, quorum, limit), room: of_quorum(&known, quorum, room) }
    }
}

fn limit(memory: &Memory) -> u64 {
    if memory.limit == 0 { u64::MAX } else { memory.limit }
}

fn room(memory: &Memory) -> u64 {
    if memory.limit == 0 {
        return u64::MAX;
    }
    (memory.limit - memory.limit / 4).saturating_sub(memory.used)
}

/// Returns the minimum over the best quorum of servers, or over all that are known.
fn of_quorum(known: &[&Memory], quorum: usize, amount: fn(&Memory) -> u64) -> u64 {
    let mut amounts: Vec<u64> = known.iter().map(|memory| amount(memory)).collect();
    amounts.sort_unstable_by(|a, b| b.cmp(a));
    amounts.truncate(quorum);
    amounts.last().copied().unwrap_or(u64::MAX)
}

/// Minimum interval between two warnings of one kind.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Limits the warnings of one kind to one a minute.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WarnThrottle {
    last: Option<Timestamp>,
    /// Number of reasons for a warning since the last one.
    count: u64,
}

impl WarnThrottle {
    /// Counts a reason for a warning. Returns their number since the last warning if it is time for
    /// the next one.
    pub(crate) fn count(&mut self, now: Timestamp) -> Option<u64> {
        self.count += 1;
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < WARN_INTERVAL) {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::{assert_documented, bytes, number};

    #[test]
    fn defaults_are_in_the_guide() {
        let of = |value: u64| usize::try_from(value).unwrap();
        assert_documented("max_records", &number(of(MAX_RECORDS)));
        assert_documented("max_stored_response_bytes", &bytes(of(MAX_RESPONSE_BYTES)));
    }

    #[test]
    fn defaults_depend_on_the_servers_memory() {
        let bounds = RecordBounds::default();
        let servers = ServerMemory { limit: 40_000, room: 40_000 };
        let usage = |records, bytes| Usage { records, bytes, answers: 1 << 40 };

        assert!(!bounds.are_exceeded(usage(60, 20_000), servers), "answers count separately");
        assert!(bounds.are_exceeded(usage(60, 20_001), servers));
        assert_eq!(bounds.response_bytes(servers), 10_000);

        // Bounds that are set do not depend on the memory.
        let set = RecordBounds { records: Some(60), response_bytes: Some(1 << 30) };
        assert!(!set.are_exceeded(usage(60, u64::MAX), servers));
        assert!(set.are_exceeded(usage(61, 0), servers));
        assert_eq!(set.response_bytes(servers), 1 << 30);

        // Servers without a limit.
        let servers = ServerMemory::UNKNOWN;

        assert!(!bounds.are_exceeded(usage(4_000_000, 1 << 40), servers));
        assert!(bounds.are_exceeded(usage(4_000_001, 0), servers));
        assert_eq!(bounds.response_bytes(servers), 64 << 20);
    }

    fn memory(limit: u64, used: u64) -> Memory {
        Memory::new(limit, "noeviction".into(), used)
    }

    #[test]
    fn quorum_has_its_members_minimum() {
        let [full, small, large] = [memory(100, 99), memory(100, 50), memory(0, 1_000)];
        let room_of = |known: &[&Memory]| of_quorum(known, 2, room);
        assert_eq!(room_of(&[&full, &small, &large]), 25);
        assert_eq!(room_of(&[&full, &full, &large]), 0);
        assert_eq!(room_of(&[&large, &large, &full]), u64::MAX);
        assert_eq!(room_of(&[&small]), 25, "the others are unknown");
        assert_eq!(room_of(&[]), u64::MAX);
    }

    #[test]
    fn warnings_are_limited_and_counted() {
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let mut throttle = WarnThrottle::default();
        let warned = [0, 1, 59, 60, 119, 120, 300].map(|seconds| throttle.count(at(seconds)));
        assert_eq!(warned, [Some(1), None, None, Some(3), None, Some(2), Some(1)]);
    }
}
