use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use super::{Hint, Hints, Subscription};

/// Who listens for names on one node of this process.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    names: HashMap<Arc<str>, Vec<(u64, Hints)>>,
    next_id: u64,
}

impl Listeners {
    /// Adds one, and tells it that it is heard.
    pub(super) fn add(self: &Arc<Self>, name: &Arc<str>, hints: &Hints) -> Subscription {
        let id = {
            let mut state = crate::sync::lock(&self.0);
            let id = state.next_id;
            state.next_id += 1;
            state.names.entry(Arc::clone(name)).or_default().push((id, hints.clone()));
            id
        };
        hints.send(Hint::Listening);
        let (listeners, name) = (Arc::clone(self), Arc::clone(name));
        Subscription::new(Listening { listeners, name, id })
    }

    /// Tells who listens for the name that it was given back.
    pub(super) fn freed(&self, name: &str) {
        let told = crate::sync::lock(&self.0).names.get(name).cloned().unwrap_or_default();
        let listening = Some(told.len());
        for (_, hints) in told {
            hints.send(Hint::Freed { listening });
        }
    }
}

struct Listening {
    listeners: Arc<Listeners>,
    name: Arc<str>,
    id: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut state = crate::sync::lock(&self.listeners.0);
        let Some(listening) = state.names.get_mut(&self.name) else { return };
        let gone = listening.iter().position(|(id, _)| *id == self.id);
        let hints = gone.map(|at| listening.swap_remove(at));
        if listening.is_empty() {
            state.names.remove(&self.name);
        }
        drop(state);
        drop(hints);
    }
}
