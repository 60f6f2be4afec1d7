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
    lock::{core::Core, watchers::Watch},
    random,
    resource::Resource,
    time::{Sleep, Timestamp},
};

/// Others that are woken have come within this.
const LONGEST_WAY: Duration = Duration::from_millis(10);

/// The pause of one that may have to give way to other processes, before its first try.
pub(crate) struct Way {
    core: Arc<Core>,
    resource: Resource,
    /// For how long it gives way, and the end of its patience while it is unknown whether it has to.
    pause: Duration,
    until: Timestamp,
    deadline: Timestamp,
    gives: bool,
    watch: Watch,
    sleep: Option<(Timestamp, Sleep)>,
}

impl Way {
    pub(crate) fn new(core: &Arc<Core>, resource: &Resource, deadline: Timestamp) -> Self {
        let delay = &core.settings.retry_delay;
        // Who is woken needs no more than this; who is not looks in at times.
        let woken = (*delay.start()).min(LONGEST_WAY);
        let pause = if core.settings.wakeups { woken } else { random::within(delay) };
        Self {
            core: Arc::clone(core),
            resource: resource.clone(),
            pause,
            until: core.clock().now() + LONGEST_WAY,
            deadline,
            gives: false,
            watch: Watch::default(),
            sleep: None,
        }
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
                    self.until = now + self.pause;
                    // A new row begins behind the pause.
                    rows.end(&self.resource);
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
