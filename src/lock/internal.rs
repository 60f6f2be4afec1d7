//! The crate-internal interface of a manager.

use std::{sync::Arc, time::Duration};

#[cfg(feature = "scheduler")]
use futures_util::future::join_all;

#[cfg(feature = "scheduler")]
use super::slots::is_quorum;
use super::{
    Holder, LockRequest, Redlock, inspect,
    records::{self, Asked, QueryAnswers},
    test_vote::test_vote,
};
#[cfg(feature = "scheduler")]
use super::{Lock, Spawner, obligations::OwedEnd};
use crate::{
    error::{LockError, Reason},
    node::redis::{NodeSet, RestartGuard, count},
    protocol::{Nonce, Record},
    resource::Resource,
    time::{Sleep, Timers, Timestamp},
};
#[cfg(feature = "scheduler")]
use crate::{
    error::{Vote, VoteOutcome},
    protocol::TickClaim,
};

impl Redlock {
    pub(crate) fn now(&self) -> Timestamp {
        self.client().clock().now()
    }

    pub(crate) fn sleep_until(&self, at: Timestamp) -> Sleep {
        self.client().timers.sleep_until(at)
    }

    /// Returns the timers of each set of nodes.
    pub(crate) fn timers(&self) -> Vec<Arc<Timers>> {
        self.sets().iter().map(|set| Arc::clone(&set.client().timers)).collect()
    }

    pub(crate) fn node_timeout(&self) -> Duration {
        self.client().settings.node_timeout
    }

    /// Creates a request for one of the crate's own locks. An error is returned when it is awaited.
    pub(crate) fn lock_own(&self, resource: Result<Resource, impl Into<LockError>>) -> LockRequest {
        let (core, resource) = self.route(resource.map_err(Into::into));
        LockRequest::own(core, resource)
    }

    /// Creates a request for one of `count` slots of one of the crate's own names.
    #[cfg(feature = "scheduler")]
    pub(crate) fn slot_of_own(
        &self,
        resource: Result<Resource, impl Into<LockError>>,
        count: u32,
    ) -> LockRequest {
        let (core, resource) = self.route(resource.map_err(Into::into));
        LockRequest::new(core, resource).slots(count)
    }

    /// Returns the holder of each name of a job, by the answers of all nodes that answer in time.
    #[cfg(feature = "scheduler")]
    pub(crate) async fn holders(
        &self,
        names: &Arc<[Arc<str>]>,
    ) -> Result<Vec<Option<Holder>>, LockError> {
        self.check_set(&names[0])?;
        let client = self.set_of(&names[0]).client();
        let found = inspect::inspect_names(client, names, |_| false).await;
        found.map_err(|votes| LockError::NoQuorum { votes })
    }

    /// Returns who may hold each name of a job, by the answers of a quorum: its holder is among them.
    #[cfg(feature = "scheduler")]
    pub(crate) async fn possible_owners(
        &self,
        names: &Arc<[Arc<str>]>,
    ) -> Result<Vec<Vec<Arc<str>>>, LockError> {
        let client = self.set_of(&names[0]).client();
        let found = inspect::inspect_names(client, names, is_quorum).await;
        let owners = |holder: Holder| {
            let owner = |vote: &Vote| match &vote.outcome {
                VoteOutcome::Held { owner, .. } => owner.clone(),
                _ => None,
            };
            holder.votes.iter().filter_map(owner).collect()
        };
        let owners = |holder: Option<Holder>| holder.map(owners).unwrap_or_default();
        let found = found.map_err(|votes| LockError::NoQuorum { votes })?;
        Ok(found.into_iter().map(owners).collect())
    }

    pub(crate) async fn holder(&self, resource: &Resource) -> Result<Option<Holder>, LockError> {
        inspect::inspect(self.set_of_all(resource)?.client(), resource).await
    }

    /// See [`records::read`].
    pub(crate) fn read_record(&self, name: &Arc<str>) -> Asked {
        records::read(self.set_of(name).client(), name)
    }

    /// See [`records::inspect`].
    pub(crate) fn inspect_record(&self, name: &Arc<str>) -> Asked {
        records::inspect(self.set_of(name).client(), name)
    }

    /// Returns the record of ended work that this process owes to the nodes, and the time for which it is
    /// kept.
    pub(crate) fn owed_record(&self, name: &Arc<str>) -> Option<(Arc<Record>, Duration)> {
        self.set_of(name).client().owed.record(name)
    }

    /// Sends the end of a job's run to the nodes until a quorum stores it, or a majority refuses it for a later
    /// claim. `lock` is kept until then.
    #[cfg(feature = "scheduler")]
    pub(crate) fn owe_run(
        &self,
        lock: Option<Lock>,
        job: &Arc<str>,
        end: TickClaim,
    ) -> Arc<OwedEnd> {
        OwedEnd::run(self.set_of(job).client(), lock, job, end)
    }

