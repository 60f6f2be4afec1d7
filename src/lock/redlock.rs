//! The lock manager.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::{
    Stream, StreamExt, TryStreamExt,
    future::{join_all, ready, try_join_all},
    stream,
};
use tokio::sync::broadcast;

use super::{
    Holder, LockCounts, NotReady, Snapshot, builder::RedlockBuilder, client::Client, core::Core,
    request::LockRequest,
};
use crate::{
    error::{AdoptError, LockError, LowerError, Reason},
    events::LockEvent,
    node::{EmbeddedNodes, Node, NodeHealth},
    protocol::ScanKind,
    resource::{Resource, ResourceError},
    time::Timestamp,
};

/// The lock manager: a set of nodes, and the settings for locks over them.
///
/// Cheap to clone; all clones share connections. It can be built outside a runtime, runs
/// connections and renewals on a thread of its own, and serves tasks of any runtime.
///
/// Build it after the last `fork`, as in a process that daemonizes: neither this thread nor a tokio
/// runtime survives a fork.
#[doc(alias = "LockManager")]
#[derive(Clone)]
pub struct Redlock {
    /// The only set, or the first of several.
    core: Arc<Core>,
    sets: Option<Arc<Sets>>,
}

/// The sets of a manager.
pub(super) struct Sets {
    /// The manager of each set.
    pub(super) managers: Box<[Redlock]>,
    /// The nodes of all sets.
    pub(super) nodes: Box<[Arc<dyn Node>]>,
}

opaque_debug!(Sets);

/// # Locks
impl Redlock {
    /// Returns a builder with the default settings and no nodes.
    pub fn builder() -> RedlockBuilder {
        RedlockBuilder::new()
    }

    /// Builds a manager over five new nodes inside this process: the same rules, no servers.
    ///
    /// # Panics
    ///
    /// If the operating system gives no thread.
    #[doc(alias = "in_memory", alias = "mock")]
    pub fn embedded() -> Self {
        Self::builder()
            .nodes_from(&EmbeddedNodes::new(5))
            .build()
            .expect("the default settings are valid, and the system gives a thread")
    }

    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, sets: None }
    }

    pub(super) const fn of_sets(core: Arc<Core>, sets: Arc<Sets>) -> Self {
        Self { core, sets: Some(sets) }
    }

    pub(super) fn several(&self) -> Option<&Sets> {
        self.sets.as_deref()
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.core.client
    }

    /// Requests a lock on one name or a set of names. Without a [`wait`](LockRequest::wait), in the request or as a default
    /// of the manager, it makes one attempt.
    ///
    /// Awaiting a request for an invalid name fails with [`LockError::InvalidResource`]; nothing is
    /// sent. Names that begin with `job:`, `leader:` or `once:` are invalid, as the library's own
    /// locks have them: see [`Resource::of_job`].
    #[doc(alias = "try_lock", alias = "acquire")]
    pub fn lock<R>(&self, resource: R) -> LockRequest
    where
        R: TryInto<Resource>,
        R::Error: Into<ResourceError>,
    {
        let resource = resource.try_into().map_err(Into::into).and_then(Resource::not_reserved);
        let (core, resource) = self.route(resource.map_err(LockError::InvalidResource));
        LockRequest::new(core, resource)
    }

    /// Refuses further requests, and waits for background work: first for requests under an
    /// [`OnceLayer`](crate::OnceLayer) whose callers have gone, for at most their `max_hold`; then
    /// until the releases of all locks are delivered to the reachable nodes, for at most `max_ttl`,
    /// after which the keys have expired.
    ///
    /// Call it before the process ends: a release that is not sent by then leaves its key until the
    /// TTL. Stop the server first, and call it in the runtime that served the requests, which drops
    /// those that are left. Locks that are held stay held until they are dropped; locks that
    /// [linger](crate::LockOptions::linger) are released.
    ///
    /// Called by a request under a `OnceLayer` whose caller has gone, it waits for no such request, as it
    /// would wait for its own end.
    ///
    /// # Cancel safety
    ///
    /// Safe: releases continue without the future.
    pub async fn shutdown(&self) {
        for Self { core, .. } in self.sets() {
            core.client.close();
            core.queue.end_lingers();
        }
        join_all(self.sets().iter().map(|Self { core, .. }| async {
            core.client.detached_work_ended().await;
            core.client.drain().await;
        }))
        .await;
    }
}

