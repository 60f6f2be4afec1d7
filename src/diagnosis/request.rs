//! A request for a diagnosis.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use super::{Diagnosis, examine::examine};
use crate::lock::Redlock;

/// Default of [`DiagnosisRequest::connect_within`]: a server that has not greeted after 2 s is down.
const CONNECT_LIMIT: Duration = Duration::from_millis(3_500);

impl Redlock {
    /// Examines the nodes for an operator: which of them vote, why the others do not, and what to
    /// do. See the [module](crate::diagnosis) for an example.
    ///
    /// Await the request. It waits up to 3.5 s for first connections, requests a [test
    /// vote](DiagnosisRequest::probe) from each node, checks which commands each server denies to
    /// its user, and [counts](Self::key_counts) its lock keys. If all nodes answer, that takes
    /// milliseconds, plus a scan of all keys of each server; otherwise up to 26 s.
    ///
    /// It always returns a diagnosis; unreachable nodes are part of it.
    pub fn diagnosis(&self) -> DiagnosisRequest {
        let connect_within = CONNECT_LIMIT;
        DiagnosisRequest { redlock: self.clone(), probe: true, counts: true, connect_within }
    }
}

/// A request for a [`Diagnosis`], to be awaited.
///
/// Nothing is sent until it is awaited.
///
/// # Cancel safety
///
/// Safe. Locks of other clients are not affected. Test votes in flight are released in the
/// background, like a dropped lock. If a release does not reach a node, the key expires after its
/// TTL, at most 1 s.
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is awaited"]
pub struct DiagnosisRequest {
    redlock: Redlock,
    probe: bool,
    counts: bool,
    connect_within: Duration,
}

impl DiagnosisRequest {
    /// Sets whether to request a test vote from each node, and to check the permissions of each server.
    /// Default: yes.
    ///
    /// A test vote acquires and releases a key on one node, under a random name that users can't
    /// give. It detects problems that the state of a connection does not show, such as a missing
    /// permission or a slow server. A node has 2 s to answer. If the answer takes longer than the
    /// node timeout, the request is repeated, at most twice.
    ///
    /// The permission check calls each command that the crate needs, in a script, on a key that no
    /// lock has. [`NodeHealth::denied`](crate::node::NodeHealth::denied) contains the denied
    /// commands until the next check.
    ///
    /// Without it, nothing is written to the servers, and `denied` contains only the commands that
    /// were denied to this process.
    pub fn probe(mut self, probe: bool) -> Self {
        self.probe = probe;
        self
    }

    /// Sets the limit for first connections. Default: 3.5 s; a server that has not greeted after 2 s is
    /// down. A node that is not connected by then is [connecting](crate::node::NodeState::Connecting) in the
    /// diagnosis.
    pub fn connect_within(mut self, limit: Duration) -> Self {
        self.connect_within = limit;
        self
    }

    /// Sets whether to [count](Redlock::key_counts) the lock keys of each node. Default: yes.
    /// Without it, the nodes are not scanned, whatever number of keys they have.
    pub fn count_keys(mut self, count: bool) -> Self {
        self.counts = count;
        self
    }
}

impl IntoFuture for DiagnosisRequest {
    type Output = Diagnosis;
    type IntoFuture = DiagnosisFuture;

    fn into_future(self) -> DiagnosisFuture {
        let Self { redlock, probe, counts, connect_within } = self;
        let examining = async move { examine(&redlock, probe, counts, connect_within).await };
        DiagnosisFuture(Box::pin(examining))
    }
}

/// The future of a [`DiagnosisRequest`], with the same cancel safety.
///
/// # Panics
///
/// If polled again after it was ready.
#[must_use = "futures do nothing unless polled"]
pub struct DiagnosisFuture(Pin<Box<dyn Future<Output = Diagnosis> + Send>>);

impl Future for DiagnosisFuture {
    type Output = Diagnosis;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Diagnosis> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for DiagnosisFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiagnosisFuture").finish_non_exhaustive()
    }
}
