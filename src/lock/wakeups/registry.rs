//! The names that this process waits for, and the subscriptions to their releases.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    task::{Wake, Waker},
    time::Duration,
};

use super::{
    turns::{CurrentTurn, LONGEST_STREAK, Moment},
    watches::{ReleaseWatch, SharedStreaks},
};
use crate::{
    lock::waker_set::WakerKey,
    node::{Hints, Node, Subscription},
    resource::Resource,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Timers, Timestamp},
};

/// Time for which subscriptions to a name outlast its last waiter, for the next one to use.
const SUBSCRIPTION_IDLE: Duration = Duration::from_secs(3);

/// Minimum interval between sweeps of names without waiters.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// The names that this process waits for, with their subscriptions and streaks.
pub(crate) struct Wakeups {
    timers: Arc<Timers>,
    names: Mutex<WatchedNames>,
    /// Whether there are any names. Usually there are none.
    any: AtomicBool,
    streaks: SharedStreaks,
    me: Weak<Self>,
}

#[derive(Debug, Default)]
struct WatchedNames {
    entries: HashMap<Arc<str>, SubscriptionEntry>,
    is_sweep_scheduled: bool,
}

#[derive(Debug)]
struct SubscriptionEntry {
    releases: Arc<ReleaseWatch>,
    subscriptions: Vec<Subscription>,
    /// Number of requests that wait for the name.
    waiting: usize,
    /// Time at which a waiter left last.
    left: Timestamp,
}

impl Wakeups {
    pub(crate) fn new(timers: Arc<Timers>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            timers,
            names: Mutex::default(),
            any: AtomicBool::new(false),
            streaks: SharedStreaks::default(),
            me: Weak::clone(me),
        })
    }

    /// Records that this process was granted the names by an attempt that began at `since`.
    pub(crate) fn granted(&self, resource: &Resource, since: Timestamp) {
        let mut others = false;
        self.each_watched(resource, |releases| others |= releases.listening() > 1);
        if others {
            let now = self.timers.clock().now();
            self.streaks.change(|streaks| streaks.begin(resource, since, now));
        }
    }

    /// Returns whether other processes listened to the names at their latest releases. If this
    /// process does not listen, every listener is another process.
    pub(crate) fn others_listen(&self, resource: &Resource) -> bool {
        let mut others = true;
        self.each_watched(resource, |releases| others = releases.listening() > 1);
        others
    }

    /// Returns the number of processes that listened at the latest release of a name that this process
    /// watches.
    pub(super) fn listening(&self, resource: &Resource) -> usize {
        let mut listening = 0;
        self.each_watched(resource, |releases| listening = listening.max(releases.listening()));
        listening
    }

    /// Records that the names, held since `since`, are about to be released.
    pub(crate) fn returning(&self, resource: &Resource, since: Timestamp, now: Timestamp) {
        self.each_watched(resource, |releases| releases.returning(now));
        if now.saturating_duration_since(since) >= LONGEST_STREAK {
            self.streaks.change(|streaks| streaks.returning(resource, since, now));
        }
    }

    /// Calls `call` with each watched name of the resource.
    fn each_watched(&self, resource: &Resource, mut call: impl FnMut(&ReleaseWatch)) {
        if self.any.load(Ordering::Acquire) {
            let names = crate::sync::lock(&self.names);
            let entries = resource.shared_names().iter().filter_map(|name| names.entries.get(name));
            entries.for_each(|entry| call(&entry.releases));
        }
    }

    /// Records a node's answer to the release of names that were held since `since`. `awaited` is
    /// true if another process waits for one of them.
    pub(crate) fn returned(&self, resource: &Resource, awaited: bool, since: Timestamp) {
        let now = self.timers.clock().now();
        self.streaks.answered(|streaks| streaks.returned(resource, awaited, since, now));
    }

    /// Returns whether [`returned`](Self::returned) has to be called for such an answer.
    pub(crate) fn tracks_release(&self, awaited: bool) -> bool {
        awaited || self.streaks.any()
    }

    /// Returns whether a lease may be handed on for the `nth` time although other processes wait.
    /// `at_grant` is the number of requests of this process in line at its grant.
    pub(crate) fn is_in_turn(&self, resource: &Resource, nth: u32, at_grant: usize) -> bool {
        let turns = usize::try_from(nth).unwrap_or(usize::MAX) / at_grant.max(1);
        let now = self.timers.clock().now();
        !self.streaks.any() || self.streaks.read(|streaks| streaks.is_in_turn(resource, turns, now))
    }

    /// Returns whether the next request in line has to pause before it asks the nodes.
    pub(crate) fn may_yield(&self, resource: &Resource) -> bool {
        let now = self.timers.clock().now();
        self.streaks.any()
            && self.streaks.read(|streaks| streaks.turn(resource, now)) != CurrentTurn::Ours
    }

    /// Records that another process has held the names.
    pub(crate) fn held_elsewhere(&self, resource: &Resource) {
        if self.streaks.any() {
            self.streaks.change(|streaks| streaks.end(resource));
        }
    }

    pub(super) fn streaks(&self) -> &SharedStreaks {
        &self.streaks
    }

    /// Subscribes to releases of the names of a resource.
    pub(super) fn wait(&self, resource: &Resource, nodes: &[Arc<dyn Node>]) -> ResourceWait {
        // Of several slots, other processes need not have held each.
        if !resource.is_choice() {
            self.held_elsewhere(resource);
        }
        let wait = |name| {
            let releases = self.releases(name, nodes);
            let turns_before = if resource.is_choice() { releases.turns() } else { Vec::new() };
            NameWait { releases, key: WakerKey::default(), seen: 0, left_out: None, turns_before }
        };
        let name_waits = resource.shared_names().iter().map(wait).collect();
        ResourceWait { wakeups: Weak::clone(&self.me), resource: resource.clone(), name_waits }
    }

    fn releases(&self, name: &Arc<str>, nodes: &[Arc<dyn Node>]) -> Arc<ReleaseWatch> {
        let releases = {
            let mut names = crate::sync::lock(&self.names);
            if let Some(entry) = names.entries.get_mut(name) {
                entry.waiting += 1;
                return Arc::clone(&entry.releases);
            }
            let releases = Arc::new(ReleaseWatch::new(nodes.len(), Arc::clone(&self.timers)));
            let entry = SubscriptionEntry {
                releases: Arc::clone(&releases),
                subscriptions: Vec::new(),
                waiting: 1,
                left: Timestamp::ZERO,
            };
            names.entries.insert(Arc::clone(name), entry);
            self.any.store(true, Ordering::Release);
            releases
        };
        // Called without the names locked, because a node may send a hint at once.
        let subscribe = |(i, node): (usize, &Arc<dyn Node>)| {
            let releases = Arc::clone(&releases);
            node.subscribe(name, Hints::from_fn(move |hint| releases.hint(i, &hint)))
        };
        let subscriptions = nodes.iter().enumerate().map(subscribe).collect();
        // A name with waiters is not swept.
        if let Some(entry) = crate::sync::lock(&self.names).entries.get_mut(name) {
            entry.subscriptions = subscriptions;
        }
        releases
    }

    fn leave(&self, name: &Arc<str>) {
        let now = self.timers.clock().now();
        let mut names = crate::sync::lock(&self.names);
        let Some(entry) = names.entries.get_mut(name) else { return };
        entry.waiting -= 1;
        entry.left = now;
        let is_first = entry.waiting == 0 && !names.is_sweep_scheduled;
        names.is_sweep_scheduled |= is_first;
        drop(names);
        if is_first {
            self.sweep_at(now + SUBSCRIPTION_IDLE);
        }
    }

    fn sweep_at(&self, at: Timestamp) {
        self.timers.insert(at, Waker::from(Arc::new(Sweep(Weak::clone(&self.me)))));
    }

    fn sweep(&self) {
        let now = self.timers.clock().now();
        let mut names = crate::sync::lock(&self.names);
        let is_over =
            |entry: &SubscriptionEntry| entry.waiting == 0 && entry.left + SUBSCRIPTION_IDLE <= now;
        let mut over: Vec<_> = names.entries.extract_if(|_, entry| is_over(entry)).collect();
        // Sorted, so that a simulation with the same seed repeats the order.
        over.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let idle = names.entries.values().filter(|entry| entry.waiting == 0);
        // Bounds the number of sweeps if waiters leave names one by one.
        let next = idle
            .map(|entry| entry.left + SUBSCRIPTION_IDLE)
            .min()
            .map(|next| next.max(now + SWEEP_INTERVAL));
        names.is_sweep_scheduled = next.is_some();
        self.any.store(!names.entries.is_empty(), Ordering::Release);
        drop(names);
        if let Some(next) = next {
            self.sweep_at(next);
        }
        drop(over);
    }
}