/// # Readiness and health
impl Redlock {
    /// Waits, without a limit, until a quorum of nodes is connected, votes, and has all records of
    /// work that is done ([`once`](Self::once)).
    ///
    /// A node whose last votes were refused does not vote. A node that lost its records votes while
    /// they are copied to it ([`NodeHealth::copying`]). If the copying makes no progress for 3 s,
    /// as the nodes that have the records are down, this returns with a WARN: locks are granted,
    /// and work that is to be done once fails with [`LockError::NoQuorum`] until those nodes are
    /// back.
    ///
    /// # Errors
    ///
    /// [`NotReady`] once [waiting does not help](NotReady::heals). A refusal has to last for 2 s;
    /// one by a node of another set, for 1.25 times `max_ttl`, the drift allowance, and 12 s, after
    /// which a set that is not in use is taken over.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only watches.
    pub async fn ready(&self) -> Result<(), NotReady> {
        self.ready_until(Timestamp::MAX).await
    }

    /// Waits like [`ready`](Self::ready), at most for `limit`.
    ///
    /// A new or restarted set votes after one `max_ttl`; a set that is taken over from other clients, none
    /// of which uses it any more, after 2.25 times `max_ttl` and 10 s, with the drift allowance and the time
    /// to connect. With the default of 10 s this is 33 s, so 60 s is a suitable limit.
    ///
    /// # Errors
    ///
    /// [`NotReady`], with the reasons, once waiting does not help or the time is over.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only watches.
    pub async fn ready_within(&self, limit: Duration) -> Result<(), NotReady> {
        self.ready_until(self.core.client.clock().now() + limit).await
    }

    async fn ready_until(&self, deadline: Timestamp) -> Result<(), NotReady> {
        try_join_all(self.sets().iter().map(|set| set.core.client.ready(deadline))).await?;
        Ok(())
    }

    /// Returns whether a quorum of nodes votes, as last seen, even while records are copied to
    /// them. Sends nothing, so an orchestrator may poll it:
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
    /// [`NotReady`], with the reasons.
    #[doc(alias = "is_ready", alias = "health_check")]
    pub fn readiness(&self) -> Result<(), NotReady> {
        self.sets().iter().try_for_each(|set| set.core.client.readiness())
    }

    /// Returns the health of each node, as last seen. Sends nothing.
    pub fn health(&self) -> Vec<NodeHealth> {
        self.sets().iter().flat_map(|set| set.core.client.health()).collect()
    }

    /// Returns the name that others see as the holder of this manager's locks: the
    /// [`owner`](RedlockBuilder::owner) that was set, by default `program@host:pid`.
    pub fn owner(&self) -> &Arc<str> {
        &self.core.client.settings.owner
    }

    /// Returns the nodes, in the order of their votes.
    pub fn nodes(&self) -> &[Arc<dyn Node>] {
        self.several().map_or(&self.core.client.nodes, |sets| &sets.nodes)
    }
}

/// # Administration
impl Redlock {
    /// Returns the holder of a name; for a set, of the first name that is held. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if too few nodes answered, and [`LockError::InvalidResource`].
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn inspect<R>(&self, resource: R) -> Result<Option<Holder>, LockError>
    where
        R: TryInto<Resource>,
        R::Error: Into<ResourceError>,
    {
        let resource =
            resource.try_into().map_err(|error| LockError::InvalidResource(error.into()))?;
        self.holder(&resource).await
    }

