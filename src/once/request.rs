use std::{future::Future, time::Duration};

use super::{
    Always, Check, OnceRun, Unchecked, UnknownOutcome,
    call::OnceCall,
    terms::{self, Terms},
};
use crate::{
    error::LockError,
    guard::LockContext,
    lock::{LockOptions, LockRequest, Redlock},
    resource::{Resource, ResourceError},
};

/// A request for work that is to be done once per key. Made by [`Redlock::once`].
///
/// Nothing is sent before it is run. What is not set here is as the manager was built; but it does
/// not wait for another that does the same work, unless [`wait`](Self::wait) says so.
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is run"]
pub struct OnceRequest<C = Unchecked> {
    pub(super) redlock: Redlock,
    pub(super) resource: Result<Resource, LockError>,
    pub(super) lock: LockRequest,
    pub(super) terms: Terms,
    check: C,
}

impl Redlock {
    /// A request for work that is to be done once for this key, which is one name of at most 507
    /// bytes: see [`once`](mod@crate::once).
    ///
    /// It is locked, and [inspected](Self::inspect), under the name `once:` with the key behind it,
    /// so that [locks](Self::lock) of the same name are others.
    ///
    /// An invalid key, or a set of names, shows when it is run, as
    /// [`LockError::InvalidResource`]; nothing is sent then.
    pub fn once<R>(&self, key: R) -> OnceRequest
    where
        R: TryInto<Resource>,
        R::Error: Into<ResourceError>,
    {
        let key = key.try_into().map_err(Into::into);
        let resource = key.and_then(|key| terms::resource(&key)).map_err(LockError::from);
        OnceRequest::new(self, resource)
    }
}

impl OnceRequest {
    pub(super) fn new(redlock: &Redlock, resource: Result<Resource, LockError>) -> Self {
        let redlock = redlock.clone();
        let lock = redlock.lock_own(resource.clone()).keeps_records().wait(Duration::ZERO);
        Self { redlock, resource, lock, terms: Terms::DEFAULT, check: Unchecked(()) }
    }

    /// Asks `check` under the lock, before the work, whether it is done already. Where it is, the
    /// work does not run, and the nodes keep that it is done. An error of the check is one of the
    /// work.
    ///
    /// This is for effects that must not happen twice, in a database of your own. The nodes alone
    /// can't promise that: a process may crash between the effect and the record. Let the check leave
    /// its [fencing token](LockContext::fencing_token) in a row of the key, and let the work write
    /// that it is done *in the same transaction* as its effect, only if that token still stands:
    ///
    /// ```sql
    /// CREATE TABLE once (key text PRIMARY KEY, token bigint NOT NULL, done bool NOT NULL);
    ///
    /// -- The check. Whoever comes later has a greater token, and turns the slower away.
    /// INSERT INTO once VALUES ($key, $token, false)
    ///   ON CONFLICT (key) DO UPDATE SET token = greatest(once.token, $token)
    ///   RETURNING done;
    ///
    /// -- The work: one transaction.
    /// BEGIN;
    /// UPDATE once SET done = true WHERE key = $key AND token = $token AND NOT done;
    /// -- No row: ROLLBACK, and fail. Somebody else does it, or has done it.
    /// UPDATE stock SET count = count - 1 WHERE item = $item;
    /// COMMIT;
    /// ```
    ///
    /// So the effect happens once even where a process crashed behind it, or stood still for longer
    /// than its lock was valid.
    ///
    /// ```
    /// use tower_redlock::{once::{Once, OnceError}, Redlock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), OnceError<std::io::Error>> {
    /// # async fn is_in_database(_token: u64) -> Result<bool, std::io::Error> { Ok(true) }
    /// # async fn ship_in_one_transaction(_token: u64) -> Result<(), std::io::Error> { Ok(()) }
    /// # let redlock = Redlock::embedded();
    /// let shipped = redlock
    ///     .once("order:7")
    ///     .unless(|cx| async move { is_in_database(cx.fencing_token().get()).await })
    ///     .run(|cx| async move { ship_in_one_transaction(cx.fencing_token().get()).await })
    ///     .await?;
    /// assert!(matches!(shipped, Once::AlreadyDone { .. }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn unless<F, Fut, E>(self, check: F) -> OnceRequest<F>
    where
        F: FnOnce(LockContext) -> Fut,
        Fut: Future<Output = Result<bool, E>>,
    {
        let Self { redlock, resource, lock, terms, .. } = self;
        OnceRequest { redlock, resource, lock, terms, check }
    }
}

