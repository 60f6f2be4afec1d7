//! Requests after the faults: every process acquires every name, and no request starves.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tower_redlock::{LockError, Redlock};

use super::{
    POOL, REQUEST_WAIT,
    requests::{Kind, Wanted},
};
use crate::{
    oracle::{Oracle, Promise},
    world::{machine::Machines, process::Process},
};

impl Wanted {
    /// Returns the duration of a hold. Long ones of readers overlap, so that they refuse writers.
    fn hold_time(self) -> Duration {
        if self.names == [HOT_READ] && self.kind == Kind::Shared { HELD * 30 } else { HELD }
    }

    /// Returns the number of tasks of a process that request it repeatedly. With the task that is
    /// checked, there is one for each slot, so that without turns one process could keep all slots:
    /// a request of a process that has none waiting finds the slot that was just released.
    fn eager(self) -> u32 {
        match self.kind {
            Kind::Exclusive | Kind::Shared => 2,
            Kind::Slot(slots) => slots - 1,
            Kind::Leaving => 0,
        }
    }
}

/// Each process gets each name, also shared, and a slot.
pub(in crate::world) async fn every_process_acquires(machines: &Machines, oracle: &Oracle) {
    let mut waiting = Vec::new();
    for process in machines.members() {
        let Some(redlock) = &process.redlock else { continue };
        let all = process.shared.scenario.names().chunks(1);
        let alone = all.clone().map(|names| Wanted { names, kind: Kind::Exclusive });
        let slots = process.shared.slots();
        let slot = slots.map(|slots| Wanted { names: &[POOL], kind: Kind::Slot(slots) });
        let sharing = all.filter(|_| process.shared.scenario.shares);
        let sharing = sharing.map(|names| Wanted { names, kind: Kind::Shared });
        for wanted in alone.chain(slot).chain(sharing) {
            let (redlock, client) = (redlock.clone(), process.shared.client);
            let (sender, receiver) = tokio::sync::oneshot::channel();
            process.gate.run(async move {
                let got = wanted.request(&redlock).wait(REQUEST_WAIT).await;
                // Fails if the run is over.
                let _ = sender.send(got.map(drop));
            });
            waiting.push((client, wanted, receiver));
        }
    }
    for (client, wanted, receiver) in waiting {
        match tokio::time::timeout(REQUEST_WAIT + Duration::from_secs(2), receiver).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => {
                let text = format!("c{client} does not get {wanted}: {error}");
                oracle.broken(Promise::Liveness, text);
            }
            _ => {
                let text = format!("c{client}'s request for {wanted} does not end");
                oracle.broken(Promise::Ends, text);
            }
        }
    }
    oracle.event("everyone got every name");
}

/// A name for which all processes contend continuously.
const HOT: &str = "hot";
/// A name for whose slots all processes contend continuously.
const HOT_SLOTS: &str = "hot-slots";
/// A name that all processes want continuously, some of them to share it.
const HOT_SHARED: &str = "hot-shared";
/// A name that most processes share continuously.
const HOT_READ: &str = "hot-read";
/// Duration of a hold.
const HELD: Duration = Duration::from_millis(1);
/// Number of requests that are dropped soon, one after the other.
const LEAVING: u32 = 20;
/// Number of requests of each process that are checked, one after the other.
const REQUESTS: usize = 5;
/// Maximum number of holds by others while a request waits: two processes for 100 ms each, as they
/// may not know of the others yet, and then for a turn.
const OVERTAKEN: usize = 250;
/// Maximum number of holds of the request's slots by others while it waits: three times what was
/// measured (README). Without turns of slots, a client waits for as long as others ask for them.
const OVERTAKEN_SLOTS: usize = 120;
/// Maximum number of exclusive holds while a shared request waits, and the reverse: three times what
/// was measured (README). Without the mark of an exclusive request, it waits for as long as others
/// share the name.
const OVERTAKEN_SHARED: [usize; 2] = [150, 330];

/// Requests a name for which others contend continuously, and checks that no request is overtaken
/// too often.
pub(in crate::world) async fn no_request_starves(machines: &Machines, oracle: &Oracle) {
    let name = |_: &Process| vec![Wanted { names: &[HOT], kind: Kind::Exclusive }];
    contend(machines, oracle, name).await;
}

