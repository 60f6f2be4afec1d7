use std::{
    sync::{Condvar, Mutex, PoisonError},
    thread::{self, ThreadId},
};

/// A mutex that a thread may enter again: a task that runs while the clock is moved may move it.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Who has it, and how often it entered.
    holder: Mutex<Option<(ThreadId, usize)>>,
    free: Condvar,
}

impl Turn {
    pub(super) fn enter(&self) -> Entered<'_> {
        let me = thread::current().id();
        // The condition variable needs the guard itself.
        let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &mut *holder {
                None => *holder = Some((me, 1)),
                Some((thread, depth)) if *thread == me => *depth += 1,
                Some(_) => {
                    holder = self.free.wait(holder).unwrap_or_else(PoisonError::into_inner);
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
        let mut holder = crate::sync::lock(&self.0.holder);
        if let Some((_, depth)) = &mut *holder {
            *depth -= 1;
            if *depth == 0 {
                *holder = None;
                self.0.free.notify_one();
            }
        }
    }
}
