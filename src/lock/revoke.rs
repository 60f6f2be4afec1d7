//! Ends the locks of others: by their holder, or by their names.

use std::{sync::Arc, time::Duration};

use super::{
    Redlock,
    core::Core,
    inspect::{Holder, inspect_name},
    query::{query, votes},
    released::Released,
    request::LockRequest,
};
use crate::{
    error::{Reason, ReleaseError, ResourceError},
    protocol::{Answer, LeaseId, Op, ReleasedAnswer, formulas},
    resource::Resource,
};

/// The lock to revoke: the lock of a [`Holder`], or the present locks on a resource's names.
#[derive(Clone, Debug)]
pub struct RevokeTarget(RevokeBy);

#[derive(Clone, Debug)]
enum RevokeBy {
    Holder(Holder),
    Resource(Result<Resource, ResourceError>),
}

impl From<&Holder> for RevokeTarget {
    fn from(holder: &Holder) -> Self {
        Self(RevokeBy::Holder(holder.clone()))
    }
}

macro_rules! revoke_by_name {
    ($($name:ty),*) => {$(
        impl From<$name> for RevokeTarget {
            fn from(name: $name) -> Self {
                Self(RevokeBy::Resource(Resource::try_from(name).map_err(Into::into)))
            }
        }
    )*};
}
revoke_by_name!(Resource, &Resource, &str, String);

/// # Administration
impl Redlock {
    /// Revokes a lock: the lock of a [`Holder`], and not a later one, or the present lock on a
    /// name.
    ///
    /// ```
    /// use tower_redlock::{lock::Released, Redlock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tower_redlock::LockError> {
    /// let redlock = Redlock::embedded();
    /// let _crashed = redlock.lock("invoice:42").await?;
    /// assert_eq!(redlock.revoke("invoice:42").await?, Released::Released);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Returns [`Released::AlreadyLost`] if there is no holder, or the [`Holder`] no longer holds
    /// it.
    ///
    /// Meant for holders that have crashed. A live one stores its key again with its next renewal,
    /// unless another client was faster. In that case the former holder considers its lock valid
    /// until that renewal, or until the end of its validity: at most one TTL. After a hand-off
    /// within the holder's process, the lock of the current holder there is revoked. A lock that
    /// may [linger](crate::LockOptions::linger) is first requested by a single attempt, so that a
    /// process that keeps it unused gives it back.
    ///
    /// A [shared](crate::LockOptions::shared) lock is revoked from all its holders, also from those
    /// that acquired it after the [`Holder`] was read.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Foreign`] for a key that this crate did not write,
    /// [`ReleaseError::NoQuorum`] if too few nodes answered, and [`ReleaseError::InvalidResource`].
    /// For a set of names, the locks of the names before the error are revoked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it does not undo it.
    pub async fn revoke(&self, target: impl Into<RevokeTarget>) -> Result<Released, ReleaseError> {
        let resource = match target.into().0 {
            RevokeBy::Holder(holder) => {
                self.check_set(&holder.name).map_err(ReleaseError::InvalidResource)?;
                return revoke_lease(self.set_of(&holder.name).core(), &holder).await;
            }
            RevokeBy::Resource(resource) => resource.map_err(ReleaseError::InvalidResource)?,
        };
        resource
            .names()
            .try_for_each(|name| self.check_set(name))
            .map_err(ReleaseError::InvalidResource)?;
        let mut revoked = Released::AlreadyLost;
        for name in resource.shared_names() {
            let core = self.set_of(name).core();
            let holder = inspect_name(&core.client, name)
                .await
                .map_err(|votes| ReleaseError::NoQuorum { votes })?;
            if let Some(holder) = holder
                && revoke_lease(core, &holder).await? == Released::Released
            {
                revoked = Released::Released;
            }
        }
        Ok(revoked)
    }
}

/// Deletes the lease's keys on every node; if the name is shared, the keys of all its leases.
async fn revoke_lease(core: &Arc<Core>, holder: &Holder) -> Result<Released, ReleaseError> {
    let Some(lease) = &holder.lease else { return Err(ReleaseError::Foreign) };
    let Ok(resource) = Resource::try_from(&*holder.name) else { return Err(ReleaseError::Foreign) };
    if holder.lingers {
        // A process whose lease lingers would reuse it without asking the nodes. A refused attempt
        // ends the linger.
        let attempt = LockRequest::own(Arc::clone(core), Ok(resource.clone()));
        if attempt.wait(Duration::ZERO).await.is_ok() {
            return Ok(Released::Released);
        }
    }
    let op = if holder.is_shared() {
        Op::EndShared(Arc::clone(&holder.name))
    } else {
        let owner = Arc::clone(&lease.owner);
        Op::Release(Arc::new(LeaseId::new(resource, lease.nonce, owner, lease.since)))
    };
    let answers = query(&core.client, &op, |_| false).await;
    let quorum = formulas::quorum(answers.len());
    let count = |wanted: bool| {
        let is = |answer: &&Result<Answer, Reason>| matches!(answer, Ok(Answer::Released(ReleasedAnswer { existed, .. })) if *existed == wanted);
        answers.iter().filter(is).count()
    };
    let deleted = count(true);
    if deleted >= quorum {
        Ok(Released::Released)
    } else if deleted + count(false) >= quorum {
        Ok(Released::AlreadyLost)
    } else {
        Err(ReleaseError::NoQuorum { votes: votes(&core.client, &answers) })
    }
}
