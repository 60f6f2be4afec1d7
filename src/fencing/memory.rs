use std::{
    fmt,
    sync::{Arc, Mutex},
    task::Context,
};

use super::{
    FencingError,
    table::{Mark, Table},
};
use crate::{lock::WakerKey, resource::Resource, sync, token::FencingToken};

/// The newest token of each resource, shared by all services of a layer.
pub(super) struct Memory {
    table: Mutex<Table>,
}

impl Memory {
    pub(super) fn new(capacity: usize) -> Self {
        Self { table: Mutex::new(Table::new(capacity)) }
    }

    /// Lets a request in whose token is not older than the newest of any of its names.
    pub(super) fn admit(
        self: &Arc<Self>,
        resource: &Resource,
        token: FencingToken,
    ) -> Result<Visit, FencingError> {
        let mut woken = Vec::new();
        let names = resource.shared_names();
        let mut table = sync::lock(&self.table);
        // All of them are looked at first: a request that is turned away changes none.
        let newest = names.iter().filter_map(|name| table.look(name)).max();
        if let Some(newest) = newest.map(FencingToken::new).filter(|newest| *newest > token) {
            return Err(FencingError::Stale { token, newest });
        }
        let mut seat = |name| {
            let (place, mark) = table.begin(name, token.get(), &mut woken);
            Seat { place, mark, watch: WakerKey::default() }
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

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources = sync::lock(&self.table).len();
        f.debug_struct("Memory").field("resources", &resources).finish_non_exhaustive()
    }
}

/// A request that was let in, until it has ended.
pub(super) struct Visit {
    memory: Arc<Memory>,
    token: FencingToken,
    seats: Seats,
}

/// One name is by far the usual case, and then costs no allocation.
enum Seats {
    One(Seat),
    Many(Box<[Seat]>),
}

/// A request's part in one name of its resource.
struct Seat {
    place: usize,
    mark: Arc<Mark>,
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
    /// Registers a task to be woken when a newer token comes.
    pub(super) fn watch(&mut self, cx: &Context<'_>) {
        for Seat { mark, watch, .. } in self.seats.all_mut() {
            let waker = crate::sync::clone_waker(cx.waker());
            let replaced = sync::lock(mark.watchers()).register(watch, waker);
            drop(replaced);
        }
    }

    /// Whether a newer token has come.
    pub(super) fn overtaken(&self) -> Option<FencingError> {
        let newest = self.seats.all().iter().map(|seat| seat.mark.newest()).max();
        let newest = newest.map(FencingToken::new).filter(|newest| *newest > self.token)?;
        Some(FencingError::Overtaken { token: self.token, newest })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        for Seat { mark, watch, .. } in self.seats.all_mut() {
            let waker = sync::lock(mark.watchers()).remove(watch);
            drop(waker);
        }
        let mut table = sync::lock(&self.memory.table);
        for seat in self.seats.all() {
            table.end(seat.place);
        }
    }
}
