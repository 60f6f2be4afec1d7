//! What all handles of one manager share.

use std::sync::Arc;

use super::{
    client::{Client, ClientParts},
    queue::Queue,
    remote_requests::LingeringLeases,
    slots::SlotSets,
};
use crate::time::Timestamp;

/// What all handles of one manager share: its client of the nodes, the local lines of requests, and the
/// slots that it uses.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) client: Arc<Client>,
    pub(crate) queue: Arc<Queue>,
    pub(super) slots: SlotSets,
}

impl Core {
    pub(super) fn new(parts: ClientParts) -> Arc<Self> {
        let settings = &parts.settings;
        let queue = Arc::new(Queue::new(Arc::clone(&settings.owner), settings.bounds.line));
        let lingering = Arc::clone(&queue) as Arc<dyn LingeringLeases>;
        let client = Client::new(parts, lingering);
        Arc::new(Self { client, queue, slots: SlotSets::default() })
    }
}

impl Drop for Core {
    /// What is owed keeps the client alive, so it ends with the last handle.
    fn drop(&mut self) {
        self.client.owed.give_up("the last handle of the manager was dropped");
    }
}

impl LingeringLeases for Queue {
    fn asked(&self, name: &str, at: Timestamp) {
        if let Some(lease) = self.holder(name) {
            lease.asked(at);
        }
    }

    fn withdrawn(&self, name: &str) {
        if let Some(lease) = self.holder(name) {
            lease.reopen();
        }
    }

    fn end_all(&self) {
        self.end_lingers();
    }
}
