//! Keys whose work runs once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use super::{Oracle, Promise};

type Belief = Arc<dyn Fn() -> bool + Send + Sync>;

#[derive(Default)]
pub(super) struct OnceKeys {
    /// Work in progress, by key and number.
    running: BTreeMap<(String, u64), (usize, Belief)>,
    done: BTreeSet<String>,
    /// The number of the latest work of each client, by key.
    latest: BTreeMap<(usize, String), u64>,
    next: u64,
}

impl fmt::Debug for OnceKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceKeys").field("done", &self.done).finish_non_exhaustive()
    }
}

/// Work of a key, until it is dropped.
#[derive(Debug)]
pub struct OnceGuard {
    oracle: Oracle,
    key: (String, u64),
}

impl Oracle {
    /// Records that the work of a key starts, under a lock that is valid while `belief` returns
    /// true.
    pub fn once_started(
        &self,
        client: usize,
        key: &str,
        belief: impl Fn() -> bool + Send + Sync + 'static,
    ) -> OnceGuard {
        self.event(format!("c{client} does {key}"));
        self.count("once");
        let belief: Belief = Arc::new(belief);
        let (is_done, others, number) = {
            let mut records = self.lock();
            records.once.next += 1;
            let number = records.once.next;
            let others = records.once.running.iter().filter(|((of, _), _)| of == key);
            let others: Vec<_> = others.map(|(_, other)| other.clone()).collect();
            records.once.running.insert((key.to_owned(), number), (client, belief));
            records.once.latest.insert((client, key.to_owned()), number);
            (records.once.done.contains(key), others, number)
        };
        if is_done {
            self.broken(Promise::Done, format!("c{client} does {key}, which is done"));
        }
        for (other, belief) in others {
            if belief() {
                self.broken(Promise::Once, format!("c{client} and c{other} do {key} at once"));
            }
        }
        OnceGuard { oracle: self.clone(), key: (key.to_owned(), number) }
    }

    /// Records that a client did the work of a key, and that a quorum recorded it. Work that
    /// started later is under a later lock, so the record of the earlier work must have been
    /// refused. Work that started earlier was checked at the start of this one.
    pub fn once_done(&self, client: usize, key: &str) {
        self.event(format!("c{client} has done {key}"));
        let others = {
            let mut records = self.lock();
            records.once.done.insert(key.to_owned());
            let own = records.once.latest.get(&(client, key.to_owned())).copied();
            let is_later = |number: u64| own.is_none_or(|own| number > own);
            let others = records.once.running.iter();
            let others = others.filter(|((of, number), _)| of == key && is_later(*number));
            others.map(|(_, other)| other.clone()).collect::<Vec<_>>()
        };
        for (other, belief) in others {
            if belief() {
                let text = format!("c{client} has done {key}, while c{other} does it");
                self.broken(Promise::Done, text);
            }
        }
    }

    pub(super) fn once_gone(&self, client: usize) {
        self.lock().once.running.retain(|_, (of, _)| *of != client);
    }
}

impl Drop for OnceGuard {
    fn drop(&mut self) {
        self.oracle.lock().once.running.remove(&self.key);
    }
}
