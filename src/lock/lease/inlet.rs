use std::{
    sync::{Arc, atomic::Ordering},
    task::Wake,
};

use super::shared::SharedLease;
use crate::{
    error::Reason,
    node::ReplySink,
    protocol::{Answer, OpId, ReleasedAnswer, names::View},
    quorum::Event,
};

impl SharedLease {
    fn take(self: &Arc<Self>, op: OpId, event: Event) {
        self.handle(self.state(), event);
        // Counted until it is known whether it has to be repeated.
        if op == OpId::Release {
            self.core.releasing.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl ReplySink for SharedLease {
    fn answer(
        self: Arc<Self>,
        node: usize,
        op: OpId,
        result: Result<Answer, Reason>,
        view: Option<Arc<View>>,
    ) {
        if let Ok(answer) = &result {
            self.learn(op, answer);
            // Of an attempt that failed it was never ours.
            if let Answer::Released(ReleasedAnswer { awaited, .. }) = answer
                && self.core.wakeups.minds(*awaited)
                && self.state().granted.is_some()
            {
                self.core.wakeups.returned(self.resource(), *awaited, self.started);
            }
        }
        self.take(op, Event::Answer { node, op, result, view });
    }

    fn not_sent(self: Arc<Self>, node: usize, op: OpId, reason: Reason) {
        self.take(op, Event::NotSent { node, op, reason });
    }
}

impl Wake for SharedLease {
    fn wake(self: Arc<Self>) {
        let mut state = self.state();
        state.timer = None;
        let stop_at = Self::stop_at(&state, self.core.timers.lead());
        let is_over = state.grant.is_held() && self.core.clock().now() >= stop_at;
        self.handle(state, if is_over { Event::Stop } else { Event::Wake });
    }
}
