//! The names that this process waits for, and the subscriptions to their releases.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
    time::Duration,
};

use super::{
    fairness::{Streaks, Turn},
    release_watch::ReleaseWatch,
};
use crate::{
    lock::watchers::Watch,
    node::{HintSink, Hints, Node, Subscription},
    resource::Resource,
    time::{Timers, Timestamp},
};

/// Time for which subscriptions to a name outlast its last waiter, for the next one to use.
const LINGER: Duration = Duration::from_secs(3);

/// Minimum interval between sweeps of names without waiters.
const SWEEP: Duration = Duration::from_millis(500);

/// The names that this process waits for, and what listens for them on the nodes.
pub(crate) struct Wakeups {
    timers: Arc<Timers>,
    names: Mutex<Names>,
    /// Whether there are any: nearly always there are none.
    any: AtomicBool,
    streaks: Streaks,
    me: Weak<Self>,
}

#[derive(Debug, Default)]
struct Names {
    kept: HashMap<Arc<str>, Kept>,
    /// A sweep is scheduled.
    sweeping: bool,
}

#[derive(Debug)]
struct Kept {
    releases: Arc<ReleaseWatch>,
    subscriptions: Vec<Subscription>,
    waiting: usize,
    /// When the last waiter left.
    left: Timestamp,
}

