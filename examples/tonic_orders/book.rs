//! Orders and stock. They stand for a database: they know nothing of locks, but check tokens.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tower_redlock::FencingToken;

use crate::{orders::Event, overlap::Room};

/// What passes between reading a stock and writing it: two at once would both start from the same
/// number, and one would be forgotten.
const THINKING: Duration = Duration::from_millis(2);

#[derive(Default)]
pub(crate) struct Book {
    orders: Mutex<HashMap<u32, Arc<Order>>>,
    items: Mutex<HashMap<String, Arc<Item>>>,
    stale: Arc<AtomicU64>,
}

#[derive(Default)]
pub(crate) struct Order {
    pub(crate) room: Room,
    page: Mutex<Page>,
    stale: Arc<AtomicU64>,
}

#[derive(Default)]
struct Page {
    lines: Vec<Line>,
    /// The token of the last write.
    token: FencingToken,
}

#[derive(Default)]
struct Item {
    room: Room,
    /// How much was taken, and the token of the last write.
    taken: Mutex<(u64, FencingToken)>,
}

#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) item: String,
    pub(crate) quantity: u32,
}

/// A holder with a newer token has written already: this one was overtaken.
pub(crate) struct StaleToken;

impl Book {
    pub(crate) fn order(&self, id: u32) -> Arc<Order> {
        let mut orders = lock(&self.orders);
        let new = || Order { stale: Arc::clone(&self.stale), ..Order::default() };
        Arc::clone(orders.entry(id).or_insert_with(|| Arc::new(new())))
    }

    /// Takes goods from the stock: reads, thinks, and writes.
    pub(crate) async fn take(
        &self,
        item: &str,
        quantity: u32,
        token: FencingToken,
    ) -> Result<(), StaleToken> {
        let item = Arc::clone(lock(&self.items).entry(item.to_owned()).or_default());
        let _visit = item.room.enter();
        let (before, _) = *lock(&item.taken);
        tokio::time::sleep(THINKING).await;
        let mut row = lock(&item.taken);
        if token <= row.1 {
            self.stale.fetch_add(1, Relaxed);
            return Err(StaleToken);
        }
        *row = (before + u64::from(quantity), token);
        Ok(())
    }

    /// How often two calls were at work on one order or on one item.
    pub(crate) fn overlaps(&self) -> u64 {
        let orders = lock(&self.orders).values().map(|order| order.room.overlaps()).sum::<u64>();
        orders + lock(&self.items).values().map(|item| item.room.overlaps()).sum::<u64>()
    }

    /// How many writes came with a token that was not above the last one.
    pub(crate) fn stale_writes(&self) -> u64 {
        self.stale.load(Relaxed)
    }

    /// How many lines all orders have, and how much is in them.
    pub(crate) fn ordered(&self) -> (u64, u64) {
        let orders = lock(&self.orders);
        orders.values().fold((0, 0), |(count, sum), order| {
            let page = lock(&order.page);
            let quantities = page.lines.iter().map(|line| u64::from(line.quantity));
            (count + page.lines.len() as u64, sum + quantities.sum::<u64>())
        })
    }

    /// How much was taken from the stock.
    pub(crate) fn taken(&self) -> u64 {
        lock(&self.items).values().map(|item| lock(&item.taken).0).sum()
    }
}

impl Order {
    /// `INSERT … WHERE token < $token`: each lock brings a greater token than the one before.
    /// Returns how many lines there are then.
    pub(crate) fn add(&self, line: Line, token: FencingToken) -> Result<u32, StaleToken> {
        let mut page = lock(&self.page);
        if token <= page.token {
            self.stale.fetch_add(1, Relaxed);
            return Err(StaleToken);
        }
        page.token = token;
        page.lines.push(line);
        Ok(count(&page))
    }

    /// A line, and how many there are at this moment.
    pub(crate) fn line(&self, index: usize) -> Option<Event> {
        let page = lock(&self.page);
        let Line { item, quantity } = page.lines.get(index)?.clone();
        let line = u32::try_from(index + 1).ok()?;
        Some(Event { line, lines: count(&page), item, quantity })
    }
}

fn count(page: &Page) -> u32 {
    u32::try_from(page.lines.len()).unwrap_or(u32::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