    /// Ends what this process owes of a key, as a person decides about it.
    pub(crate) fn cancel_owed_record(&self, name: &Arc<str>) {
        self.set_of(name).client().owed.cancel_record(name);
    }

    /// See [`records::read_all`].
    pub(crate) fn read_all_records(&self, name: &Arc<str>) -> Asked {
        records::read_all(self.set_of(name).client(), name)
    }

    /// See [`records::forget_and_wait`].
    pub(crate) fn forget_record(&self, name: &Arc<str>, nonce: Nonce) -> Asked {
        records::forget_and_wait(self.set_of(name).client(), name, nonce)
    }

    /// Returns the error for a query about a name that too few nodes answered.
    pub(crate) fn no_quorum(&self, name: &str, answers: &QueryAnswers) -> LockError {
        self.set_of(name).client().no_quorum(answers)
    }

    #[cfg(feature = "http")]
    pub(crate) fn body_room(&self) -> &Arc<super::BodyRoom> {
        &self.client().body_room
    }
}

/// Methods for the diagnosis of the nodes.
impl Redlock {
    /// Completes after `time`. Needs no runtime in the task that awaits it.
    pub(crate) fn sleep(&self, time: Duration) -> Sleep {
        self.client().sleep(time)
    }

    pub(crate) fn default_ttl(&self) -> Duration {
        self.client().settings.defaults.ttl
    }

    pub(crate) fn max_ttl(&self) -> Duration {
        self.client().settings.max_ttl
    }

    pub(crate) fn has_restart_guard(&self) -> bool {
        self.client().settings.restart_guard != RestartGuard::Off
    }

    pub(crate) fn key_prefix(&self) -> &Arc<str> {
        &self.client().settings.key_prefix
    }

    /// Returns whether all nodes are embedded ones.
    pub(crate) fn is_embedded(&self) -> bool {
        self.client().settings.is_embedded
    }

    /// Counts the lock keys of a node, which has to be a server.
    pub(crate) async fn key_count(&self, node: usize) -> Result<u64, Reason> {
        let (set, server) = self.server(node)?;
        count(set, server).await
    }

    /// Checks the permissions of a node, if it is a server. Afterwards its health has the denied
    /// commands.
    pub(crate) async fn check_permissions(&self, node: usize) {
        if let Ok((set, server)) = self.server(node) {
            set.check_permissions(server).await;
        }
    }

    /// Returns the set of a server, and its index there.
    fn server(&self, node: usize) -> Result<(&NodeSet, usize), Reason> {
        let (manager, node) = self.locate(node).ok_or(Reason::Unknown)?;
        let client = manager.client();
        let set = client.set.as_ref().ok_or(Reason::Unknown)?;
        // The servers are the last nodes.
        let server = node.checked_sub(client.nodes.len() - set.len()).ok_or(Reason::Unknown)?;
        Ok((set, server))
    }

    /// See [`test_vote`].
    pub(crate) async fn test_vote(&self, node: usize) -> Result<Duration, Reason> {
        let (manager, node) = self.locate(node).ok_or(Reason::Unknown)?;
        test_vote(manager.client(), node).await
    }
}

#[cfg(feature = "scheduler")]
impl Redlock {
    pub(crate) fn wall(&self) -> Duration {
        self.client().clock().wall()
    }

    /// Returns the wall clock that most nodes agree on, of several sets those of the first that is up; or the
    /// local one if the nodes have no clocks of their own.
    pub(crate) fn nodes_wall(&self) -> Duration {
        let clock = self.client().clock();
        let now = clock.now();
        self.common_wall(now).unwrap_or_else(|| self.client().nodes_wall(now, clock.wall()))
    }

    /// Returns the wall clock that a quorum of nodes agrees on, by clocks of their own; `None`
    /// while fewer are connected.
    pub(crate) fn common_wall(&self, now: Timestamp) -> Option<Duration> {
        self.sets().iter().find_map(|set| set.client().common_wall(now))
    }

    pub(crate) fn has_fencing(&self) -> bool {
        self.client().settings.fencing
    }

    pub(crate) fn spawner(&self) -> &Arc<dyn Spawner> {
        &self.client().spawner
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client().is_closed()
    }

    /// Returns whether this manager made a request.
    pub(crate) fn made(&self, request: &LockRequest) -> bool {
        self.sets().iter().any(|set| Arc::ptr_eq(set.core(), &request.core))
    }

    /// Waits until all releases are answered.
    #[cfg(feature = "scheduler")]
    pub(crate) async fn released(&self) {
        join_all(self.sets().iter().map(|set| set.client().released())).await;
    }
}