/// Does the same for slots.
pub(in crate::world) async fn no_request_for_slots_starves(machines: &Machines, oracle: &Oracle) {
    let slots = |process: &Process| {
        let slots = process.shared.slots();
        let wanted = slots.map(|slots| Wanted { names: &[HOT_SLOTS], kind: Kind::Slot(slots) });
        wanted.into_iter().collect()
    };
    contend(machines, oracle, slots).await;
}

/// Does the same for a name that is shared, while one process wants it alone and gives up again and again.
pub(in crate::world) async fn writers_that_leave_delay_nobody(
    machines: &Machines,
    oracle: &Oracle,
) {
    let kinds = |process: &Process| {
        let kinds = match process.shared.client % 3 {
            _ if !process.shared.scenario.shares => &[][..],
            0 => &[Kind::Leaving],
            _ => &[Kind::Shared],
        };
        kinds.iter().map(|kind| Wanted { names: &[HOT_READ], kind: *kind }).collect()
    };
    contend(machines, oracle, kinds).await;
}

/// Does the same for a name that is shared: of three processes one wants it alone, one wants to share
/// it, and one does both.
pub(in crate::world) async fn neither_kind_starves(machines: &Machines, oracle: &Oracle) {
    let kinds = |process: &Process| {
        let kinds = match process.shared.client % 3 {
            _ if !process.shared.scenario.shares => &[][..],
            0 => &[Kind::Exclusive],
            1 => &[Kind::Shared],
            _ => &[Kind::Exclusive, Kind::Shared],
        };
        kinds.iter().map(|kind| Wanted { names: &[HOT_SHARED], kind: *kind }).collect()
    };
    contend(machines, oracle, kinds).await;
}

async fn contend(machines: &Machines, oracle: &Oracle, wanted: impl Fn(&Process) -> Vec<Wanted>) {
    let over = Arc::new(AtomicBool::new(false));
    let gaps = Gaps::default();
    let mut waiting = Vec::new();
    let mut pace = 0;
    for process in machines.members() {
        let Some(redlock) = &process.redlock else { continue };
        for wanted in wanted(process) {
            pace = process.shared.scenario.pace.most;
            let contender = Contender {
                wanted,
                redlock: redlock.clone(),
                oracle: oracle.clone(),
                client: process.shared.client,
                gaps: gaps.clone(),
            };
            for _ in 0..wanted.eager() {
                process.gate.run(contender.clone().again_and_again(Arc::clone(&over)));
            }
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let counted = contender.clone();
            process.gate.run(async move {
                // Fails if the run is over.
                let _ = sender.send(match counted.wanted.kind {
                    Kind::Leaving => counted.comes_and_goes().await,
                    _ => counted.most_overtaken().await,
                });
            });
            waiting.push((contender, receiver));
        }
    }
    for (contender, receiver) in waiting {
        let (client, wanted) = (contender.client, contender.wanted);
        let problem = match tokio::time::timeout(REQUEST_WAIT, receiver).await {
            Ok(Ok(most)) if most <= contender.bound() => {
                oracle.event(format!("c{client} waited for {most} holds of {wanted}"));
                continue;
            }
            Ok(Ok(most)) => {
                format!("a request of c{client} for {wanted} waited for {most} holds of others")
            }
            _ => format!("c{client} does not get {wanted}, which others hold again and again"),
        };
        oracle.broken(Promise::Liveness, problem);
    }
    over.store(true, Ordering::Relaxed);
    let (longest, bound) = (gaps.longest(), longest_gap(pace));
    oracle.event(format!("the longest gap was {longest:?} of {bound:?}"));
    if longest > bound {
        let text = format!("requests waited for {longest:?} although nothing was held");
        oracle.broken(Promise::Liveness, text);
    }
    oracle.event("nobody starved");
}

/// Returns the maximum time for which nothing holds a name while requests wait for it, where a message
/// takes at most `pace`, in µs.
///
/// A release and its report, an attempt at the lead node and one at the others take three round trips; a
/// process has its turn 4 ms later, and pauses for up to a node timeout after a turn of its own. Three
/// times what was measured (README).
fn longest_gap(pace: u64) -> Duration {
    Duration::from_micros(20 * pace) + Duration::from_millis(150)
}

