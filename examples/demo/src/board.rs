//! The counts and the current holders that the live view shows.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::http::{Response, StatusCode};
use tower_redlock::LockContext;

use crate::{ledger::THINKING, server::WAITED_MS};

#[derive(Default)]
pub(crate) struct Board {
    state: Mutex<BoardState>,
}

#[derive(Default)]
struct BoardState {
    counts: Counts,
    holders: BTreeMap<u64, Holder>,
    next_id: u64,
}

/// Work that runs under a lock.
#[derive(Clone)]
pub(crate) struct Holder {
    pub(crate) replica: &'static str,
    /// The lock, without keeping it.
    pub(crate) lock: LockContext,
}

impl Board {
    /// Shows a holder until the entry is dropped: at the end of the work, or when it is cancelled.
    pub(crate) fn enter(&self, replica: &'static str, lock: LockContext) -> Entry<'_> {
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.holders.insert(id, Holder { replica, lock });
        Entry { board: self, id }
    }

    pub(crate) fn holders(&self) -> Vec<Holder> {
        self.lock().holders.values().cloned().collect()
    }

    pub(crate) fn count<B>(&self, response: &Response<B>) {
        self.lock().counts.add(response);
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Entry<'a> {
    board: &'a Board,
    id: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.board.lock().holders.remove(&self.id);
    }
}

/// Numbers of requests by their outcome.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) ran: u64,
    /// Number of requests in `ran` that waited for at least one other request.
    pub(crate) waited: u64,
    pub(crate) longest_wait: Duration,
    pub(crate) held: u64,
    pub(crate) unavailable: u64,
    pub(crate) unknown: u64,
    pub(crate) other: u64,
}

impl Counts {
    pub(crate) fn add<B>(&mut self, response: &Response<B>) {
        match response.status() {
            StatusCode::OK => self.ran += 1,
            StatusCode::CONFLICT => self.held += 1,
            StatusCode::SERVICE_UNAVAILABLE => self.unavailable += 1,
            StatusCode::INTERNAL_SERVER_ERROR => self.unknown += 1,
            _ => self.other += 1,
        }
        let waited =
            response.headers().get(WAITED_MS).and_then(|ms| ms.to_str().ok()?.parse().ok());
        let waited = Duration::from_millis(waited.unwrap_or(0));
        if waited >= THINKING {
            self.waited += 1;
        }
        self.longest_wait = self.longest_wait.max(waited);
    }

    pub(crate) fn total(&self) -> u64 {
        self.ran + self.held + self.unavailable + self.unknown + self.other
    }
}
