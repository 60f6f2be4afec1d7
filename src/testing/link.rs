use std::sync::Mutex;

use crate::{error::Reason, time::Timestamp};

/// The way from one replica to one node.
#[derive(Debug, Default)]
pub(super) struct Link {
    cut: Mutex<Option<Timestamp>>,
}

impl Link {
    pub(super) fn cut(&self, now: Timestamp) {
        crate::sync::lock(&self.cut).get_or_insert(now);
    }

    pub(super) fn heal(&self) {
        *crate::sync::lock(&self.cut) = None;
    }

    pub(super) fn cut_since(&self) -> Option<Timestamp> {
        *crate::sync::lock(&self.cut)
    }

    pub(super) fn reason() -> Reason {
        Reason::NotConnected("partitioned".into())
    }
}
