use std::{fmt, sync::Arc, time::Duration};

use super::{
    Holder, NotReady, Released, RevokeTarget, builder::RedlockBuilder, core::Core,
    request::LockRequest,
};
use crate::{
    error::{AdoptError, LockError, LowerError, Reason, ReleaseError},
    node::{
        EmbeddedNodes, Node, NodeHealth,
        redis::{Lowering, adopt, count},
    },
    resource::{Resource, ResourceError},
    time::Timestamp,
};

/// The lock manager: a set of nodes, and the settings for locks over them.
///
/// Cheap to clone; all clones share connections. It needs no runtime to be built, runs its own
/// connections and renewals on a thread of its own, and serves tasks of any runtime.
///
/// Build it after the last fork (daemonizing forks): threads don't go along. In a forked child
/// requests fail with [`LockError::Forked`], [`health`](Self::health) says so of every node, and what
/// the parent holds stays the parent's: its locks are not valid in the child, and dropping them there
/// does nothing.
#[derive(Clone)]
pub struct Redlock {
    core: Arc<Core>,
}

impl Redlock {
    /// A builder with the default settings and no nodes.
    pub fn builder() -> RedlockBuilder {
        RedlockBuilder::new()
    }

    /// A manager as a [`Config`](crate::Config) describes it.
    ///
    /// # Errors
    ///
    /// [`BuildError`](crate::error::BuildError) for anything that [`RedlockBuilder::build`] refuses.
    #[cfg(feature = "config")]
    pub fn from_config(config: crate::Config) -> Result<Self, crate::error::BuildError> {
        config.into_builder()?.build()
    }

    /// A manager over five fresh nodes inside this process: the same rules, no servers.
    ///
    /// # Panics
    ///
    /// If the operating system gives no thread.
    pub fn embedded() -> Self {
        Self::builder()
            .nodes_from(&EmbeddedNodes::new(5))
            .build()
            .expect("the default settings are valid, and the system gives a thread")
    }

    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// A request for a lock on one name or a set of names.
    ///
    /// An invalid name shows when the request is awaited, as
    /// [`LockError::InvalidResource`]; nothing is sent then. So does one that begins with `job:`,
    /// `leader:` or `once:`, as those of the library's own locks do: see [`Resource::of_job`].
    pub fn lock<R>(&self, resource: R) -> LockRequest
    where
        R: TryInto<Resource>,
        R::Error: Into<ResourceError>,
    {
        let resource = resource.try_into().map_err(Into::into).and_then(Resource::not_reserved);
        LockRequest::new(Arc::clone(&self.core), resource.map_err(LockError::InvalidResource))
    }

    /// A request for one of the crate's own locks; an error shows when it is awaited.
    #[cfg(feature = "scheduler")]
    pub(crate) fn lock_own(&self, resource: Result<Resource, ResourceError>) -> LockRequest {
        LockRequest::new(Arc::clone(&self.core), resource.map_err(LockError::InvalidResource))
    }

    /// Waits until a quorum of nodes is connected and votes, and has all records of work that is done
    /// ([`once`](Self::once)): without a limit, as long as waiting may help. A node whose last votes
    /// were refused does not vote. One that came back without its records votes while they are copied
    /// to it ([`NodeHealth::copying`]); that is waited for as long as it goes on. Where it stands still
    /// for 3 s, as the nodes that have the records are not there, this returns with a WARN: locks are
    /// granted, and work that is to be done once meets [`LockError::NoQuorum`] until they come back.
    ///
    /// # Errors
    ///
    /// [`NotReady`] once somebody has to act: a quorum can't vote while nodes belong to another set
    /// that is in use, are one server under two names, or refuse the credentials. Such a refusal
    /// has to last for 2 s; of another set, until it would have been taken over if nobody used it:
    /// for 1.25 times `max_ttl`, the drift allowance, and 12 s. At once in a forked child.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only watches.
    pub async fn ready(&self) -> Result<(), NotReady> {
        self.core.ready(Timestamp::MAX).await
    }

