//! Subscriptions to the hints of one node: to releases of names, and to requests for an owner's
//! idle leases.

use std::{collections::HashMap, sync::Arc};

use super::{Hint, Hints, Subscription};
use crate::sync::{Guard, Mutex, Notify};

/// The subscribers of each name on a node, and, for a server, the state of its channels.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    /// Whether a server has to confirm a subscription before it takes effect.
    is_remote: bool,
    state: Mutex<SubscriptionState>,
    /// Notified when channels have to be subscribed or unsubscribed, and when the node is dropped.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct SubscriptionState {
    names: HashMap<Arc<str>, Channel>,
    /// Names that got their first subscriber or lost their last one.
    changes: Vec<Arc<str>>,
    next_id: u64,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Channel {
    hints: Vec<(u64, Hints)>,
    /// Whether SUBSCRIBE was sent on the current connection.
    requested: bool,
    /// Number of SUBSCRIBE commands that the server has not confirmed.
    unconfirmed: u32,
    listening: bool,
}

/// Returns the name under which an owner subscribes to requests for its idle leases. Names of locks
/// do not contain control characters.
pub(crate) fn owner_channel(owner: &str) -> Arc<str> {
    format!("\r{owner}").into()
}

/// Names to send SUBSCRIBE and UNSUBSCRIBE for.
#[derive(Debug, Default)]
pub(crate) struct ChannelChanges {
    pub(crate) enter: Vec<Arc<str>>,
    pub(crate) leave: Vec<Arc<str>>,
}

impl Subscriptions {
    /// Creates subscriptions that take effect at once.
    pub(crate) fn local() -> Arc<Self> {
        Self::new(false)
    }

    /// Creates subscriptions that take effect once a server has confirmed them.
    pub(crate) fn remote() -> Arc<Self> {
        Self::new(true)
    }

    fn new(is_remote: bool) -> Arc<Self> {
        Arc::new(Self { is_remote, state: Mutex::default(), changed: Notify::new() })
    }

    pub(crate) fn add(self: &Arc<Self>, name: &Arc<str>, hints: &Hints) -> Subscription {
        let (id, listening) = {
            let mut guard = self.state();
            let state = &mut *guard;
            let id = state.next_id;
            state.next_id += 1;
            let channel = state.names.entry(Arc::clone(name)).or_default();
            channel.hints.push((id, hints.clone()));
            if !self.is_remote {
                channel.listening = true;
            } else if channel.hints.len() == 1 {
                state.changes.push(Arc::clone(name));
            }
            (id, channel.listening)
        };
        if listening {
            hints.send(Hint::Listening);
        }
        self.changed.notify_one();
        Subscription::new(SubscriptionGuard {
            subscriptions: Arc::clone(self),
            name: Arc::clone(name),
            id,
        })
    }

    /// Reports a release. `listening` is the number of processes that listen on the server; a local
    /// table counts its own subscribers.
    pub(crate) fn released(&self, name: &str, listening: Option<usize>) {
        let Some(channel) = self.state().names.get(name).map(|channel| channel.hints.clone())
        else {
            return;
        };
        let listening = if self.is_remote { listening } else { Some(channel.len()) };
        for (_, hints) in channel {
            hints.send(Hint::Freed { listening });
        }
    }

    /// Returns the number of subscribers of a name.
    pub(crate) fn listening(&self, name: &str) -> usize {
        self.state().names.get(name).map_or(0, |channel| channel.hints.len())
    }

    /// Sends a hint to `owner` about one of its leases.
    pub(crate) fn tell(&self, owner: &str, hint: &Hint) {
        let channel = owner_channel(owner);
        let Some(hints) = self.state().names.get(&*channel).map(|channel| channel.hints.clone())
        else {
            return;
        };
        for (_, hints) in hints {
            hints.send(hint.clone());
        }
    }

    /// Handles a server's confirmation of a SUBSCRIBE.
    pub(crate) fn confirmed(&self, name: &str) {
        let subscribers = {
            let mut state = self.state();
            let Some(channel) = state.names.get_mut(name) else { return };
            channel.unconfirmed = channel.unconfirmed.saturating_sub(1);
            if channel.unconfirmed > 0 {
                return;
            }
            if !channel.requested {
                if channel.hints.is_empty() {
                    state.names.remove(name);
                }
                return;
            }
            channel.listening = true;
            channel.hints.clone()
        };
        for (_, hints) in subscribers {
            hints.send(Hint::Listening);
        }
    }

    /// Returns the changes since the last call.
    pub(crate) fn take_changes(&self) -> ChannelChanges {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut changes = ChannelChanges::default();
        for name in std::mem::take(&mut state.changes) {
            let Some(channel) = state.names.get_mut(&name) else { continue };
            let wanted = !channel.hints.is_empty();
            if wanted && !channel.requested {
                channel.requested = true;
                channel.unconfirmed += 1;
                changes.enter.push(name);
            } else if !wanted {
                if channel.requested {
                    changes.leave.push(Arc::clone(&name));
                }
                (channel.requested, channel.listening) = (false, false);
                // An outstanding confirmation must not be taken for the confirmation of the next
                // SUBSCRIBE.
                if channel.unconfirmed == 0 {
                    state.names.remove(&name);
                }
            }
        }
        changes
    }

