use std::{future::IntoFuture, sync::Arc, time::Duration};

use super::{acquire::Acquire, core::Core, overrun::Overrun, settings::Overrides};
use crate::{error::LockError, resource::Resource};

/// A request for a lock: await it, or run work under it.
///
/// Nothing is sent before it is awaited. What is not set here is as the manager was built.
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
    pub(super) overrides: Overrides,
}

impl LockRequest {
    pub(super) fn new(core: Arc<Core>, resource: Result<Resource, LockError>) -> Self {
        Self { core, resource, overrides: Overrides::default() }
    }

    /// How long the servers keep the key without renewal. Default: the manager's (10 s). A crashed
    /// holder blocks the resource for at most this long. At most the manager's `max_ttl`.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.overrides.ttl = Some(ttl);
        self
    }

    /// How long to try while the resource is held by others, or too few nodes answer. Default: the
    /// manager's (zero: one attempt). [`Duration::MAX`] is no limit. The last attempt begins when the wait ends at the latest. It
    /// takes one node timeout, and up to four and a half where the fencing token has to be raised
    /// and this process stood still.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.overrides.wait = Some(wait);
        self
    }

    /// Bounds the wait, also that of the manager.
    #[cfg(feature = "tonic")]
    pub(crate) fn wait_at_most(mut self, most: Option<Duration>) -> Self {
        self.overrides.wait_at_most = most;
        self
    }

    /// The longest time that the lock is held, renewals included. Default: the manager's (5 min).
    /// [`Duration::MAX`] is no limit.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.overrides.max_hold = Some(max_hold);
        self
    }

    /// At most so many attempts on the servers, however long the wait. Default: the manager's
    /// (no limit).
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.overrides.max_attempts = Some(attempts);
        self
    }

    /// Whether the lock renews itself while it is held. Default: yes. Without renewal the lock is
    /// lost at the end of its first validity.
    pub fn auto_extend(mut self, auto_extend: bool) -> Self {
        self.overrides.auto_extend = Some(auto_extend);
        self
    }

    /// What is done about work that is inside a poll when this lock has ended. Default: the
    /// manager's ([`Overrun::Warn`]).
    pub fn on_overrun(mut self, overrun: Overrun) -> Self {
        self.overrides.on_overrun = Some(overrun);
        self
    }

    /// The longest time after which a request that is turned away is to come back.
    pub(crate) fn retry_after(mut self, max: Duration) -> Self {
        self.overrides.retry_after = Some(max);
        self
    }

    /// The holder is to have the nodes keep records. Records of a name tell holders apart by the
    /// lease's nonce, so that such a holder has a lease of its own.
    pub(crate) fn keeps_records(mut self) -> Self {
        self.overrides.keeps_records = true;
        self
    }

    /// Whether it can be asked for as it is. Asks nobody.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        self.resource.as_ref().map_err(Clone::clone)?;
        self.core.settings.plan(&self.overrides).map(|_| ())
    }

    /// For how long one poll of the work may go on before the lock is not renewed any more.
    #[cfg(feature = "scheduler")]
    pub(crate) fn stall_limit(mut self, limit: Option<Duration>) -> Self {
        self.overrides.stall_limit = limit;
        self
    }

    /// How often the work has to give a heartbeat, or the lock is
    /// not renewed any more.
    #[cfg(feature = "scheduler")]
    pub(crate) fn heartbeat_within(mut self, limit: Option<Duration>) -> Self {
        self.overrides.heartbeat_within = limit;
        self
    }

    /// The limit that [`heartbeat_within`](Self::heartbeat_within) has set.
    #[cfg(feature = "scheduler")]
    pub(crate) fn heartbeat_limit(&self) -> Option<Duration> {
        self.overrides.heartbeat_within
    }
}

#[cfg(feature = "scheduler")]
impl LockRequest {
    /// For a holder that polls its work at least four times within `limit`: where the work was not
    /// polled for that long, its runtime hangs, and the lock is not renewed any more.
    pub(crate) fn polled_within(mut self, limit: Option<Duration>) -> Self {
        self.overrides.polled_within = limit;
        self
    }
}

/// For what waits between requests.
#[cfg(feature = "scheduler")]
impl LockRequest {
    /// What applies to this request.
    pub(crate) fn plan(&self) -> Result<super::settings::Plan, LockError> {
        self.core.settings.plan(&self.overrides)
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.core.is_forked()
    }

    pub(crate) fn timers(&self) -> &Arc<crate::time::Timers> {
        &self.core.timers
    }

    /// Whether it goes to the nodes of this manager.
    pub(crate) fn is_of(&self, redlock: &super::Redlock) -> bool {
        Arc::ptr_eq(&self.core, redlock.core())
    }

    /// Who holds the resource, as a quorum of nodes tells. Takes nothing.
    pub(crate) async fn holder(&self) -> Option<super::Holder> {
        let resource = self.resource.as_ref().ok()?;
        let found = super::inspect::inspect(&self.core, resource).await.ok().flatten();
        found.filter(|holder| holder.is_quorum)
    }
}

impl IntoFuture for LockRequest {
    type Output = <Acquire as Future>::Output;
    type IntoFuture = Acquire;

    fn into_future(self) -> Acquire {
        Acquire::new(self.core, self.resource, self.overrides)
    }
}
