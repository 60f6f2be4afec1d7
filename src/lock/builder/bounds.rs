//! What a manager may take of this process's memory, and of the servers'.

use super::RedlockBuilder;

impl RedlockBuilder {
    /// How many bytes of requests' bodies this process may hold in memory, of all layers over this
    /// manager that read bodies before they ask for a lock
    /// ([`OnceLayer::by_body`](crate::OnceLayer::by_body),
    /// [`OnceLayer::idempotency`](crate::OnceLayer::idempotency),
    /// [`RedlockLayer::read_body_first`](crate::RedlockLayer::read_body_first)). Above zero. Default:
    /// 64 MiB.
    ///
    /// A body counts from its first byte until the handler reads it or drops it, also while its request
    /// waits. One for which there is no room beside the others is refused: before it is read where its
    /// length is announced, else where it comes to that. The answer is 503, `too-many-bodies`, with
    /// `Retry-After`; a WARN, at most one a minute, says how many there were. A body that is alone is taken
    /// up to its layer's own limit.
    pub fn max_waiting_body_bytes(mut self, bytes: usize) -> Self {
        self.waiting_body_bytes = bytes;
        self
    }

    /// How many records of work that is done [once](mod@crate::once) the nodes may keep for this
    /// manager at a time. Above zero. Default: 4 million, and no more than what takes half of the
    /// servers' `maxmemory`, answers apart. A record takes about 224 bytes, its name and the owner.
    ///
    /// Beyond that, work is refused before it runs, with
    /// [`LockError::TooManyRecords`](crate::LockError::TooManyRecords); work that is done is still told as
    /// done. What this manager wrote counts until its `retain` is over (by up to a 32nd of that
    /// longer), also where somebody has had it forgotten. Other managers, and this one before a
    /// restart, count for themselves: leave room for them.
    pub fn max_records(mut self, records: usize) -> Self {
        self.records.records = Some(records as u64);
        self
    }

    /// How many bytes of each server's memory the answers kept with this manager's records may take.
    /// Counted as [`max_records`](Self::max_records). Default: 64 MiB, and at most a
    /// quarter of the servers' `maxmemory`. With zero, the nodes keep no answers.
    ///
    /// A request beyond that runs, and is recorded as done, without its answer: whoever repeats it is
    /// told so (409, `response-not-kept`, behind
    /// [`OnceLayer::idempotency`](crate::OnceLayer::idempotency)). A WARN, at most one a minute, says how
    /// many there were. In any case, an answer above 1 KiB is kept
    /// only while a quarter of the `maxmemory` of a quorum of servers is free, so that answers leave
    /// room for locks. That is looked at once a second, and others do the same: between two looks,
    /// answers take no more than an eighth of the room above it.
    pub fn max_stored_response_bytes(mut self, bytes: usize) -> Self {
        self.records.response_bytes = Some(bytes as u64);
        self
    }
}
