//! A once request and its settings.

use std::{future::Future, time::Duration};

use super::{
    Always, Check, Completes, Once, OnceError, Unchecked, UnknownOutcome, claim::KeyRequest,
    execution, outcome::OnceOutcome, terms, work::WorkVerdict,
};
use crate::{
    error::LockError,
    guard::LockContext,
    lock::{LockOptions, Redlock, option_setters},
    resource::{Resource, ResourceError},
};

/// A request for work that runs once per key. Created by [`Redlock::once`].
///
/// Nothing is sent before the future of [`run`](Self::run) is polled. Defaults are the manager's, except for
/// [`wait`](Self::wait).
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is run"]
pub struct OnceRequest<C = Unchecked, G = Always> {
    pub(super) key: KeyRequest,
    check: C,
    complete: G,
}

impl Redlock {
    /// Creates a request for work that runs once per key: see [`once`](mod@crate::once). The key is one
    /// name of at most 507 bytes.
    ///
    /// Its lock, and the name to [inspect](Self::inspect), is `once:` followed by the key, so
    /// [locks](Self::lock) of the same name are separate. An invalid key, a set of names, or a key that
    /// begins with `layer:` or `idempotency:`, is [`LockError::InvalidResource`] when the request runs:
    /// requests behind an [`OnceLayer`](crate::OnceLayer) have such keys, so no client of a layer can choose a key of
    /// the application. [`once_key`](Self::once_key) reaches them.
    pub fn once<R>(&self, key: R) -> OnceRequest
    where
        R: TryInto<Resource>,
        R::Error: Into<ResourceError>,
    {
        self.once_request(key.try_into().map_err(Into::into).and_then(terms::application_key))
    }

    /// Creates a request for any key, as [`once_keys`](Self::once_keys) lists it, and logs name it after
    /// `once:`. For people and reconcilers that look at keys of layers, or decide about them.
    ///
    /// | the key of | is |
    /// |---|---|
    /// | [`once`](Self::once) | itself: `order:7` |
    /// | the request `evt_1` behind the [`OnceLayer`](crate::OnceLayer) `shop` | `layer:shop:evt_1` |
    /// | a request with an `Idempotency-Key` | `idempotency:`, the layer's name and [more](crate::OnceLayer::idempotency) |
    ///
    /// Use [`once`](Self::once) for keys that contain what a client chose.
    ///
    /// ```
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    /// use tower_redlock::{OnceLayer, Redlock, once::OnceState};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let redlock = Redlock::embedded();
    /// let once = OnceLayer::new(redlock.clone(), "orders", |order: &u64| order.to_string());
    /// let mut ship = once.layer(service_fn(async |_: u64| Ok::<_, std::io::Error>(())));
    /// ship.ready().await?.call(7).await?;
    ///
    /// let status = redlock.once_key("layer:orders:7").status().await?;
    /// assert_eq!(status.map(|status| status.state), Some(OnceState::Done));
    /// # Ok(())
    /// # }
    /// ```
    pub fn once_key<R>(&self, key: R) -> OnceRequest
    where
        R: TryInto<Resource>,
        R::Error: Into<ResourceError>,
    {
        self.once_request(key.try_into().map_err(Into::into))
    }

    fn once_request(&self, key: Result<Resource, ResourceError>) -> OnceRequest {
        let resource = key.and_then(|key| terms::resource(&key)).map_err(LockError::from);
        let (check, complete) = (Unchecked(()), Always(()));
        OnceRequest { key: KeyRequest::new(self, resource), check, complete }
    }
}

impl<G> OnceRequest<Unchecked, G> {
    /// Runs `check` under the lock, before the work. If it returns `true`, the work does not run, and is
    /// recorded as done. An error of the check is an error of the work.
    ///
    /// For effects in a database that must not happen twice: the nodes alone can't guarantee that, as a
    /// process may crash between the effect and the record. The check writes its
    /// [fencing token](LockContext::fencing_token) to the key's row, and the work marks the row done
    /// *in the same transaction* as its effect, only if that token is still there:
    ///
    /// ```sql
    /// CREATE TABLE once (key text PRIMARY KEY, token bigint NOT NULL, done bool NOT NULL);
    ///
    /// -- The check. A later holder has a greater token.
    /// INSERT INTO once VALUES ($key, $token, false)
    ///   ON CONFLICT (key) DO UPDATE SET token = greatest(once.token, $token)
    ///   RETURNING done;
    ///
    /// -- The work: one transaction.
    /// BEGIN;
    /// UPDATE once SET done = true WHERE key = $key AND token = $token AND NOT done;
    /// -- No row: ROLLBACK, and fail. Another holder runs it, or has run it.
    /// UPDATE stock SET count = count - 1 WHERE item = $item;
    /// COMMIT;
    /// ```
    ///
    /// The crate `tower-redlock-sqlx` has both for PostgreSQL: `done_at` is the check, and `once_in` records the effect.
    ///
    /// The effect then happens once even if a process crashes after it, or pauses for longer than the
    /// validity of its lock.
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
    pub fn unless<F, Fut, E>(self, check: F) -> OnceRequest<F, G>
    where
        F: FnOnce(LockContext) -> Fut,
        Fut: Future<Output = Result<bool, E>>,
    {
        OnceRequest { key: self.key, check, complete: self.complete }
    }
}

