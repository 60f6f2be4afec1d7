//! The mark of an exclusive request that waits for shared leases (R16).
//!
//! A node whose shared leases refuse an exclusive request that waits keeps the request's mark, and takes
//! no further shared lease. All attempts of the request leave one mark, and it leaves with the request:
//! when the request is granted, fails or is dropped, it is withdrawn from each node that may have it, as
//! an end that the node has to acknowledge ([`obligations`](super::obligations)). Only the mark of a
//! process that crashed stays for [`WAIT_MARK_TTL`].

use std::sync::Arc;

use super::{client::Client, obligations::Obligation};
use crate::{
    error::Reason,
    protocol::{Answer, HeldAnswer, LeaseId, Op, WAIT_MARK_TTL},
    sync::{Guard, Mutex},
    time::Timestamp,
};

/// The mark of one request, by the answers of its attempts.
#[derive(Debug)]
pub(crate) struct WaitMark {
    /// The identity of the request: that of its first attempt.
    id: Arc<LeaseId>,
    state: Mutex<MarkState>,
}

#[derive(Debug, Default)]
struct MarkState {
    /// The nodes that may have the mark.
    marked: Vec<usize>,
    has_ended: bool,
}

/// A request that waits. Its drop withdraws the mark.
pub(crate) struct MarkedRequest {
    mark: Arc<WaitMark>,
    client: Arc<Client>,
}

impl WaitMark {
    pub(crate) fn new(id: &Arc<LeaseId>) -> Arc<Self> {
        Arc::new(Self { id: Arc::clone(id), state: Mutex::default() })
    }

    pub(crate) const fn id(&self) -> &Arc<LeaseId> {
        &self.id
    }

    /// Records a node's answer to an attempt. One that arrives after the end of the request withdraws the
    /// mark.
    pub(crate) fn attempted(
        self: &Arc<Self>,
        client: &Client,
        node: usize,
        result: &Result<Answer, Reason>,
    ) {
        let may_be_marked = match result {
            // Of several names, another one may be marked.
            Ok(Answer::Held(HeldAnswer { is_shared: false, .. }))
                if self.id.resource().names().len() > 1 =>
            {
                return;
            }
            Ok(Answer::Held(HeldAnswer { is_shared, .. })) => *is_shared,
            Ok(_) => false,
            Err(reason) if reason.may_have_run() => true,
            Err(_) => return,
        };
        let mut state = self.state();
        state.marked.retain(|marked| *marked != node);
        let is_late = may_be_marked && state.has_ended;
        if may_be_marked && !is_late {
            state.marked.push(node);
        }
        drop(state);
        if is_late {
            self.withdraw(client, node);
        }
    }

    fn withdraw(self: &Arc<Self>, client: &Client, node: usize) {
        // An attempt whose answer was lost runs at the end of its validity at the latest.
        let until =
            client.now() + client.settings.max_ttl + client.settings.node_timeout + WAIT_MARK_TTL;
        client.repeaters.send(node, Arc::clone(self) as Arc<dyn Obligation>, until);
    }

    fn state(&self) -> Guard<'_, MarkState> {
        crate::sync::lock(&self.state)
    }
}

impl Obligation for WaitMark {
    fn op(self: Arc<Self>, _: usize, _: Timestamp) -> Option<Op> {
        Some(Op::Withdraw(Arc::clone(&self.id)))
    }

    fn answered(&self, _: usize, answer: Result<Answer, Reason>) -> bool {
        matches!(answer, Ok(Answer::Withdrawn(_)))
    }

    fn subject(&self) -> String {
        self.id.resource().to_string()
    }
}

impl MarkedRequest {
    pub(crate) fn new(mark: &Arc<WaitMark>, client: &Arc<Client>) -> Self {
        Self { mark: Arc::clone(mark), client: Arc::clone(client) }
    }

    pub(crate) const fn mark(&self) -> &Arc<WaitMark> {
        &self.mark
    }
}

impl Drop for MarkedRequest {
    fn drop(&mut self) {
        let marked = {
            let mut state = self.mark.state();
            state.has_ended = true;
            std::mem::take(&mut state.marked)
        };
        for node in marked {
            self.mark.withdraw(&self.client, node);
        }
    }
}

opaque_debug!(MarkedRequest);
