//! Empty lists for the actions of an event and for the commands that they send. A thread keeps them from event
//! to event: they are not allocated for each, and a lease that is held for long keeps none.

use std::cell::Cell;

use crate::quorum::{Action, LeaseCommand};

/// Commands and the nodes that they are for.
pub(super) type Commands = Vec<(usize, LeaseCommand)>;

/// Maximum number of elements in a kept list.
const MOST: usize = 64;

crate::sync::thread_local! {
    static ACTIONS: Cell<Vec<Action>> = const { Cell::new(Vec::new()) };
    static COMMANDS: Cell<Commands> = const { Cell::new(Vec::new()) };
}

/// Returns an empty list.
pub(super) fn actions() -> Vec<Action> {
    ACTIONS.try_with(Cell::take).unwrap_or_default()
}

/// Keeps an empty list for the next event of this thread.
pub(super) fn keep_actions(list: Vec<Action>) {
    debug_assert!(list.is_empty(), "actions are carried out");
    if list.capacity() <= MOST {
        let _ = ACTIONS.try_with(|kept| kept.set(list));
    }
}

/// Returns an empty list.
pub(super) fn commands() -> Commands {
    COMMANDS.try_with(Cell::take).unwrap_or_default()
}

/// Keeps an empty list for the next event of this thread.
pub(super) fn keep_commands(list: Commands) {
    debug_assert!(list.is_empty(), "commands are sent");
    if list.capacity() <= MOST {
        let _ = COMMANDS.try_with(|kept| kept.set(list));
    }
}
