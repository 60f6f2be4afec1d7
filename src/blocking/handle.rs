//! The handle of a manager for threads without a runtime.

use std::time::Duration;

use super::{BlockingRequest, wait::wait};
use crate::{
    error::{LockError, ReleaseError},
    lock::{Holder, NotReady, Redlock, Released, RevokeTarget},
    resource::{Resource, ResourceError},
};

/// A lock manager for threads without a runtime. Made by [`Redlock::blocking`].
///
/// Cheap to clone; all clones, and the [`Redlock`] that it is made of, share connections. See the
/// [module](crate::blocking) for what differs from futures.
///
/// # Panics
///
/// Every method but [`lock`](Self::lock) and [`redlock`](Self::redlock) panics in an
/// [async context](crate::blocking#async-contexts) of tokio.
#[derive(Clone, Debug)]
pub struct Blocking {
    redlock: Redlock,
}

impl Redlock {
    /// Returns a handle of this manager for threads without a runtime.
    ///
    /// ```
    /// use tower_redlock::{LockError, Redlock};
    ///
    /// fn main() -> Result<(), LockError> {
    ///     let redlock = Redlock::embedded().blocking();
    ///     let lock = redlock.lock("invoice:42").acquire()?;
    ///     lock.ensure_valid()?;
    ///     lock.release().expect("a quorum acknowledged");
    ///     Ok(())
    /// }
    /// ```
    pub fn blocking(&self) -> Blocking {
        Blocking { redlock: self.clone() }
    }
}

impl Blocking {
    /// Requests a lock on one name or a set of names, as [`Redlock::lock`] does. Nothing is sent before
    /// the request is acquired or run.
    pub fn lock<R>(&self, resource: R) -> BlockingRequest
    where
        R: TryInto<Resource>,
        R::Error: Into<ResourceError>,
    {
        BlockingRequest::new(self.redlock.lock(resource))
    }

    /// Waits, without a limit, until a quorum of nodes votes. See [`Redlock::ready`].
    ///
    /// # Errors
    ///
    /// [`NotReady`] once waiting does not help.
    #[track_caller]
    pub fn ready(&self) -> Result<(), NotReady> {
        wait(&self.redlock.timers(), self.redlock.ready())
    }

    /// Waits like [`ready`](Self::ready), at most for `limit`.
    ///
    /// # Errors
    ///
    /// [`NotReady`], with the reasons, once waiting does not help or the time is over.
    #[track_caller]
    pub fn ready_within(&self, limit: Duration) -> Result<(), NotReady> {
        wait(&self.redlock.timers(), self.redlock.ready_within(limit))
    }

    /// Returns the holder of a name. See [`Redlock::inspect`].
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if too few nodes answered, and [`LockError::InvalidResource`].
    #[track_caller]
    pub fn inspect<R>(&self, resource: R) -> Result<Option<Holder>, LockError>
    where
        R: TryInto<Resource>,
        R::Error: Into<ResourceError>,
    {
        wait(&self.redlock.timers(), self.redlock.inspect(resource))
    }

    /// Revokes the lock of a holder that has crashed. See [`Redlock::revoke`].
    ///
    /// # Errors
    ///
    /// Those of [`Redlock::revoke`].
    #[track_caller]
    pub fn revoke(&self, target: impl Into<RevokeTarget>) -> Result<Released, ReleaseError> {
        wait(&self.redlock.timers(), self.redlock.revoke(target))
    }

    /// Refuses further requests, and waits until the releases of all locks are delivered, for at most
    /// `max_ttl`. See [`Redlock::shutdown`]. Call it before `main` returns.
    #[track_caller]
    pub fn shutdown(&self) {
        wait(&self.redlock.timers(), self.redlock.shutdown());
    }

    /// Returns the manager, for [`health`](Redlock::health), [`events`](Redlock::events) and futures.
    pub fn redlock(&self) -> &Redlock {
        &self.redlock
    }
}
