//! The connections between a replica and its nodes: links that can be cut, and hints in flight.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use crate::{
    error::Reason,
    node::{Hint, Hints},
    sync::Mutex,
    time::Timestamp,
};

/// The connection of one replica to one node.
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

/// The hints of one server, queued until no mutex is locked.
#[derive(Debug, Default)]
pub(super) struct HintQueue {
    due: Mutex<VecDeque<(Weak<HintSubscriber>, Hint)>>,
    subscribers: Mutex<Vec<Weak<HintSubscriber>>>,
}

#[derive(Debug)]
pub(super) struct HintSubscriber {
    link: Arc<Link>,
    hints: Hints,
}

impl HintQueue {
    pub(super) fn subscriber(&self, link: &Arc<Link>, hints: Hints) -> Arc<HintSubscriber> {
        let subscriber = Arc::new(HintSubscriber { link: Arc::clone(link), hints });
        let mut subscribers = crate::sync::lock(&self.subscribers);
        subscribers.retain(|subscriber| subscriber.strong_count() > 0);
        subscribers.push(Arc::downgrade(&subscriber));
        subscriber
    }

    /// Returns the hints that queue the messages of the embedded node to `client`.
    pub(super) fn inbox(self: &Arc<Self>, subscriber: &Arc<HintSubscriber>) -> Hints {
        let (queue, subscriber) = (Arc::clone(self), Arc::downgrade(subscriber));
        Hints::from_fn(move |hint| {
            crate::sync::lock(&queue.due).push_back((Weak::clone(&subscriber), hint));
        })
    }

    /// Sends `hint` at once to the subscribers of a link, or to all.
    pub(super) fn broadcast(&self, link: Option<&Arc<Link>>, hint: &Hint) {
        let subscribers = crate::sync::lock(&self.subscribers).clone();
        for subscriber in subscribers.iter().filter_map(Weak::upgrade) {
            if link.is_none_or(|link| Arc::ptr_eq(&subscriber.link, link)) {
                subscriber.hints.send(hint.clone());
            }
        }
    }

    pub(super) fn deliver(&self) {
        loop {
            let Some((subscriber, hint)) = crate::sync::lock(&self.due).pop_front() else { return };
            if let Some(subscriber) = subscriber.upgrade()
                && subscriber.link.cut_since().is_none()
            {
                subscriber.hints.send(hint);
            }
        }
    }
}
