//! The newest token of each resource, and its running requests.

use std::{fmt, sync::Arc, task::Context};

use super::{
    FencingError,
    table::{NewestToken, TokenTable},
};
use crate::{
    lock::WakerKey,
    request_log::RequestLog,
    resource::Resource,
    sync::{self, Mutex},
    token::FencingToken,
};

/// The newest token of each resource, shared by all services of a layer.
pub(super) struct TokenMemory {
    table: Mutex<TokenTable>,
    log: RequestLog,
}

impl TokenMemory {
    pub(super) fn new(capacity: usize) -> Self {
        Self { table: Mutex::new(TokenTable::new(capacity)), log: RequestLog::default() }
    }

    /// Returns the budget of log lines about refused requests.
    pub(super) const fn log(&self) -> &RequestLog {
        &self.log
    }

    /// Admits a request whose token is not older than the newest of any of its names.
    pub(super) fn admit(
        self: &Arc<Self>,
        resource: &Resource,
        token: FencingToken,
    ) -> Result<Visit, FencingError> {
        let mut woken = Vec::new();
        let names = resource.shared_names();
        let mut table = sync::lock(&self.table);
        // All names are checked first, so that a refused request changes none of them.
        let newest = names.iter().filter_map(|name| table.look(name)).max();
        if let Some(newest) = newest.map(FencingToken::new).filter(|newest| *newest > token) {
            return Err(FencingError::Stale { token, newest });
        }
        let mut seat = |name: &Arc<str>| {
            let newest_token = table.begin(name, token.get(), &mut woken);
            Seat { name: Arc::clone(name), newest_token, watch: WakerKey::default() }
        };
        let seats = match names {
            [name] => Seats::One(seat(name)),
            names => Seats::Many(names.iter().map(seat).collect()),
        };
        drop(table);
        sync::wake_all(woken);
        Ok(Visit { memory: Arc::clone(self), token, seats })
    }
}

impl fmt::Debug for TokenMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources = sync::lock(&self.table).len();
        f.debug_struct("TokenMemory").field("resources", &resources).finish_non_exhaustive()
    }
}

/// An admitted request, until it has ended.
pub(super) struct Visit {
    memory: Arc<TokenMemory>,
    token: FencingToken,
    seats: Seats,
}

/// A single name, the usual case, needs no allocation.
enum Seats {
    One(Seat),
    Many(Box<[Seat]>),
}

/// The entry of a request under one name of its resource.
struct Seat {
    name: Arc<str>,
    newest_token: Arc<NewestToken>,
    watch: WakerKey,
}

impl Seats {
    fn all(&self) -> &[Seat] {
        match self {
            Self::One(seat) => std::slice::from_ref(seat),
            Self::Many(seats) => seats,
        }
    }

    fn all_mut(&mut self) -> &mut [Seat] {
        match self {
            Self::One(seat) => std::slice::from_mut(seat),
            Self::Many(seats) => seats,
        }
    }
}

impl Visit {
    /// Registers a task to be woken when a newer token arrives.
    pub(super) fn watch(&mut self, cx: &Context<'_>) {
        for Seat { newest_token, watch, .. } in self.seats.all_mut() {
            let waker = crate::sync::clone_waker(cx.waker());
            let replaced = sync::lock(newest_token.watchers()).register(watch, waker);
            drop(replaced);
        }
    }

    /// Returns an error if a newer token has arrived.
    pub(super) fn overtaken(&self) -> Option<FencingError> {
        let newest = self.seats.all().iter().map(|seat| seat.newest_token.newest()).max();
        let newest = newest.map(FencingToken::new).filter(|newest| *newest > self.token)?;
        Some(FencingError::Overtaken { token: self.token, newest })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        for Seat { newest_token, watch, .. } in self.seats.all_mut() {
            let waker = sync::lock(newest_token.watchers()).remove(watch);
            drop(waker);
        }
        let mut table = sync::lock(&self.memory.table);
        for seat in self.seats.all() {
            table.end(&seat.name);
        }
    }
}
