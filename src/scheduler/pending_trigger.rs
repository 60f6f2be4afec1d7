//! A run on demand that its job has not answered.

use tokio::sync::oneshot;

use super::{Outcome, SkipReason};

/// How a run on demand came out, or why there was none.
pub(super) type TriggerResult = Result<Outcome, SkipReason>;

/// The end of a [`Trigger`](super::Trigger) that the job has.
#[derive(Debug)]
pub(super) struct PendingTrigger {
    pub(super) id: u64,
    answer: oneshot::Sender<TriggerResult>,
}

impl PendingTrigger {
    /// Returns it with the receiver of its answer.
    pub(super) fn new(id: u64) -> (Self, oneshot::Receiver<TriggerResult>) {
        let (answer, end) = oneshot::channel();
        (Self { id, answer }, end)
    }

    /// A run that was requested of the fleet, which no task of this replica awaits.
    pub(super) fn unawaited(id: u64) -> Self {
        Self::new(id).0
    }

    /// Wakes a task, so no mutex may be held.
    pub(super) fn answer(self, end: TriggerResult) {
        crate::sync::assert_unlocked();
        // The caller may be gone.
        let _ = self.answer.send(end);
    }
}