/// # Lock options
impl<C, G> OnceRequest<C, G> {
    /// Sets each option that is set in `options`. The others keep their values.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.key.lock = self.key.lock.options(options);
        self
    }

    option_setters! {
        /// See [`LockOptions::ttl`].
        pub fn ttl(self, ttl: Duration) -> Self;

        /// See [`LockOptions::wait`]: the maximum time to wait for another run of the work. Default: zero, the
        /// result is [`InProgress`](super::Once::InProgress) at once, or [`NoQuorum`](LockError::NoQuorum).
        pub fn wait(self, wait: Duration) -> Self;

        /// See [`LockOptions::max_hold`].
        pub fn max_hold(self, max_hold: Duration) -> Self;
    }

    #[cfg(all(test, feature = "scheduler"))]
    pub(crate) fn lock_request(self) -> crate::lock::LockRequest {
        self.key.lock
    }
}

/// # Records and run
impl<C, G> OnceRequest<C, G> {
    /// Sets the time for which the nodes store that the work is done. Default: 96 hours. Above zero, and
    /// at most 100 years. Choose it longer than the senders' retry schedules, which reach 75 hours.
    ///
    /// A record takes about 275 bytes of each server's memory, with 31 bytes of key and 20 of owner
    /// (Redis 7.0): a million a day for 96 hours take 1.1 GB. Their number is limited by
    /// [`max_records`](crate::RedlockBuilder::max_records).
    pub fn retain(mut self, retain: Duration) -> Self {
        self.key.terms.retain = retain;
        self
    }

    /// Sets what happens to the key if the outcome of the work is unknown. Default:
    /// [`UnknownOutcome::Release`].
    pub fn unknown(mut self, unknown: UnknownOutcome) -> Self {
        self.key.terms.unknown = unknown;
        self
    }

    /// Sets the closure that decides whether an output of the work completes the key. After other outputs
    /// the key is free: the work knows that it did nothing. Default: every `Ok` completes it.
    ///
    /// ```
    /// use std::{convert::Infallible, time::Duration};
    /// use tower_redlock::{once::{Once, OnceError, UnknownOutcome}, Redlock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), OnceError<Infallible>> {
    /// # async fn charge() -> Result<&'static str, Infallible> { Ok("declined") }
    /// # let redlock = Redlock::embedded();
    /// let charged = redlock
    ///     .once("order:7")
    ///     .unknown(UnknownOutcome::Hold(Duration::from_secs(24 * 3600)))
    ///     .complete_when(|answer: &&str| *answer == "charged")
    ///     .run(|_| charge())
    ///     .await?;
    /// assert_eq!(charged, Once::Ran("declined"), "it may be tried again");
    /// # Ok(())
    /// # }
    /// ```
    pub fn complete_when<H>(self, complete: H) -> OnceRequest<C, H> {
        let Self { key, check, .. } = self;
        OnceRequest { key, check, complete }
    }

    /// Runs the work, unless it is done, or another client runs it.
    ///
    /// Acquires the key's lock, reads the record from a majority of the nodes, runs the work under the
    /// lock, and stores the record on a majority before the release. After ten node timeouts it returns, and
    /// the record is stored in the background: [`RanUnrecorded`](super::Once::RanUnrecorded).
    ///
    /// # Errors
    ///
    /// [`OnceError::Work`](super::OnceError::Work) is the work's own. It may come after the effect, so the
    /// outcome is unknown: see [`unknown`](Self::unknown). With
    /// [`OnceError::Lock`](super::OnceError::Lock) nothing ran, except for [`LockError::Lost`]: the
    /// lock was lost while the work ran, it was dropped, and its outcome is unknown.
    /// [`LockError::TooManyRecords`]: the manager's limit of records is reached.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, then releases the lock. Before the start of the work, the key
    /// is then free. After that the outcome is unknown: the key is free, or held with
    /// [`UnknownOutcome::Hold`], and a WARN is logged. The record of work that has ended is stored in the
    /// background.
    ///
    /// # Panics
    ///
    /// If the work panics; its outcome is then unknown, as after a drop.
    pub async fn run<W, Fut, T, E>(self, work: W) -> Result<Once<T>, OnceError<E>>
    where
        W: FnOnce(LockContext) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Check<E>,
        G: Completes<T>,
    {
        let Self { key, check, complete } = self;
        let work = |context| async move {
            match work(context).await {
                Ok(output) => {
                    let verdict = WorkVerdict::of(complete.completes(&output));
                    (Ok(output), verdict)
                }
                // It may come after the effect.
                Err(error) => (Err(error), WorkVerdict::Unknown { hold: None }),
            }
        };
        execution::run(key, check, work).await.map(OnceOutcome::into)
    }
}
