//! A request for a lock.

use std::{future::IntoFuture, sync::Arc, time::Duration};

#[cfg(feature = "scheduler")]
use super::settings::ReportedEnds;
use super::{
    LockOptions,
    acquire::Acquire,
    core::Core,
    options::{Overrun, option_setters},
    settings::{InternalOptions, OnOutage},
    slots,
};
use crate::{error::LockError, resource::Resource, time::Timers};

/// A request for a lock: await it, or run work under it.
///
/// Nothing is sent before it is awaited. Options that are not set are the manager's.
///
/// ```
/// use std::time::Duration;
/// use tower_redlock::{LockError, Redlock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let redlock = Redlock::embedded();
/// let lock = redlock.lock("invoice:42").ttl(Duration::from_secs(5)).await?;
/// assert!(lock.is_valid());
///
/// let busy = redlock.lock("invoice:42").await;
/// assert!(matches!(busy, Err(LockError::Held { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is awaited or run"]
pub struct LockRequest {
    pub(super) core: Arc<Core>,
    pub(super) resource: Result<Resource, LockError>,
    pub(super) options: LockOptions,
    pub(super) internal: InternalOptions,
}

/// # Options
impl LockRequest {
    pub(super) fn new(core: Arc<Core>, resource: Result<Resource, LockError>) -> Self {
        Self { core, resource, options: LockOptions::new(), internal: InternalOptions::default() }
    }

    /// Creates a request for one of the crate's own locks.
    pub(super) fn own(core: Arc<Core>, resource: Result<Resource, LockError>) -> Self {
        let internal = InternalOptions { is_own: true, ..InternalOptions::default() };
        Self { internal, ..Self::new(core, resource) }
    }

    #[cfg(test)]
    pub(crate) const fn set_options(&self) -> LockOptions {
        self.options
    }

    /// Sets each option that is set in `options`. The others keep their values.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = options.or(self.options);
        self
    }

    option_setters! {
        /// See [`LockOptions::ttl`].
        pub fn ttl(self, ttl: Duration) -> Self;

        /// See [`LockOptions::wait`].
        pub fn wait(self, wait: Duration) -> Self;

        /// See [`LockOptions::wait_without_quorum`].
        pub fn wait_without_quorum(self, wait: bool) -> Self;

        /// See [`LockOptions::max_hold`].
        pub fn max_hold(self, max_hold: Duration) -> Self;

        /// See [`LockOptions::linger`].
        pub fn linger(self, linger: Duration) -> Self;
    }

    /// Requests a shared lock. See [`LockOptions::shared`].
    pub fn shared(self) -> Self {
        self.options(LockOptions::new().shared(true))
    }

    option_setters! {
        /// See [`LockOptions::slots`].
        pub fn slots(self, slots: u32) -> Self;

        /// See [`LockOptions::max_attempts`].
        pub fn max_attempts(self, attempts: u32) -> Self;

        /// See [`LockOptions::auto_extend`].
        pub fn auto_extend(self, auto_extend: bool) -> Self;

        /// See [`LockOptions::overrun`].
        pub fn overrun(self, overrun: Overrun) -> Self;
    }
}

impl LockRequest {
    /// Sets that a client waits for a response, so that by default the request does not wait while a quorum
    /// is known to be away.
    pub(crate) fn for_client(mut self) -> Self {
        self.internal.on_outage = OnOutage::Fail;
        self
    }

    /// Bounds the wait, including the manager's default.
    #[cfg(feature = "tonic")]
    pub(crate) fn wait_at_most(mut self, most: Option<Duration>) -> Self {
        self.internal.wait_at_most = most;
        self
    }

    /// Sets that the holder writes records. Records identify holders by the lease's nonce, so such
    /// a holder needs a lease of its own.
    pub(crate) fn keeps_records(mut self) -> Self {
        self.internal.keeps_records = true;
        self
    }

    /// Returns the error of an invalid request. Sends nothing.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        let resource = self.resource.as_ref().map_err(Clone::clone)?;
        if self.options.slots.is_some() && resource.names().len() > 1 {
            return Err(slots::not_of_a_set());
        }
        if self.options.shared == Some(true) && resource.names().len() > 1 {
            return Err(shared_set());
        }
        self.check_options()
    }

    /// Returns the error of invalid options, for any resource. Sends nothing.
    pub(crate) fn check_options(&self) -> Result<(), LockError> {
        self.core.client.settings.plan(&self.options, &self.internal).map(|_| ())
    }

    pub(crate) fn timers(&self) -> &Arc<Timers> {
        &self.core.client.timers
    }

    /// Acquires the lock, to be held by hand: what `await` does with the request itself. For tasks and combinators that take
    /// futures only.
    ///
    /// # Errors
    ///
    /// Those of [`Acquire`].
    pub fn acquire(self) -> Acquire {
        let why = "a lock held by hand has no work that is polled; use run or try_run";
        match self.options.refuse(&[("stall_limit", why)]) {
            Ok(()) => self.acquire_for_work(),
            Err(reason) => Acquire::failed(LockError::InvalidRequest(reason.into())),
        }
    }

    /// Starts the request, for work that runs under the lock.
    pub(crate) fn acquire_for_work(self) -> Acquire {
        let Self { core, resource, options, internal } = self;
        match (options.slots, resource) {
            (Some(count), Ok(resource)) => {
                Acquire::boxed(slots::acquire(core, resource, options, internal, count))
            }
            (_, Ok(resource)) if options.shared == Some(true) && resource.names().len() > 1 => {
                Acquire::failed(shared_set())
            }
            (_, resource) => Acquire::new(core, resource, &options, &internal),
        }
    }
}

fn shared_set() -> LockError {
    LockError::InvalidRequest("a shared lock is on one name, not on a set of names".into())
}

#[cfg(feature = "scheduler")]
impl LockRequest {
    /// Makes the request invalid: awaiting or checking it returns an error.
    pub(crate) fn refuse(mut self, reason: String) -> Self {
        if self.resource.is_ok() {
            self.resource = Err(LockError::InvalidRequest(reason.into()));
        }
        self
    }

    /// Returns the `heartbeat_within` option.
    pub(crate) fn heartbeat_limit(&self) -> Option<Duration> {
        self.options.heartbeat_within
    }

    /// Sets that the holder polls its work at least four times within `limit`. Without a poll for
    /// that time its runtime hangs, and the renewal stops.
    pub(crate) fn polled_within(mut self, limit: Option<Duration>) -> Self {
        self.internal.polled_within = limit;
        self
    }
}

/// Methods for callers that wait between requests.
#[cfg(feature = "scheduler")]
impl LockRequest {
    /// Sets that another holder is expected: its refusal is not counted or reported.
    pub(crate) fn expects_holder(mut self) -> Self {
        self.internal.reports = ReportedEnds::NotHeld;
        self
    }

    /// Returns the checked settings of this request.
    pub(crate) fn plan(&self) -> Result<super::settings::Plan, LockError> {
        self.core.client.settings.plan(&self.options, &self.internal)
    }

    /// Returns the holder of the resource, as a quorum of nodes reports it.
    pub(crate) async fn holder(&self) -> Option<super::Holder> {
        let resource = self.resource.as_ref().ok()?;
        let found = super::inspect::inspect(&self.core.client, resource).await.ok().flatten();
        found.filter(|holder| holder.is_quorum)
    }
}

impl IntoFuture for LockRequest {
    type Output = <Acquire as Future>::Output;
    type IntoFuture = Acquire;

    fn into_future(self) -> Acquire {
        self.acquire()
    }
}
