//! What this process waits for and holds at one moment.

use std::sync::{Arc, Weak};

use super::{held_lease::HeldLease, line::HeadState, queue::Queue};
use crate::{lock::snapshot::WaitingName, time::Timestamp};

impl<L: HeldLease> Queue<L> {
    /// Returns the leases that are held or linger, once for each of their names, and the names that
    /// requests wait for.
    pub(crate) fn contents(&self, now: Timestamp) -> (Vec<Weak<L>>, Vec<WaitingName>) {
        let (mut leases, mut waiting) = (Vec::new(), Vec::new());
        for (name, line) in &self.lines().names {
            let head = match &line.head {
                HeadState::Holding(lease) => {
                    leases.push(Weak::clone(lease));
                    None
                }
                HeadState::Trying | HeadState::Refused(_) => Some(line.head_since),
            };
            let Some(oldest) = head.into_iter().chain(line.oldest()).min() else { continue };
            waiting.push(WaitingName {
                name: Arc::clone(name),
                requests: line.len() + usize::from(head.is_some()),
                oldest: now.saturating_duration_since(oldest),
            });
        }
        (leases, waiting)
    }
}
