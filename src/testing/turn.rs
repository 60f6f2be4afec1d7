use std::{
    sync::{Condvar, Mutex, PoisonError},
    thread::{self, ThreadId},
};

use crate::random::seeded;

/// A mutex that a thread may enter again: a task that runs while the clock is moved may move it.
///
/// Whoever has it draws random numbers of its seed.
#[derive(Debug)]
pub(super) struct Turn {
    state: Mutex<State>,
    free: Condvar,
}

#[derive(Debug)]
struct State {
    holder: Option<Holder>,
    /// Where the numbers of the seed go on, while nobody has the turn.
    seed: u64,
}

#[derive(Debug)]
struct Holder {
    thread: ThreadId,
    /// How often it entered.
    depth: usize,
    /// What the thread drew its numbers from before.
    before: Option<u64>,
}

impl Turn {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: Mutex::new(State { holder: None, seed }), free: Condvar::new() }
    }

    pub(super) fn enter(&self) -> Entered<'_> {
        let me = thread::current().id();
        // The condition variable needs the guard itself.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &mut state.holder {
                None => {
                    let before = seeded::replace(Some(state.seed));
                    state.holder = Some(Holder { thread: me, depth: 1, before });
                }
                Some(holder) if holder.thread == me => holder.depth += 1,
                Some(_) => {
                    state = self.free.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            }
            return Entered(self);
        }
    }
}

pub(super) struct Entered<'a>(&'a Turn);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut state = crate::sync::lock(&self.0.state);
        let Some(holder) = &mut state.holder else { return };
        holder.depth -= 1;
        if holder.depth == 0 {
            let seed = seeded::replace(holder.before);
            state.holder = None;
            state.seed = seed.unwrap_or_default();
            self.0.free.notify_one();
        }
    }
}