struct Sweep(Weak<Wakeups>);

impl Wake for Sweep {
    fn wake(self: Arc<Self>) {
        if let Some(wakeups) = self.0.upgrade() {
            wakeups.sweep();
        }
    }
}

opaque_debug!(Wakeups);

/// The names that a request waits for.
#[derive(Debug)]
pub(super) struct ResourceWait {
    wakeups: Weak<Wakeups>,
    resource: Resource,
    pub(super) name_waits: Vec<NameWait>,
}

/// One name that a request waits for.
#[derive(Debug)]
pub(super) struct NameWait {
    pub(super) releases: Arc<ReleaseWatch>,
    pub(super) key: WakerKey,
    /// Number of reports at the start of the last attempt.
    pub(super) seen: u64,
    /// Start of the last attempt at this one of several slots, if the last attempts were at others.
    pub(super) left_out: Option<Moment>,
    /// Number of turns at the start of the wait for one of several slots, by each node's reports.
    turns_before: Vec<usize>,
}

impl NameWait {
    /// Returns the start of the last attempt at the name. `last` is the start of the request's last attempt.
    pub(super) fn tried(&self, last: Option<Timestamp>) -> Moment {
        self.left_out.unwrap_or((last.unwrap_or(Timestamp::ZERO), self.seen))
    }

    /// Records that an attempt at the name begins.
    pub(super) fn begin(&mut self) {
        (self.seen, self.left_out) = (self.releases.reports(), None);
    }
}

impl ResourceWait {
    /// Returns the number of turns of others, by one node's reports: since this process released the
    /// name, or since it waits for one of several slots.
    pub(super) fn passed(&self, node: usize) -> usize {
        let waits = self.name_waits.iter();
        if self.resource.is_choice() {
            let since = |wait: &NameWait| {
                let turns = wait.releases.turns().get(node).copied().unwrap_or(0);
                turns.saturating_sub(wait.turns_before.get(node).copied().unwrap_or(0))
            };
            waits.map(since).sum()
        } else {
            waits.map(|wait| wait.releases.passed(node)).max().unwrap_or(0)
        }
    }
}

impl Drop for ResourceWait {
    fn drop(&mut self) {
        let wakeups = self.wakeups.upgrade();
        for (name, name_wait) in self.resource.shared_names().iter().zip(&mut self.name_waits) {
            name_wait.releases.unwatch(&mut name_wait.key);
            if let Some(wakeups) = &wakeups {
                wakeups.leave(name);
            }
        }
    }
}
