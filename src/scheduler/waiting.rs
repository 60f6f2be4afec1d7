//! While another replica runs the job: ticks that wait for the release of its lock.

use std::{future::pending, ops::RangeInclusive, time::Duration};

use super::{
    Claim, Missed, Overlap,
    driver::{Driver, Purpose},
    policy::{Due, MissedTicks, Policy},
};
use crate::{
    error::LockError,
    lock::{Lock, SingleAttempts},
    random,
    schedule::WallTime,
    time::{MAX_DURATION, Timestamp},
};

/// Pause after a release that was waited for. Whoever gave the lock back goes on with the schedule
/// itself, and comes first; the others then see that in what the nodes keep, and take no lock.
const SPREAD: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_millis(250);

impl Driver {
    /// As [`idle`](Self::idle), while another one has the lock; its release ends that, too.
    pub(super) async fn wait_for_release(&mut self, wall: Option<WallTime>, until: Timestamp) {
        let Self { shared, job, control, releases, .. } = self;
        let freed = async {
            match releases {
                Some(releases) => releases.pause(MAX_DURATION, *SPREAD.start()).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = shared.alarms.at(wall) => return,
            () = shared.core().timers.sleep_until(until) => return,
            () = job.asked.notified() => return,
            _ = control.changed() => return,
            () = freed => {}
        }
        tokio::select! {
            biased;
            () = shared.sleep(random::within(&SPREAD)) => {}
            _ = control.changed() => return,
        }
        self.hold_off = None;
        self.queued = None;
        let _ = self.look().await;
    }

    pub(super) async fn attempt(&mut self, purpose: Purpose) -> Result<Lock, LockError> {
        if !self.is_to_be_woken(purpose) {
            return self.request().acquire().await;
        }
        let request = self.request();
        let attempts = match &mut self.releases {
            Some(attempts) => attempts,
            none => none.insert(SingleAttempts::new(request)?),
        };
        attempts.attempt().await
    }

    /// Whether the release of the lock leaves anything to do here, if a tick is refused it. By
    /// default it does not: a tick that comes during a run is missed, and one that was started is
    /// done with. So a fleet does not ask each time a run ends.
    fn is_to_be_woken(&self, purpose: Purpose) -> bool {
        let Policy { overlap, missed, .. } = self.options.policy;
        let waits = overlap != Overlap::Skip || missed != Missed::Skip;
        let repeats = self.options.claim == Claim::AtEnd;
        matches!(purpose, Purpose::Tick(_)) && (waits || repeats)
    }

    /// A tick was refused the lock: where such ticks are queued, it waits for its release.
    pub(super) fn queue(&mut self, purpose: Purpose) {
        let queues = self.options.policy.overlap != Overlap::Skip;
        if let (Purpose::Tick(tick), true) = (purpose, queues && !self.schedule.is_after_end()) {
            self.queued = Some(tick);
        }
    }

    /// The tick that still waits for a run elsewhere, among those that seem to be missed: it is too
    /// late for it only once that run has ended, and nothing more was heard of it.
    pub(super) fn still_queued(&self, missed: Option<MissedTicks>) -> Option<Due> {
        let tick = missed?.last;
        let waits = self.queued.is_some_and(|queued| self.record.tick < Some(queued));
        let start = self.schedule.start(&self.job.name, tick);
        waits.then_some(Due::Run { tick, start, again: false, missed: None })
    }
}
