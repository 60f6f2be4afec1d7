use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use ::redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use crate::node::{Hint, Hints, Subscription, redis::decode::text};
use crate::sync::Guard;

/// Who listens for which name, and what the server was told of it.
#[derive(Debug)]
pub(in crate::node::redis) struct Board {
    /// What a channel's name begins with.
    prefix: String,
    state: Mutex<State>,
    /// Something is to be said to the server, or the node is gone.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    names: HashMap<Arc<str>, Channel>,
    /// Names whose channel is to be left or entered.
    changes: Vec<Arc<str>>,
    next_id: u64,
    closed: bool,
}

#[derive(Debug, Default)]
struct Channel {
    hints: Vec<(u64, Hints)>,
    /// The server was asked for it, on the present connection.
    asked: bool,
    /// How many requests for it the server has not confirmed.
    unconfirmed: u32,
    listening: bool,
}

/// What the server is to be asked for.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) enter: Vec<String>,
    pub(super) leave: Vec<String>,
}

impl Board {
    pub(in crate::node::redis) fn new(key_prefix: &str) -> Arc<Self> {
        let prefix = format!("{key_prefix}:free:");
        Arc::new(Self { prefix, state: Mutex::default(), changed: Notify::new() })
    }

    pub(in crate::node::redis) fn add(
        self: &Arc<Self>,
        name: &Arc<str>,
        hints: &Hints,
    ) -> Subscription {
        let (id, listening) = {
            let mut guard = self.state();
            let state = &mut *guard;
            let id = state.next_id;
            state.next_id += 1;
            let channel = state.names.entry(Arc::clone(name)).or_default();
            channel.hints.push((id, hints.clone()));
            if channel.hints.len() == 1 {
                state.changes.push(Arc::clone(name));
            }
            (id, channel.listening)
        };
        if listening {
            hints.send(Hint::Listening);
        }
        self.changed.notify_one();
        Subscription::new(Listening { board: Arc::clone(self), name: Arc::clone(name), id })
    }

    /// The node is gone.
    pub(in crate::node::redis) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state().names.values().all(|channel| channel.hints.is_empty())
    }

    /// What the server is to be told since the last call.
    pub(super) fn changes(&self) -> Changes {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut changes = Changes::default();
        for name in std::mem::take(&mut state.changes) {
            let Some(channel) = state.names.get_mut(&name) else { continue };
            let wanted = !channel.hints.is_empty();
            if wanted && !channel.asked {
                channel.asked = true;
                channel.unconfirmed += 1;
                changes.enter.push(format!("{}{name}", self.prefix));
            } else if !wanted {
                if channel.asked {
                    changes.leave.push(format!("{}{name}", self.prefix));
                }
                (channel.asked, channel.listening) = (false, false);
                // The answer to an earlier request is still to come, and is not the next one's.
                if channel.unconfirmed == 0 {
                    state.names.remove(&name);
                }
            }
        }
        changes
    }

    /// A new connection knows of nothing; an old one tells nothing any more.
    pub(super) fn reset(&self) {
        let mut deaf = Vec::new();
        {
            let mut guard = self.state();
            let state = &mut *guard;
            state.names.retain(|_, channel| !channel.hints.is_empty());
            for channel in state.names.values_mut() {
                if channel.listening {
                    deaf.extend(channel.hints.iter().map(|(_, hints)| hints.clone()));
                }
                (channel.asked, channel.unconfirmed, channel.listening) = (false, 0, false);
            }
            state.changes = state.names.keys().cloned().collect();
        }
        for hints in deaf {
            hints.send(Hint::Deaf);
        }
    }

    /// What the server says by itself.
    pub(super) fn on_push(&self, push: &PushInfo) {
        let Some(name) = push.data.first().map(text) else { return };
        let Some(name) = name.strip_prefix(&*self.prefix) else { return };
        let (told, hint) = {
            let mut state = self.state();
            let Some(channel) = state.names.get_mut(name) else { return };
            let hint = match push.kind {
                PushKind::Subscribe => {
                    channel.unconfirmed = channel.unconfirmed.saturating_sub(1);
                    if channel.unconfirmed > 0 {
                        return;
                    }
                    if !channel.asked {
                        if channel.hints.is_empty() {
                            state.names.remove(name);
                        }
                        return;
                    }
                    channel.listening = true;
                    Hint::Listening
                }
                PushKind::Message => Hint::Freed { listening: push.data.get(1).and_then(count) },
                _ => return,
            };
            (channel.hints.clone(), hint)
        };
        for (_, hints) in told {
            hints.send(hint);
        }
    }

    fn state(&self) -> Guard<'_, State> {
        crate::sync::lock(&self.state)
    }
}

fn count(payload: &Value) -> Option<usize> {
    text(payload).parse().ok()
}

struct Listening {
    board: Arc<Board>,
    name: Arc<str>,
    id: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut guard = self.board.state();
        let state = &mut *guard;
        let Some(channel) = state.names.get_mut(&self.name) else { return };
        let gone = channel.hints.iter().position(|(id, _)| *id == self.id);
        let hints = gone.map(|at| channel.hints.swap_remove(at));
        if channel.hints.is_empty() {
            state.changes.push(Arc::clone(&self.name));
        }
        drop(guard);
        drop(hints);
        self.board.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(board: &Board, kind: PushKind) {
        let data = vec![Value::BulkString(b"p:free:x".to_vec()), Value::Int(1)];
        board.on_push(&PushInfo { kind, data });
    }

    #[test]
    fn the_answer_to_a_request_that_was_taken_back_says_nothing_of_the_next_one() {
        let board = Board::new("p");
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&told);
        let hints = Hints::from_fn(move |hint| hears.lock().unwrap().push(hint));
        let first = board.add(&"x".into(), &hints);
        assert_eq!(board.changes().enter, ["p:free:x"]);
        drop(first);
        assert_eq!(board.changes().leave, ["p:free:x"]);
        let _second = board.add(&"x".into(), &hints);
        assert_eq!(board.changes().enter, ["p:free:x"]);
        say(&board, PushKind::Subscribe);
        assert!(told.lock().unwrap().is_empty());
        say(&board, PushKind::Unsubscribe);
        say(&board, PushKind::Subscribe);
        assert_eq!(told.lock().unwrap()[..], [Hint::Listening]);
    }

    #[test]
    fn a_name_that_was_left_is_forgotten_once_its_answers_have_come() {
        let board = Board::new("p");
        let hints = Hints::from_fn(|hint| panic!("{hint:?}"));
        let early = board.add(&"x".into(), &hints);
        drop(early);
        assert!(board.is_idle());
        board.changes();
        assert!(board.state().names.is_empty(), "it was never asked for");
        let first = board.add(&"x".into(), &hints);
        board.changes();
        drop(first);
        board.changes();
        assert!(board.is_idle());
        say(&board, PushKind::Subscribe);
        assert!(board.state().names.is_empty());
    }
}
