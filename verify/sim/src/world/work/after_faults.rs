//! Requests after the faults: every process acquires every name, and no request starves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tower_redlock::{Lock, LockError, Redlock};

use super::{PATIENCE, POOL};
use crate::{
    oracle::{HeldSlot, Oracle, Promise},
    world::{machine::Machines, process::Process},
};

/// A name, alone or shared, or a slot of it.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exclusive,
    Shared,
    /// One of this number of slots.
    Slot(u32),
}

impl Wanted {
    async fn acquire(self, redlock: &Redlock) -> Result<Lock, LockError> {
        let request = redlock.lock(self.name).wait(PATIENCE);
        match self.kind {
            Kind::Exclusive => request.await,
            Kind::Shared => request.shared().await,
            Kind::Slot(slots) => request.slots(slots).await,
        }
    }

    /// Returns the number of tasks of a process that request it repeatedly. With the task that is
    /// checked, there is one for each slot, so that without turns one process could keep all slots:
    /// a request of a process that has none waiting finds the slot that was just released.
    fn eager(self) -> u32 {
        match self.kind {
            Kind::Exclusive | Kind::Shared => 2,
            Kind::Slot(slots) => slots - 1,
        }
    }
}

/// Each process gets each name, also shared, and a slot.
pub(in crate::world) async fn every_process_acquires(machines: &Machines, oracle: &Oracle) {
    let mut waiting = Vec::new();
    for process in machines.members() {
        let Some(redlock) = &process.redlock else { continue };
        let all = process.shared.scene.names();
        let names = all.map(|name| Wanted { name, kind: Kind::Exclusive });
        let slots = process.shared.slots();
        let slot = slots.map(|slots| Wanted { name: POOL, kind: Kind::Slot(slots) });
        let sharing = all.into_iter().filter(|_| process.shared.scene.shares);
        let sharing = sharing.map(|name| Wanted { name, kind: Kind::Shared });
        for wanted in names.into_iter().chain(slot).chain(sharing) {
            let (redlock, client) = (redlock.clone(), process.shared.client);
            let (tell, told) = tokio::sync::oneshot::channel();
            process.gate.run(async move {
                let got = wanted.acquire(&redlock).await;
                // Fails if the run is over.
                let _ = tell.send(got.map(drop));
            });
            waiting.push((client, wanted, told));
        }
    }
    for (client, Wanted { name, kind }, told) in waiting {
        match tokio::time::timeout(PATIENCE + Duration::from_secs(2), told).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => {
                let text = format!("c{client} does not get {name} ({kind:?}): {error}");
                oracle.broken(Promise::Liveness, text);
            }
            _ => {
                let text = format!("c{client}'s request for {name} ({kind:?}) does not end");
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
/// Duration of a hold.
const HELD: Duration = Duration::from_millis(1);
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
    let name = |_: &Process| vec![Wanted { name: HOT, kind: Kind::Exclusive }];
    contend(machines, oracle, name).await;
}

/// Does the same for slots.
pub(in crate::world) async fn no_request_for_slots_starves(machines: &Machines, oracle: &Oracle) {
    let slots = |process: &Process| {
        let slots = process.shared.slots();
        let wanted = slots.map(|slots| Wanted { name: HOT_SLOTS, kind: Kind::Slot(slots) });
        wanted.into_iter().collect()
    };
    contend(machines, oracle, slots).await;
}

/// Does the same for a name that is shared: of three processes one wants it alone, one wants to share
/// it, and one does both.
pub(in crate::world) async fn neither_kind_starves(machines: &Machines, oracle: &Oracle) {
    let kinds = |process: &Process| {
        let kinds = match process.shared.client % 3 {
            _ if !process.shared.scene.shares => &[][..],
            0 => &[Kind::Exclusive],
            1 => &[Kind::Shared],
            _ => &[Kind::Exclusive, Kind::Shared],
        };
        kinds.iter().map(|kind| Wanted { name: HOT_SHARED, kind: *kind }).collect()
    };
    contend(machines, oracle, kinds).await;
}

async fn contend(machines: &Machines, oracle: &Oracle, wanted: impl Fn(&Process) -> Vec<Wanted>) {
    let over = Arc::new(AtomicBool::new(false));
    let mut waiting = Vec::new();
    for process in machines.members() {
        let Some(redlock) = &process.redlock else { continue };
        for wanted in wanted(process) {
            let contender = Contender {
                wanted,
                redlock: redlock.clone(),
                oracle: oracle.clone(),
                client: process.shared.client,
            };
            for _ in 0..wanted.eager() {
                process.gate.run(contender.clone().again_and_again(Arc::clone(&over)));
            }
            let (tell, told) = tokio::sync::oneshot::channel();
            let counted = contender.clone();
            process.gate.run(async move {
                // Fails if the run is over.
                let _ = tell.send(counted.most_overtaken().await);
            });
            waiting.push((contender, told));
        }
    }
    for (contender, told) in waiting {
        let (client, Wanted { name, kind }) = (contender.client, contender.wanted);
        match tokio::time::timeout(PATIENCE, told).await {
            Ok(Ok(most)) if most <= contender.bound() => {
                oracle.event(format!("c{client} waited for {most} holds of {name} ({kind:?})"));
            }
            Ok(Ok(most)) => {
                let text = format!(
                    "a request of c{client} for {name} ({kind:?}) waited for {most} holds of others"
                );
                oracle.broken(Promise::Liveness, text);
            }
            _ => {
                let text = format!(
                    "c{client} does not get {name} ({kind:?}), which others hold again and again"
                );
                oracle.broken(Promise::Liveness, text);
            }
        }
    }
    over.store(true, Ordering::Relaxed);
    oracle.event("nobody starved");
}

#[derive(Clone, Debug)]
struct Contender {
    wanted: Wanted,
    redlock: Redlock,
    oracle: Oracle,
    client: usize,
}

impl Contender {
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
                let text = format!("c{} does not get {}: {error}", self.client, self.wanted.name);
                self.oracle.broken(Promise::Liveness, text);
            }
            most = most.max(self.holds() - before);
        }
        most
    }

    async fn hold(&self) -> Result<(), LockError> {
        let Self { wanted, redlock, oracle, client } = self;
        let lock = wanted.acquire(redlock).await?;
        let (belief, token) = (lock.context(), lock.fencing_token().get());
        let is_held = move || !belief.remaining().is_zero();
        let guard = match wanted.kind {
            Kind::Slot(slots) => {
                let slot = HeldSlot { name: wanted.name, number: lock.slot(), slots };
                oracle.slot_held(*client, slot, token, is_held)
            }
            Kind::Shared => oracle.shared_held(*client, wanted.name, token, is_held),
            Kind::Exclusive => oracle.held(*client, &[wanted.name], token, is_held),
        };
        tokio::time::sleep(HELD).await;
        guard.check();
        Ok(())
    }

    /// Returns the number of holds that may delay it: those of what it wants, and for a shared request
    /// the exclusive ones.
    fn holds(&self) -> usize {
        let Wanted { name, kind } = self.wanted;
        match kind {
            Kind::Exclusive => self.oracle.holds_of(name),
            Kind::Shared => self.oracle.exclusive_holds_of(name),
            Kind::Slot(slots) => self.oracle.holds_of_slots(name, slots),
        }
    }

    /// Returns the maximum number of holds of others while a request waits.
    fn bound(&self) -> usize {
        match self.wanted.kind {
            Kind::Slot(_) => OVERTAKEN_SLOTS,
            Kind::Shared => OVERTAKEN_SHARED[0],
            Kind::Exclusive if self.wanted.name == HOT_SHARED => OVERTAKEN_SHARED[1],
            Kind::Exclusive => OVERTAKEN,
        }
    }
}
