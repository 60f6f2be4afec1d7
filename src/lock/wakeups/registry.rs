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
    rows::{Rows, Turn},
    vigil::Vigil,
};
use crate::{
    lock::watchers::Watch,
    node::{HintSink, Hints, Node, Subscription},
    resource::Resource,
    time::{Timers, Timestamp},
};

/// For so long a name is listened for after the last that waited for it has gone: who comes next
/// finds the subscriptions standing.
const LINGER: Duration = Duration::from_secs(3);

/// So seldom it is looked for names that nobody waits for any more.
const SWEEP: Duration = Duration::from_millis(500);

/// The names that this process waits for, and what listens for them on the nodes.
pub(crate) struct Wakeups {
    timers: Arc<Timers>,
    names: Mutex<Names>,
    /// Whether there are any: nearly always there are none.
    any: AtomicBool,
    rows: Rows,
    me: Weak<Self>,
}

#[derive(Debug, Default)]
struct Names {
    kept: HashMap<Arc<str>, Kept>,
    /// A look at what may be dropped is due.
    sweeping: bool,
}

#[derive(Debug)]
struct Kept {
    vigil: Arc<Vigil>,
    subscriptions: Vec<Subscription>,
    waiting: usize,
    /// When the last one that waited left.
    left: Timestamp,
}

impl Wakeups {
    pub(crate) fn new(timers: Arc<Timers>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            timers,
            names: Mutex::default(),
            any: AtomicBool::new(false),
            rows: Rows::default(),
            me: Weak::clone(me),
        })
    }

    /// This process was granted the names, and asked for them then.
    pub(crate) fn granted(&self, resource: &Resource, since: Timestamp) {
        let mut others = false;
        self.each_vigil(resource, |vigil| others |= vigil.listening() > 1);
        if others {
            self.rows.begin(resource, since, self.timers.clock().now());
        }
    }

    /// The names are being given back by whoever had them since then.
    pub(crate) fn returning(&self, resource: &Resource, since: Timestamp) {
        let now = self.timers.clock().now();
        self.each_vigil(resource, |vigil| vigil.returning(now));
        self.rows.returning(resource, since, now);
    }

    /// Calls with what the nodes tell of the names that are listened for.
    fn each_vigil(&self, resource: &Resource, mut call: impl FnMut(&Vigil)) {
        if self.any.load(Ordering::Acquire) {
            let names = crate::sync::lock(&self.names);
            let kept = resource.shared_names().iter().filter_map(|name| names.kept.get(name));
            kept.for_each(|kept| call(&kept.vigil));
        }
    }

    /// A node answered the release of names that this process had since then: whether somebody waits
    /// for one of them.
    pub(crate) fn returned(&self, resource: &Resource, awaited: bool, since: Timestamp) {
        self.rows.returned(resource, awaited, (since, self.timers.clock().now()));
    }

    /// Whether it matters that a node gave such an answer.
    pub(crate) fn minds(&self, awaited: bool) -> bool {
        awaited || self.rows.any()
    }

    /// Whether a lease may be handed on for the `nth` time, though others wait. `at_grant`: how many
    /// of this process stood in line when it was granted.
    pub(crate) fn is_in_turn(&self, resource: &Resource, nth: u32, at_grant: usize) -> bool {
        let turns = usize::try_from(nth).unwrap_or(usize::MAX) / at_grant.max(1);
        !self.rows.any() || self.rows.is_in_turn(resource, turns, self.timers.clock().now())
    }

    /// Whether the next in line is to pause before it asks the nodes.
    pub(crate) fn may_give_way(&self, resource: &Resource) -> bool {
        self.rows.any() && self.rows.turn(resource, self.timers.clock().now()) != Turn::Ours
    }

    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Listens for the names of a resource from now on.
    pub(super) fn wait(&self, resource: &Resource, nodes: &[Arc<dyn Node>]) -> Waiting {
        self.rows.end(resource);
        let names = resource.shared_names().iter();
        let stakes = names
            .map(|name| Stake { vigil: self.vigil(name, nodes), watch: Watch::default(), told: 0 })
            .collect();
        Waiting { wakeups: Weak::clone(&self.me), resource: resource.clone(), stakes }
    }

    fn vigil(&self, name: &Arc<str>, nodes: &[Arc<dyn Node>]) -> Arc<Vigil> {
        let vigil = {
            let mut names = crate::sync::lock(&self.names);
            if let Some(kept) = names.kept.get_mut(name) {
                kept.waiting += 1;
                return Arc::clone(&kept.vigil);
            }
            let vigil = Arc::new(Vigil::new(nodes.len(), Arc::clone(&self.timers)));
            let kept = Kept {
                vigil: Arc::clone(&vigil),
                subscriptions: Vec::new(),
                waiting: 1,
                left: Timestamp::ZERO,
            };
            names.kept.insert(Arc::clone(name), kept);
            self.any.store(true, Ordering::Release);
            vigil
        };
        // Not with the names locked: a node may tell at once.
        let subscribe = |(i, node): (usize, &Arc<dyn Node>)| {
            let sink = Arc::clone(&vigil) as Arc<dyn HintSink>;
            node.subscribe(name, Hints::to_vigil(sink, i))
        };
        let subscriptions = nodes.iter().enumerate().map(subscribe).collect();
        // Nobody drops the entry before the one that waits has left.
        if let Some(kept) = crate::sync::lock(&self.names).kept.get_mut(name) {
            kept.subscriptions = subscriptions;
        }
        vigil
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

/// One request's stake in the names that it waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    wakeups: Weak<Wakeups>,
    resource: Resource,
    pub(super) stakes: Vec<Stake>,
}

/// The stake in one name.
#[derive(Debug)]
pub(super) struct Stake {
    pub(super) vigil: Arc<Vigil>,
    pub(super) watch: Watch,
    /// How much was told when the last try began.
    pub(super) told: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let wakeups = self.wakeups.upgrade();
        for (name, stake) in self.resource.shared_names().iter().zip(&mut self.stakes) {
            stake.vigil.forget(&mut stake.watch);
            if let Some(wakeups) = &wakeups {
                wakeups.leave(name);
            }
        }
    }
}