    /// Resets the state for a new connection, which has no subscriptions yet.
    pub(crate) fn reset(&self) {
        self.state().names.values_mut().for_each(|channel| channel.unconfirmed = 0);
        self.repeat();
    }

    /// Resets the state of a connection that unsubscribes from all channels. Its outstanding
    /// confirmations are not counted for the next SUBSCRIBE.
    pub(crate) fn repeat(&self) {
        let mut deaf = Vec::new();
        {
            let mut guard = self.state();
            let state = &mut *guard;
            state.names.retain(|_, channel| !channel.hints.is_empty() || channel.unconfirmed > 0);
            // Sorted, so that a test with a seed is repeatable.
            state.changes = state.names.keys().cloned().collect();
            state.changes.sort_unstable();
            for name in &state.changes {
                let Some(channel) = state.names.get_mut(name) else { continue };
                if channel.listening {
                    deaf.extend(channel.hints.iter().map(|(_, hints)| hints.clone()));
                }
                (channel.requested, channel.listening) = (false, false);
            }
        }
        for hints in deaf {
            hints.send(Hint::Deaf);
        }
    }

    /// Marks the node as dropped.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Returns whether no name has a subscriber.
    pub(crate) fn is_idle(&self) -> bool {
        self.state().names.values().all(|channel| channel.hints.is_empty())
    }

    fn state(&self) -> Guard<'_, SubscriptionState> {
        crate::sync::lock(&self.state)
    }
}

struct SubscriptionGuard {
    subscriptions: Arc<Subscriptions>,
    name: Arc<str>,
    id: u64,
}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        let mut guard = self.subscriptions.state();
        let state = &mut *guard;
        let Some(channel) = state.names.get_mut(&self.name) else { return };
        let index = channel.hints.iter().position(|(id, _)| *id == self.id);
        debug_assert!(index.is_some(), "a subscriber is counted until its guard is dropped");
        let hints = index.map(|index| channel.hints.swap_remove(index));
        if channel.hints.is_empty() {
            if self.subscriptions.is_remote {
                state.changes.push(Arc::clone(&self.name));
            } else {
                state.names.remove(&self.name);
            }
        }
        // Dropping a hint runs code outside this crate.
        drop(guard);
        drop(hints);
        self.subscriptions.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_confirmation_is_ignored() {
        let subscriptions = Subscriptions::remote();
        let received = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&received);
        let hints = Hints::from_fn(move |hint| sink.lock().unwrap().push(hint));

        let first = subscriptions.add(&"x".into(), &hints);

        assert_eq!(subscriptions.take_changes().enter, [Arc::from("x")]);

        drop(first);
        assert_eq!(subscriptions.take_changes().leave, [Arc::from("x")]);

        let _second = subscriptions.add(&"x".into(), &hints);
        assert_eq!(subscriptions.take_changes().enter, [Arc::from("x")]);

        subscriptions.confirmed("x");
        assert!(received.lock().unwrap().is_empty());

        subscriptions.confirmed("x");
        assert_eq!(received.lock().unwrap()[..], [Hint::Listening]);
    }

    #[test]
    fn repeated_subscription_is_confirmed_again() {
        let subscriptions = Subscriptions::remote();
        let received = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&received);
        let hints = Hints::from_fn(move |hint| sink.lock().unwrap().push(hint));
        let _kept = subscriptions.add(&"x".into(), &hints);
        let left = subscriptions.add(&"y".into(), &hints);
        subscriptions.take_changes();
        subscriptions.confirmed("x");
        drop(left);

        subscriptions.repeat();

        assert_eq!(subscriptions.take_changes().enter, [Arc::from("x")]);

        subscriptions.repeat();
        assert_eq!(subscriptions.take_changes().enter, [Arc::from("x")]);

        subscriptions.confirmed("x");
        assert_eq!(received.lock().unwrap()[..], [Hint::Listening, Hint::Deaf]);

        subscriptions.confirmed("x");
        subscriptions.confirmed("y");
        assert_eq!(received.lock().unwrap()[..], [Hint::Listening, Hint::Deaf, Hint::Listening]);
        assert!(!subscriptions.state().names.contains_key("y"));
    }

    #[test]
    fn left_name_is_forgotten_once_confirmed() {
        let subscriptions = Subscriptions::remote();
        let hints = Hints::from_fn(|hint| panic!("{hint:?}"));
        let early = subscriptions.add(&"x".into(), &hints);

        drop(early);

        assert!(subscriptions.is_idle());

        subscriptions.take_changes();
        assert!(subscriptions.state().names.is_empty(), "never requested");

        let first = subscriptions.add(&"x".into(), &hints);
        subscriptions.take_changes();
        drop(first);
        subscriptions.take_changes();

        assert!(subscriptions.is_idle());

        subscriptions.confirmed("x");
        assert!(subscriptions.state().names.is_empty());
    }
}
