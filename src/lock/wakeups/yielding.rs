//! The pause before a first try, in which other processes have their turn.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::fairness::Turn;
use crate::{
    lock::{core::Core, settings::Plan, watchers::Watch},
    random,
    resource::Resource,
    time::{Sleep, Timestamp},
};

/// Maximum time in which other processes that were woken ask for the name.
const LONGEST: Duration = Duration::from_millis(10);

/// Minimum pause. Without one, no other process would ever come first.
const SHORTEST: Duration = Duration::from_millis(1);

/// The pause before a first try, where other processes may wait for the name.
pub(crate) struct Yield {
    core: Arc<Core>,
    resource: Resource,
    node_timeout: Duration,
    /// End of the pause, or of the wait to learn whether others wait.
    until: Timestamp,
    deadline: Timestamp,
    /// Others wait, so the pause has begun.
    has_begun: bool,
    watch: Watch,
    sleep: Option<(Timestamp, Sleep)>,
}

impl Yield {
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
            until: core.clock().now() + LONGEST,
            deadline,
            has_begun: false,
            watch: Watch::default(),
            sleep: None,
        }
    }

    /// Length of the pause after `before` pauses in which no other process came.
    fn pause(&self, before: u32) -> Duration {
        let delay = &self.core.settings.retry_delay;
        if !self.core.settings.wakeups {
            // Other processes poll at this interval.
            return random::within(delay);
        }
        // Enough for a process that is woken, plus a round trip for one that is far away.
        let near = (*delay.start()).clamp(SHORTEST, LONGEST);
        near.saturating_mul(1 << before.min(10)).min(self.node_timeout.max(near))
    }

    /// Ready when it is this process's turn.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let streaks = self.core.wakeups.streaks();
        let now = self.core.clock().now();
        if !self.has_begun {
            match streaks.watch(&mut self.watch, cx, (&self.resource, now)) {
                Turn::Ours => return Poll::Ready(()),
                Turn::Unknown => {}
                Turn::Others => {
                    self.has_begun = true;
                    self.until = now + self.pause(streaks.give_way(&self.resource));
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

impl Drop for Yield {
    fn drop(&mut self) {
        self.core.wakeups.streaks().forget(&mut self.watch);
    }
}

impl fmt::Debug for Yield {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yield").field("has_begun", &self.has_begun).finish_non_exhaustive()
    }
}
