//! Orders and stock. They represent a database that checks tokens, and detect two calls for one
//! order or item at the same time.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tower_redlock::FencingToken;

use super::generated::Event;
use crate::stories::overlap::OverlapCounter;

/// Time between reading a stock and writing it: two at once would both start from the same number.
const THINKING: Duration = Duration::from_millis(2);

#[derive(Default)]
pub(crate) struct Book {
    orders: Mutex<HashMap<u32, Arc<Order>>>,
    items: Mutex<HashMap<String, Arc<Item>>>,
    stale: Arc<AtomicU64>,
}

#[derive(Default)]
pub(crate) struct Order {
    pub(crate) users: OverlapCounter,
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
    users: OverlapCounter,
    /// The quantity taken, and the token of the last write.
    taken: Mutex<(u64, FencingToken)>,
}

#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) item: String,
    pub(crate) quantity: u32,
}

/// A holder with a newer token has already written.
pub(crate) struct StaleToken;

impl Book {
    pub(crate) fn order(&self, id: u32) -> Arc<Order> {
        let mut orders = lock(&self.orders);
        let new = || Order { stale: Arc::clone(&self.stale), ..Order::default() };
        Arc::clone(orders.entry(id).or_insert_with(|| Arc::new(new())))
    }

    /// Takes a quantity from the stock: reads, waits, and writes.
    pub(crate) async fn take(
        &self,
        item: &str,
        quantity: u32,
        token: FencingToken,
    ) -> Result<(), StaleToken> {
        let item = Arc::clone(lock(&self.items).entry(item.to_owned()).or_default());
        let _visit = item.users.enter();
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

    /// The number of calls that worked on an order or item beside another one.
    pub(crate) fn overlaps(&self) -> u64 {
        let orders = lock(&self.orders).values().map(|order| order.users.overlaps()).sum::<u64>();
        orders + lock(&self.items).values().map(|item| item.users.overlaps()).sum::<u64>()
    }

    /// The number of writes with a token that was not above the last one.
    pub(crate) fn stale_writes(&self) -> u64 {
        self.stale.load(Relaxed)
    }

    /// The number of lines of all orders, and their quantity.
    pub(crate) fn ordered(&self) -> (u64, u64) {
        let orders = lock(&self.orders);
        orders.values().fold((0, 0), |(count, sum), order| {
            let page = lock(&order.page);
            let quantities = page.lines.iter().map(|line| u64::from(line.quantity));
            (count + page.lines.len() as u64, sum + quantities.sum::<u64>())
        })
    }

    /// The quantity taken from the stock.
    pub(crate) fn taken(&self) -> u64 {
        lock(&self.items).values().map(|item| lock(&item.taken).0).sum()
    }
}

impl Order {
    /// As `INSERT … WHERE token < $token`. Returns the number of lines.
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

    /// A line, with the present number of lines.
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
    mutex.lock().unwrap()
}