impl Wakeups {
    pub(crate) fn new(timers: Arc<Timers>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            timers,
            names: Mutex::default(),
            any: AtomicBool::new(false),
            streaks: Streaks::default(),
            me: Weak::clone(me),
        })
    }

    /// This process was granted the names, and asked for them then.
    pub(crate) fn granted(&self, resource: &Resource, since: Timestamp) {
        let mut others = false;
        self.each_watched(resource, |releases| others |= releases.listening() > 1);
        if others {
            self.streaks.begin(resource, since, self.timers.clock().now());
        }
    }

    /// The names are being given back by whoever had them since then.
    pub(crate) fn returning(&self, resource: &Resource, since: Timestamp) {
        let now = self.timers.clock().now();
        self.each_watched(resource, |releases| releases.returning(now));
        self.streaks.returning(resource, since, now);
    }

    /// Calls with what the nodes tell of the names that are listened for.
    fn each_watched(&self, resource: &Resource, mut call: impl FnMut(&ReleaseWatch)) {
        if self.any.load(Ordering::Acquire) {
            let names = crate::sync::lock(&self.names);
            let kept = resource.shared_names().iter().filter_map(|name| names.kept.get(name));
            kept.for_each(|kept| call(&kept.releases));
        }
    }

    /// A node answered the release of names that this process had since then: whether somebody waits
    /// for one of them.
    pub(crate) fn returned(&self, resource: &Resource, awaited: bool, since: Timestamp) {
        self.streaks.returned(resource, awaited, (since, self.timers.clock().now()));
    }

    /// Whether it matters that a node gave such an answer.
    pub(crate) fn minds(&self, awaited: bool) -> bool {
        awaited || self.streaks.any()
    }

    /// Whether a lease may be handed on for the `nth` time, though others wait. `at_grant`: how many
    /// of this process stood in line when it was granted.
    pub(crate) fn is_in_turn(&self, resource: &Resource, nth: u32, at_grant: usize) -> bool {
        let turns = usize::try_from(nth).unwrap_or(usize::MAX) / at_grant.max(1);
        !self.streaks.any() || self.streaks.is_in_turn(resource, turns, self.timers.clock().now())
    }

    /// Whether the next in line is to pause before it asks the nodes.
    pub(crate) fn may_give_way(&self, resource: &Resource) -> bool {
        self.streaks.any() && self.streaks.turn(resource, self.timers.clock().now()) != Turn::Ours
    }

    pub(super) fn streaks(&self) -> &Streaks {
        &self.streaks
    }

    /// Listens for the names of a resource from now on.
    pub(super) fn wait(&self, resource: &Resource, nodes: &[Arc<dyn Node>]) -> Waiting {
        self.streaks.end(resource);
        let names = resource.shared_names().iter();
        let name_waits = names
            .map(|name| NameWait {
                releases: self.releases(name, nodes),
                watch: Watch::default(),
                told: 0,
            })
            .collect();
        Waiting { wakeups: Weak::clone(&self.me), resource: resource.clone(), name_waits }
    }

    fn releases(&self, name: &Arc<str>, nodes: &[Arc<dyn Node>]) -> Arc<ReleaseWatch> {
        let releases = {
            let mut names = crate::sync::lock(&self.names);
            if let Some(kept) = names.kept.get_mut(name) {
                kept.waiting += 1;
                return Arc::clone(&kept.releases);
            }
            let releases = Arc::new(ReleaseWatch::new(nodes.len(), Arc::clone(&self.timers)));
            let kept = Kept {
                releases: Arc::clone(&releases),
                subscriptions: Vec::new(),
                waiting: 1,
                left: Timestamp::ZERO,
            };
            names.kept.insert(Arc::clone(name), kept);
            self.any.store(true, Ordering::Release);
            releases
        };
        // Not with the names locked: a node may tell at once.
        let subscribe = |(i, node): (usize, &Arc<dyn Node>)| {
            let sink = Arc::clone(&releases) as Arc<dyn HintSink>;
            node.subscribe(name, Hints::to_watch(sink, i))
        };
        let subscriptions = nodes.iter().enumerate().map(subscribe).collect();
        // Nobody drops the entry before the one that waits has left.
        if let Some(kept) = crate::sync::lock(&self.names).kept.get_mut(name) {
            kept.subscriptions = subscriptions;
        }
        releases
    }

    fn leave(&self, name: &Arc<str>) {
        let now = self.timers.clock().now();
        let mut names = crate::sync::lock(&self.names);
        let Some(kept) = names.kept.get_mut(name) else { return };
        kept.waiting -= 1;
        kept.left = now;
        let is_first = kept.waiting == 0 && !names.sweeping;
        names.sweeping |= is_first;
        drop(names);
        if is_first {
            self.sweep_at(now + LINGER);
        }
    }

    fn sweep_at(&self, at: Timestamp) {
        self.timers.insert(at, Waker::from(Arc::new(Sweep(Weak::clone(&self.me)))));
    }

    fn sweep(&self) {
        let now = self.timers.clock().now();
        let mut names = crate::sync::lock(&self.names);
        let is_over = |kept: &Kept| kept.waiting == 0 && kept.left + LINGER <= now;
        let over: Vec<_> = names.kept.extract_if(|_, kept| is_over(kept)).collect();
        let idle = names.kept.values().filter(|kept| kept.waiting == 0);
        // Many names that are left one after the other are not swept one by one.
        let next = idle.map(|kept| kept.left + LINGER).min().map(|next| next.max(now + SWEEP));
        names.sweeping = next.is_some();
        self.any.store(!names.kept.is_empty(), Ordering::Release);
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

impl fmt::Debug for Wakeups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakeups").finish_non_exhaustive()
    }
}

/// The names that one request waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    wakeups: Weak<Wakeups>,
    resource: Resource,
    pub(super) name_waits: Vec<NameWait>,
}

/// One name that a request waits for.
#[derive(Debug)]
pub(super) struct NameWait {
    pub(super) releases: Arc<ReleaseWatch>,
    pub(super) watch: Watch,
    /// How much was told when the last try began.
    pub(super) told: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let wakeups = self.wakeups.upgrade();
        for (name, name_wait) in self.resource.shared_names().iter().zip(&mut self.name_waits) {
            name_wait.releases.forget(&mut name_wait.watch);
            if let Some(wakeups) = &wakeups {
                wakeups.leave(name);
            }
        }
    }
}