    /// Enumerates the locks that are held, in no order.
    ///
    /// The nodes are read one after the other, a hundred keys at a time, with pauses of nine times
    /// the duration of the page before, so that locks are not delayed. A lock whose keys the same
    /// quorum keeps until the end is listed once; one that is acquired or released meanwhile may be
    /// missing. The keys of a minority are listed as well, with [`Holder::is_quorum`] false. Each
    /// holder was read when its page was: at most a second or so before it is returned.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::TryStreamExt;
    /// # let redlock = tower_redlock::Redlock::embedded();
    /// # let lock = redlock.lock("invoice:42").await?;
    ///
    /// let mut locks = std::pin::pin!(redlock.locks());
    /// while let Some(holder) = locks.try_next().await? {
    ///     println!("{} {:?} {}", holder.name, holder.owner, holder.token);
    /// #   assert_eq!(&*holder.name, "invoice:42");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if so few nodes could be read that locks may be missing. Nothing
    /// follows an error. Of several [sets](Self::sharded), the locks of the others come before it.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads, and a page under way belongs to the stream.
    pub fn locks(&self) -> impl Stream<Item = Result<Holder, LockError>> + Send + use<> {
        self.list(super::listing::locks)
    }

    /// Enumerates the keys of work that is done or was begun ([`once`](Self::once)), as
    /// [`locks`](Self::locks) does. [`once_key`](Self::once_key) makes a request for each, whose
    /// [`status`](crate::once::OnceRequest::status) is the state of the key.
    pub fn once_keys(&self) -> impl Stream<Item = Result<Arc<str>, LockError>> + Send + use<> {
        let names = self.list(|client| super::listing::names(client, ScanKind::Records));
        names.map_ok(|name| name.strip_prefix("once:").map_or(Arc::clone(&name), Into::into))
    }

    /// Enumerates the jobs whose ticks were claimed, also those that no scheduler has any more, as
    /// [`locks`](Self::locks) does.
    pub fn claimed_jobs(&self) -> impl Stream<Item = Result<Arc<str>, LockError>> + Send + use<> {
        self.list(|client| super::listing::names(client, ScanKind::Jobs))
    }

    /// Enumerates the jobs of which the nodes store data, also those whose ticks were never
    /// claimed.
    #[cfg(feature = "scheduler")]
    pub(crate) fn job_registers(
        &self,
    ) -> impl Stream<Item = Result<Arc<str>, LockError>> + Send + use<> {
        self.list(super::listing::job_registers)
    }

    fn clients(&self) -> Vec<&Client> {
        self.sets().iter().map(|set| &**set.client()).collect()
    }

    /// Lists one set after the other. The error of a set follows what the others have; nothing follows an
    /// error.
    fn list<S, T, F>(
        &self,
        of_set: F,
    ) -> impl Stream<Item = Result<T, LockError>> + Send + use<S, T, F>
    where
        S: Stream<Item = Result<T, LockError>> + Send,
        T: Send,
        F: Fn(Arc<Client>) -> S,
    {
        let sets = self.sets().iter().map(|set| of_set(Arc::clone(set.client())));
        let listed = stream::iter(sets.collect::<Vec<_>>()).flatten().map(Some);
        let ended = listed.chain(stream::iter([None]));
        // `None` is the end of the last set.
        let in_order = ended.scan(None, |failed, found| {
            ready(Some(match found {
                Some(Err(error)) => {
                    let _ = failed.get_or_insert(error);
                    None
                }
                Some(Ok(found)) => Some(Ok(found)),
                None => failed.take().map(Err),
            }))
        });
        in_order.filter_map(ready)
    }

    /// Returns the locks that this manager holds, the requests that wait, and the releases that are
    /// not delivered. Asks no node.
    pub fn snapshot(&self) -> Snapshot {
        let of_set = |set: &Self| super::snapshot::snapshot(&set.core);
        self.sets().iter().map(of_set).reduce(Snapshot::and).unwrap_or_default()
    }

