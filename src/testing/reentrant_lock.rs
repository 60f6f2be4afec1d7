//! A lock that its thread may acquire again.

use crate::{
    random::seeded,
    sync::{
        Condvar, Mutex, PoisonError,
        thread::{self, ThreadId},
    },
};

/// A mutex that its thread may lock again, as a task that runs while the clock is moved may move
/// the clock.
///
/// The thread that holds it draws its random numbers from the lock's seed.
#[derive(Debug)]
pub(super) struct ReentrantLock {
    state: Mutex<LockState>,
    free: Condvar,
}

#[derive(Debug)]
struct LockState {
    owner: Option<LockOwner>,
    /// The state of the random numbers while the lock is free.
    seed: u64,
}

#[derive(Debug)]
struct LockOwner {
    thread: ThreadId,
    /// Number of guards.
    depth: usize,
    /// The previous seed of the thread.
    before: Option<u64>,
}

impl ReentrantLock {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: Mutex::new(LockState { owner: None, seed }), free: Condvar::new() }
    }

    pub(super) fn lock(&self) -> ReentrantGuard<'_> {
        let me = thread::current().id();
        // The condition variable needs the guard itself.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &mut state.owner {
                None => {
                    let before = seeded::replace(Some(state.seed));
                    state.owner = Some(LockOwner { thread: me, depth: 1, before });
                }
                Some(owner) if owner.thread == me => owner.depth += 1,
                Some(_) => {
                    state = self.free.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            }
            return ReentrantGuard(self);
        }
    }
}

pub(super) struct ReentrantGuard<'a>(&'a ReentrantLock);

impl Drop for ReentrantGuard<'_> {
    fn drop(&mut self) {
        let mut state = crate::sync::lock(&self.0.state);
        let Some(owner) = &mut state.owner else { return };
        owner.depth -= 1;
        if owner.depth == 0 {
            let seed = seeded::replace(owner.before);
            state.owner = None;
            state.seed = seed.unwrap_or_default();
            self.0.free.notify_one();
        }
    }
}
