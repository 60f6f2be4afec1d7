use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::shared::{SharedLease, State};
use crate::{
    node::{Reply, ReplySink},
    protocol::{AcquireOp, ExtendOp, Op, OpId, RaiseOp},
    quorum::Command,
    sync::Guard,
    token::block_end,
};

impl SharedLease {
    /// Sends what is decided, one sender at a time: who comes meanwhile, an answer within the call
    /// to a node included, adds to the outbox and leaves the rest to us.
    pub(super) fn send_outbox<'a>(
        self: &'a Arc<Self>,
        mut state: Guard<'a, State>,
    ) -> Guard<'a, State> {
        state.sending = true;
        while !state.outbox.is_empty() {
            let mut outbox = std::mem::take(&mut state.outbox);
            drop(state);
            for (node, command) in outbox.drain(..) {
                let send = || {
                    let (op, id) = self.op(command);
                    let sink = Arc::clone(self) as Arc<dyn ReplySink>;
                    self.core.nodes[node].send(op, Reply::to_lease(sink, node, id));
                };
                // A node that panics has dropped the reply: its answer is unknown, ours goes on.
                if catch_unwind(AssertUnwindSafe(send)).is_err() {
                    let node = self.core.nodes[node].name();
                    crate::log::error!(node, "a node panicked while it was sent to");
                }
            }
            state = self.state();
            if state.outbox.is_empty() {
                // Its memory serves again.
                state.outbox = outbox;
            }
        }
        state.sending = false;
        state
    }

    fn op(&self, command: Command) -> (Op, OpId) {
        let lease = Arc::clone(&self.id);
        let (ttl, patience) = (self.ttl, self.patience());
        match command {
            Command::Acquire { token, expires } => {
                let block_end = block_end(token, self.block);
                let op = Op::Acquire(AcquireOp {
                    lease,
                    ttl,
                    token,
                    block_end,
                    expires,
                    patience,
                    waits: self.waits,
                });
                (op, OpId::Acquire)
            }
            Command::Raise { round, token } => {
                let block_end = block_end(token, self.block);
                self.core.fences.reserve(self.resource(), block_end);
                (Op::Raise(RaiseOp { lease, token, block_end }), OpId::Raise(round))
            }
            Command::Extend { started, until } => {
                let token = self.token.load(Ordering::Acquire);
                (Op::Extend(ExtendOp { lease, ttl, token, until, patience }), OpId::Extend(started))
            }
            Command::Release => {
                // Not before: what stands ahead of it in the outbox is still to be sent.
                self.id.end();
                (Op::Release(lease), OpId::Release)
            }
        }
    }

    /// How long after sending a node may still store our key: two node timeouts.
    pub(super) fn patience(&self) -> Duration {
        self.node_timeout * 2
    }
}
