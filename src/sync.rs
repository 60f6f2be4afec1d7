//! Mutexes whose poison is passed over.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. What the crate keeps behind mutexes is whole between any two statements, so a panic of
/// somebody else while it was locked left nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