    /// Returns the counts of requests and losses since this manager was built, of this process alone. Requests of
    /// layers, jobs and leaders are among them, as in the metric `redlock_acquire_seconds`.
    ///
    /// Counting costs a request one relaxed atomic addition; this reads some hundred of them.
    pub fn counts(&self) -> LockCounts {
        self.sets().iter().fold(LockCounts::default(), |mut counts, set| {
            counts.add(&set.core.client.counts.read());
            counts
        })
    }

    /// Returns a receiver of this manager's events from now on: locks granted after a wait, refused
    /// or lost, work that was stopped, and nodes that stop voting or return. A receiver that is
    /// more than 1,024 events behind gets the number of those that it lost.
    ///
    /// An event costs a few nanoseconds until the first receiver. They are not a log of all locks:
    /// one that is granted at once and released in time causes none.
    pub fn events(&self) -> broadcast::Receiver<LockEvent> {
        self.core.client.events.listen()
    }

    /// Counts the lock keys of each node, in the order of [`nodes`](Self::nodes). Scans all keys of each
    /// server, in small steps: for people, not for probes.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn key_counts(&self) -> Vec<Result<u64, Reason>> {
        let nodes = 0..self.nodes().len();
        join_all(nodes.map(|node| self.key_count(node))).await
    }

    /// Moves the servers of `old` to the set of this manager: after a change of nodes, names,
    /// prefix or guards. A server votes for one set only; clients of the other get an error that
    /// names both sets.
    ///
    /// Run it before clients of the new set start, or while they see a server of the old one:
    /// clients that find a majority of the new set blank, and no server of the old one, take it for
    /// a new set.
    ///
    /// First, enough nodes of the old set stop voting that it can grant nothing. Then every node of
    /// the new one begins a probation, with the fences of the old ones. No client of either set
    /// gets a lock until the longer `max_ttl` has passed, which is returned. A client of the new
    /// set has to run meanwhile: [`ready`](Self::ready) waits for it. Until the set votes, its
    /// names have to lead all clients to the same servers.
    ///
    /// Held locks of the old set stay held until they end, without renewals. Fencing tokens
    /// continue above the tokens of the old set; other records stay with their servers. A second
    /// run restarts the probation of the new set.
    ///
    /// # Errors
    ///
    /// [`AdoptError`]; run it again then. Of several [sets](Self::sharded), nothing is moved unless every set
    /// that changes can be, as far as its servers tell.
    ///
    /// # Cancel safety
    ///
    /// Not safe: some nodes may have been moved. Run it again.
    pub async fn adopt(&self, old: &Self) -> Result<Duration, AdoptError> {
        super::all_sets::adopt(&self.clients(), &old.clients()).await
    }

    /// Lowers the `max_ttl` on the servers to that of this manager: a restarted server then has a
    /// shorter probation.
    ///
    /// From its start, the nodes refuse longer TTLs, and locks that have one are not renewed. A
    /// client with a longer `max_ttl` raises it again within a second, so lower `ttl` and `max_ttl`
    /// in the configuration of all clients first. Returns when all locks with a longer TTL have
    /// expired: after the old `max_ttl` and the drift allowance.
    ///
    /// # Errors
    ///
    /// [`LowerError::Incomplete`] if nodes were not reached, or a client raised the value again. Of several
    /// [sets](Self::sharded), the others are lowered then ([`LowerError::IncompleteSets`]).
    ///
    /// # Cancel safety
    ///
    /// Dropping it does not undo it: longer TTLs stay refused, and probations keep their length.
    /// Run it again.
    pub async fn lower_max_ttl(&self) -> Result<(), LowerError> {
        super::all_sets::lower_max_ttl(&self.clients()).await
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redlock").field(&self.core).finish()
    }
}