/// The time for which nothing holds a name, except slots, while requests wait for it.
#[derive(Clone, Debug, Default)]
struct Gaps(Arc<Mutex<GapState>>);

#[derive(Debug, Default)]
struct GapState {
    waiting: usize,
    holding: usize,
    since: Option<Instant>,
    longest: Duration,
}

/// A request that waits, or a holder, until it is dropped.
struct Counted {
    gaps: Gaps,
    count: fn(&mut GapState) -> &mut usize,
}

impl Gaps {
    fn begin(&self, count: fn(&mut GapState) -> &mut usize) -> Counted {
        self.change(|state| *count(state) += 1);
        Counted { gaps: self.clone(), count }
    }

    fn change(&self, change: impl FnOnce(&mut GapState)) {
        let state = &mut *self.0.lock().expect("no panic");
        change(state);
        if state.waiting > 0 && state.holding == 0 {
            state.since.get_or_insert_with(Instant::now);
        } else if let Some(since) = state.since.take()
            && state.holding > 0
        {
            state.longest = state.longest.max(since.elapsed());
        }
    }

    fn longest(&self) -> Duration {
        self.0.lock().expect("no panic").longest
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gaps.change(|state| *(self.count)(state) -= 1);
    }
}

#[derive(Clone, Debug)]
struct Contender {
    wanted: Wanted,
    redlock: Redlock,
    oracle: Oracle,
    client: usize,
    gaps: Gaps,
}

impl Contender {
    /// Makes requests that are dropped soon, mostly before they are granted. Returns the number of holds
    /// that they waited for, which does not count.
    async fn comes_and_goes(self) -> usize {
        for round in 1..=LEAVING {
            // It may be granted, refused or dropped.
            let _ = tokio::time::timeout(HELD * round, self.hold()).await;
            tokio::time::sleep(HELD * 20).await;
        }
        0
    }

    async fn again_and_again(self, over: Arc<AtomicBool>) {
        while !over.load(Ordering::Relaxed) {
            if self.hold().await.is_err() {
                tokio::time::sleep(HELD).await;
            }
        }
    }

    /// Returns the greatest number of holds by others while a request waited.
    async fn most_overtaken(self) -> usize {
        let mut most = 0;
        for _ in 0..REQUESTS {
            let before = self.holds();
            if let Err(error) = self.hold().await {
                let text = format!("c{} does not get {}: {error}", self.client, self.wanted);
                self.oracle.broken(Promise::Liveness, text);
            }
            most = most.max(self.holds() - before);
        }
        most
    }

    async fn hold(&self) -> Result<(), LockError> {
        let Self { wanted, redlock, oracle, client, gaps } = self;
        let is_counted = matches!(wanted.kind, Kind::Exclusive | Kind::Shared);
        let waits = is_counted.then(|| gaps.begin(|state| &mut state.waiting));
        let lock = wanted.request(redlock).wait(REQUEST_WAIT).await?;
        let _holds = is_counted.then(|| gaps.begin(|state| &mut state.holding));
        drop(waits);
        let guard = wanted.held(oracle, *client, &lock.context());
        tokio::time::sleep(wanted.hold_time()).await;
        guard.check();
        Ok(())
    }

    /// Returns the number of holds that may delay it: those of what it wants, and for a shared request
    /// the exclusive ones.
    fn holds(&self) -> usize {
        let Wanted { names, kind } = self.wanted;
        let name = names[0];
        match kind {
            Kind::Exclusive | Kind::Leaving => self.oracle.holds_of(name),
            Kind::Shared => self.oracle.exclusive_holds_of(name),
            Kind::Slot(slots) => self.oracle.holds_of_slots(name, slots),
        }
    }

    /// Returns the maximum number of holds of others while a request waits.
    fn bound(&self) -> usize {
        match self.wanted.kind {
            Kind::Slot(_) => OVERTAKEN_SLOTS,
            Kind::Shared => OVERTAKEN_SHARED[0],
            Kind::Exclusive if self.wanted.names == [HOT_SHARED] => OVERTAKEN_SHARED[1],
            Kind::Exclusive | Kind::Leaving => OVERTAKEN,
        }
    }
}