impl<C> OnceRequest<C> {
    /// Sets all that is set in `options`; what was set before and is not set there stays.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.lock = self.lock.options(options);
        self
    }

    /// See [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.options(LockOptions::new().ttl(ttl))
    }

    /// See [`LockOptions::wait`]: how long to wait while another does the work. Default: zero, it is
    /// [`InProgress`](super::Once::InProgress) at once, or [`NoQuorum`](LockError::NoQuorum).
    pub fn wait(self, wait: Duration) -> Self {
        self.options(LockOptions::new().wait(wait))
    }

    /// See [`LockOptions::max_hold`].
    pub fn max_hold(self, max_hold: Duration) -> Self {
        self.options(LockOptions::new().max_hold(max_hold))
    }

    #[cfg(all(test, feature = "scheduler"))]
    pub(crate) fn lock_request(self) -> LockRequest {
        self.lock
    }

    /// How long the nodes keep that the work is done. Default: 96 hours. Above zero, and at most 100
    /// years. Choose it longer than senders go on sending: published schedules reach 75 hours.
    ///
    /// A done key takes about 275 bytes of each server's memory, with 31 bytes of key and 20 of
    /// owner (Redis 7.0): a million of them a day, kept for 96 hours, take 1.1 GB. How many there may
    /// be is bounded by [`max_records`](crate::RedlockBuilder::max_records).
    pub fn retain(mut self, retain: Duration) -> Self {
        self.terms.retain = retain;
        self
    }

    /// What becomes of the key where nobody knows how far the work came. Default:
    /// [`UnknownOutcome::Release`].
    pub fn unknown(mut self, unknown: UnknownOutcome) -> Self {
        self.terms.unknown = unknown;
        self
    }

    /// Does the work, unless it is done, or somebody does it.
    ///
    /// Takes the key's lock, asks a majority of the nodes whether the work is done, runs it under
    /// the lock, and has a majority keep that it is done before the lock is given back. That is tried
    /// for ten node timeouts.
    ///
    /// # Errors
    ///
    /// [`OnceError::Work`](super::OnceError::Work) is the work's own. With
    /// [`OnceError::Lock`](super::OnceError::Lock) nothing ran, except for [`LockError::Lost`]: the
    /// lock was lost while the work ran, it was dropped, and its outcome is unknown.
    /// [`LockError::TooManyRecords`] says that the nodes keep as many records for this manager as they
    /// may.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, then gives the lock back. Before the work has begun, the key
    /// is free then. After that its outcome is unknown: the key is free as well, or held with
    /// [`UnknownOutcome::Hold`], and a WARN says so. Once the work is over, it is recorded all the same.
    ///
    /// # Panics
    ///
    /// Where the work panics; its outcome is unknown then, as where it is dropped.
    pub fn run<W, Fut, T, E>(self, work: W) -> OnceRun<W, C>
    where
        W: FnOnce(LockContext) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Check<E>,
    {
        let Self { redlock, resource, lock, terms, check } = self;
        OnceRun::new(match resource {
            Ok(resource) => {
                OnceCall::new((redlock, resource, lock), terms, (work, check), Always(()))
            }
            Err(error) => OnceCall::rejected(error, Always(())),
        })
    }
}
