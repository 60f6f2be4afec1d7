//! The log of the handlers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    inside: Arc<Mutex<HashMap<String, Arc<AtomicUsize>>>>,
    overlaps: Arc<AtomicUsize>,
    entries: Arc<Mutex<Vec<(String, u64)>>>,
    last_poll: Arc<Mutex<Option<Instant>>>,
}

/// Marks a running handler for a key, until it is dropped.
pub(super) struct Inside(Arc<AtomicUsize>);

impl Log {
    pub(super) fn enter(&self, key: &str, token: u64) -> Inside {
        let inside = Arc::clone(self.inside.lock().unwrap().entry(key.to_owned()).or_default());
        if inside.fetch_add(1, Ordering::SeqCst) > 0 {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        self.entries.lock().unwrap().push((key.to_owned(), token));
        Inside(inside)
    }

    pub(super) fn entered(&self) -> usize {
        self.entries.lock().unwrap().len()
    }

    /// Number of handlers that began while another one was running.
    pub(super) fn overlaps(&self) -> usize {
        self.overlaps.load(Ordering::SeqCst)
    }

    pub(super) fn is_inside(&self, key: &str) -> bool {
        let inside = self.inside.lock().unwrap();
        inside.get(key).is_some_and(|count| count.load(Ordering::SeqCst) > 0)
    }

    /// Must be called in each poll of a handler that is polled repeatedly.
    pub(super) fn polled(&self) {
        *self.last_poll.lock().unwrap() = Some(Instant::now());
    }

    pub(super) fn last_poll(&self) -> Option<Instant> {
        *self.last_poll.lock().unwrap()
    }

    /// The tokens of a key, in the order of their arrival.
    pub(super) fn tokens(&self, key: &str) -> Vec<u64> {
        let entries = self.entries.lock().unwrap();
        entries.iter().filter(|(of, _)| of == key).map(|(_, token)| *token).collect()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
