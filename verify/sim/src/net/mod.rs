//! The simulated network, with the servers at one end of it.
//!
//! One queue has all messages in flight. Each connection delivers in order in both directions, as
//! TCP does, and connections overtake each other. Messages that meet a partition are kept, and
//! resent after it, also as TCP does. So commands may arrive long after the client has abandoned
//! them.

mod conn;
mod deliver;
mod faults;
mod link;
mod server_host;
mod stream;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use self::{conn::Conn, deliver::Event, link::Link};
pub use self::{
    faults::{LAG, Return},
    link::Pace,
    server_host::{EPOCH, Power, ServerHost},
    stream::SimConnector,
};
use crate::{redis::ConnId, rng::Rng, trace::Trace};

/// The network of a run. Clones are the same network.
#[derive(Clone)]
pub struct Net {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Notify,
    start: Instant,
    trace: Trace,
}

pub(super) struct State {
    queue: BTreeMap<(u64, u64), Event>,
    next: u64,
    conns: BTreeMap<ConnId, Conn>,
    /// The links by client, then by server.
    links: Vec<Vec<Link>>,
    servers: Vec<ServerHost>,
    /// The running process of each client, and whether its messages are lost.
    clients: Vec<Process>,
    rng: Rng,
    /// Woken after the state is unlocked.
    wakers: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Process {
    generation: u64,
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}

impl Net {
    /// Creates a network between a number of clients and these servers, at the current moment.
    pub fn new(clients: usize, servers: Vec<ServerHost>, rng: Rng, trace: Trace) -> Self {
        let links = vec![vec![Link::default(); servers.len()]; clients];
        let state = State {
            queue: BTreeMap::new(),
            next: 0,
            conns: BTreeMap::new(),
            links,
            servers,
            clients: vec![Process::default(); clients],
            rng,
            wakers: Vec::new(),
        };
        let state = Mutex::new(state);
        let shared = Shared { state, changed: Notify::new(), start: Instant::now(), trace };
        Self { shared: Arc::new(shared) }
    }

    /// The time since the start, in µs.
    pub fn now(&self) -> u64 {
        let passed = Instant::now().saturating_duration_since(self.shared.start);
        u64::try_from(passed.as_micros()).unwrap_or(u64::MAX)
    }

    /// The trace of the run.
    pub fn trace(&self) -> &Trace {
        &self.shared.trace
    }

    /// Delivers messages forever.
    pub async fn run(self) {
        loop {
            let notified = self.shared.changed.notified();
            let next = self.deliver_due();
            let Some(next) = next else {
                notified.await;
                continue;
            };
            let until = self.shared.start + Duration::from_micros(next);
            tokio::select! {
                biased;
                () = notified => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Delivers messages that are due, and returns the time of the next delivery.
    fn deliver_due(&self) -> Option<u64> {
        let now = self.now();
        loop {
            let mut state = self.lock();
            let entry = state.queue.first_entry()?;
            let at = entry.key().0;
            if at > now {
                return Some(at);
            }
            let event = entry.remove();
            state.deliver(event, at, &self.shared.trace);
            self.unlock(state);
        }
    }

    /// Runs a closure with the state, and wakes the tasks that it made ready.
    fn with<T>(&self, run: impl FnOnce(&mut State, u64) -> T) -> T {
        let now = self.now();
        let mut state = self.lock();
        let result = run(&mut state, now);
        self.unlock(state);
        self.shared.changed.notify_one();
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[allow(clippy::unused_self)]
    fn unlock(&self, mut state: MutexGuard<'_, State>) {
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn schedule(&mut self, at: u64, event: Event) {
        let number = self.next;
        self.next += 1;
        self.queue.insert((at, number), event);
    }
}
