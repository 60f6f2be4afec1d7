use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::rows::Turn;
use crate::{
    lock::{core::Core, settings::Plan, watchers::Watch},
    random,
    resource::Resource,
    time::{Sleep, Timestamp},
};

/// Others that are woken have come within this.
const LONGEST_WAY: Duration = Duration::from_millis(10);

/// Without any pause nobody else would ever come first, whatever the delay between tries.
const SHORTEST_WAY: Duration = Duration::from_millis(1);

/// The pause of one that may have to give way to other processes, before its first try.
pub(crate) struct Way {
    core: Arc<Core>,
    resource: Resource,
    node_timeout: Duration,
    /// The end of the pause, or of its patience while it is unknown whether others wait.
    until: Timestamp,
    deadline: Timestamp,
    gives: bool,
    watch: Watch,
    sleep: Option<(Timestamp, Sleep)>,
}

impl Way {
    pub(crate) fn new(
        core: &Arc<Core>,
        resource: &Resource,
        plan: &Plan,
        deadline: Timestamp,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            resource: resource.clone(),
            node_timeout: plan.node_timeout,
            until: core.clock().now() + LONGEST_WAY,
            deadline,
            gives: false,
            watch: Watch::default(),
            sleep: None,
        }
    }

    /// For how long it gives way, after so many times in vain.
    fn pause(&self, before: u32) -> Duration {
        let delay = &self.core.settings.retry_delay;
        if !self.core.settings.wakeups {
            // Who is not woken looks in at times.
            return random::within(delay);
        }
        // Who is woken needs no more than this. Who is far away needs the time of a message there
        // and back.
        let near = (*delay.start()).clamp(SHORTEST_WAY, LONGEST_WAY);
        near.saturating_mul(1 << before.min(10)).min(self.node_timeout.max(near))
    }

    /// Ready when it is our turn.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let rows = self.core.wakeups.rows();
        let now = self.core.clock().now();
        if !self.gives {
            match rows.watch(&mut self.watch, cx, (&self.resource, now)) {
                Turn::Ours => return Poll::Ready(()),
                Turn::Unknown => {}
                Turn::Others => {
                    self.gives = true;
                    self.until = now + self.pause(rows.give_way(&self.resource));
                }
            }
        }
        let until = self.until.min(self.deadline);
        if now >= until {
            return Poll::Ready(());
        }
        let sleep = match &mut self.sleep {
            Some((at, sleep)) if *at == until => sleep,
            other => &mut other.insert((until, self.core.timers.sleep_until(until))).1,
        };
        Pin::new(sleep).poll(cx)
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.core.wakeups.rows().forget(&mut self.watch);
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("gives", &self.gives).finish_non_exhaustive()
    }
}