    /// Waits like [`ready`](Self::ready), at most for `limit`.
    ///
    /// # Errors
    ///
    /// [`NotReady`], which says why too few nodes vote, in words too: as soon as waiting does not
    /// help, or when the time is over.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only watches.
    pub async fn ready_within(&self, limit: Duration) -> Result<(), NotReady> {
        self.core.ready(self.core.clock().now() + limit).await
    }

    /// Whether a quorum of nodes votes, as last seen, whether or not records are being copied to them.
    /// Asks nobody, so an orchestrator may poll it:
    ///
    /// ```
    /// # use tower_redlock::Redlock;
    /// /// The answer to `GET /readyz`.
    /// fn readyz(redlock: &Redlock) -> (u16, String) {
    ///     match redlock.readiness() {
    ///         Ok(()) => (200, "ready".into()),
    ///         Err(why) => (503, why.to_string()),
    ///     }
    /// }
    /// # assert_eq!(readyz(&Redlock::embedded()).0, 200);
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotReady`], which says whether waiting may help.
    pub fn readiness(&self) -> Result<(), NotReady> {
        self.core.readiness()
    }

    /// The nodes, in the order in which they vote: for asking one directly.
    pub fn nodes(&self) -> &[Arc<dyn Node>] {
        &self.core.nodes
    }

    /// How each node is doing, as last seen. Asks nobody.
    pub fn health(&self) -> Vec<NodeHealth> {
        self.core.health()
    }

    /// Who holds a name; of a set of names, the first that is held. Nothing is changed.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] where too few nodes answered to say, and
    /// [`LockError::InvalidResource`].
    ///
    /// # Cancel safety
    ///
    /// Safe: it only asks.
    pub async fn inspect<R>(&self, resource: R) -> Result<Option<Holder>, LockError>
    where
        R: TryInto<Resource>,
        R::Error: Into<ResourceError>,
    {
        let resource =
            resource.try_into().map_err(|error| LockError::InvalidResource(error.into()))?;
        super::inspect::inspect(&self.core, &resource).await
    }

    /// Takes a lock away: from a holder that [`inspect`](Self::inspect) found, by its nonce, so that
    /// nobody who came after it is hit; or, by name, from whoever holds it at this moment.
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
    /// [`Released::AlreadyLost`] says that nobody held it, or the holder not any more.
    ///
    /// For holders that are known to be dead. One that is alive stores its key again with its next
    /// renewal, unless somebody else was faster; and if somebody was, the old holder still believes
    /// in its lock until then, or until its validity is over: at most one TTL. Where the holder's
    /// process has handed the lock on since, it is taken from whoever of that process has it.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Foreign`] for a key that this crate did not write,
    /// [`ReleaseError::NoQuorum`] where too few nodes answered, and
    /// [`ReleaseError::InvalidResource`]. Of a set of names, those before the error are revoked.
    ///
    /// # Cancel safety
    ///
    /// Not undone when dropped.
    pub async fn revoke(&self, target: impl Into<RevokeTarget>) -> Result<Released, ReleaseError> {
        super::revoke::revoke(&self.core, target.into()).await
    }

    /// How many lock keys each node keeps, in the order of [`nodes`](Self::nodes), or why that can't
    /// be told. Looks through all keys of each server, in small turns: for people, not for probes.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only asks.
    pub async fn key_counts(&self) -> Vec<Result<u64, Reason>> {
        if self.core.is_forked() {
            return vec![Err(self.core.not_in_fork()); self.core.nodes.len()];
        }
        let Some(set) = &self.core.set else {
            return vec![Err(Reason::Unknown); self.core.nodes.len()];
        };
        let ours = 0..set.len();
        let mut counts = vec![Err(Reason::Unknown); self.core.nodes.len() - set.len()];
        counts.extend(futures_util::future::join_all(ours.map(|node| count(set, node))).await);
        counts
    }

    /// Moves the servers of `old` to the set of this manager: after a change of nodes, names,
    /// prefix or guards. A server votes for one set only, and clients of the other are told both
    /// in `NoQuorum`.
    ///
    /// Run it before clients of the new set start, or while they have seen a server of the old
    /// one: where a majority of the new set is blank, and its clients see no server of the old
    /// set, they take it for a new one.
    ///
    /// First so many nodes of the old set stop voting that it can grant nothing more, then every
    /// node of the new one begins a probation, with the old ones' fences. No client of either gets
    /// a lock until the longer `max_ttl` has passed; how long that takes is returned. Some client
    /// of the new set has to run meanwhile: [`ready`](Self::ready) waits for it.
    ///
    /// The names of the new set have to lead all its clients to the same servers from then on, until it
    /// votes.
    ///
    /// Locks of the old set that are held stay held until they end, but are renewed no more. Fencing
    /// tokens go on above those of the old set; other records go along with servers that stay. A
    /// second run puts the new set back into its probation.
    ///
    /// # Errors
    ///
    /// [`AdoptError`]; run it again then.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the nodes that were reached are moved. Run it again.
    pub async fn adopt(&self, old: &Self) -> Result<Duration, AdoptError> {
        if let Some(core) = [&old.core, &self.core].into_iter().find(|core| core.is_forked()) {
            let needed = core.nodes.len();
            return Err(AdoptError::OldSet { needed, votes: core.votes_in_fork() });
        }
        let (Some(new), Some(old)) = (&self.core.set, &old.core.set) else {
            return Err(AdoptError::NotGuarded);
        };
        adopt(new, old).await
    }

    /// Lowers the `max_ttl` that the servers keep to that of this manager: a restarted server then
    /// waits for a shorter time before it votes.
    ///
    /// From the start on, the nodes refuse longer TTLs, and locks that have one are renewed no
    /// more; a client that is configured for longer ones raises `max_ttl` again within a second, and
    /// goes on. So lower `ttl` and `max_ttl` in the configuration of all clients first. Returns when
    /// all locks with a longer TTL have expired: after the old `max_ttl` and the drift allowance.
    ///
    /// # Errors
    ///
    /// [`LowerError::Incomplete`] where nodes were not reached, or a client raised the value again.
    ///
    /// # Cancel safety
    ///
    /// Not undone when dropped: longer TTLs stay refused, and probations last as long as before. Run
    /// it again.
    pub async fn lower_max_ttl(&self) -> Result<(), LowerError> {
        if self.core.is_forked() {
            return Err(LowerError::Incomplete { votes: self.core.votes_in_fork() });
        }
        let set = self.core.set.as_ref().ok_or(LowerError::NoServers)?;
        let lowering = Lowering::begin(set).await;
        while lowering.remaining() > Duration::ZERO {
            self.core.pause(lowering.remaining()).await;
        }
        lowering.end().await.map_err(|votes| LowerError::Incomplete { votes })
    }

    /// Takes no more requests, and waits for what goes on in the background. First for requests
    /// behind an [`OnceLayer`](crate::OnceLayer) whose callers have gone: each of them for its
    /// `max_hold` at most. Then until the releases of all locks that were given back are delivered to
    /// the nodes that can be reached: at most for `max_ttl`, after which the keys are gone anyway.
    ///
    /// Stop the server first, and call it within the runtime that served the requests: what is left
    /// of them is dropped with that runtime.
    ///
    /// Locks that are still held stay held until they are dropped. Call it before a process ends:
    /// a release that is not sent by then leaves its key until the TTL.
    ///
    /// # Cancel safety
    ///
    /// Safe: releases go on without the future.
    pub async fn shutdown(&self) {
        self.core.close();
        self.core.detached_work_ended().await;
        self.core.drain().await;
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redlock").field(&self.core).finish()
    }
}
