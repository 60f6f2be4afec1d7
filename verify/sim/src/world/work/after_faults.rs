//! Requests after the faults: every process acquires every name, and no request starves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tower_redlock::{Lock, LockError, Redlock};

use super::{NAMES, POOL};
use crate::{
    oracle::{HeldSlot, Oracle, Promise},
    world::{machine::Machines, process::Process},
};

/// Timeout for a request of a name that others use.
const PATIENCE: Duration = Duration::from_secs(40);

/// A name, or a number of slots of it.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    name: &'static str,
    slots: Option<u32>,
}

impl Wanted {
    async fn acquire(self, redlock: &Redlock) -> Result<Lock, LockError> {
        let mut request = redlock.lock(self.name).wait(PATIENCE);
        if let Some(slots) = self.slots {
            request = request.slots(slots);
        }
        request.await
    }

    /// Returns the number of tasks of a process that request it repeatedly. With the task that is
    /// checked, there is one for each slot, so that without turns one process could keep all slots:
    /// a request of a process that has none waiting finds the slot that was just released.
    fn eager(self) -> u32 {
        self.slots.map_or(2, |slots| slots - 1)
    }
}

/// Each process gets each name, and a slot.
pub(in crate::world) async fn every_process_acquires(machines: &Machines, oracle: &Oracle) {
    let mut waiting = Vec::new();
    for process in machines.processes() {
        let Some(redlock) = &process.redlock else { continue };
        let names = NAMES.map(|name| Wanted { name, slots: None });
        let slots = process.shared.slots();
        let slot = slots.map(|_| Wanted { name: POOL, slots });
        for wanted in names.into_iter().chain(slot) {
            let (redlock, client) = (redlock.clone(), process.shared.client);
            let (tell, told) = tokio::sync::oneshot::channel();
            process.gate.run(async move {
                let got = wanted.acquire(&redlock).await;
                // Fails if the run is over.
                let _ = tell.send(got.map(drop));
            });
            waiting.push((client, wanted.name, told));
        }
    }
    for (client, name, told) in waiting {
        match tokio::time::timeout(PATIENCE + Duration::from_secs(2), told).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => {
                oracle.broken(Promise::Liveness, format!("c{client} does not get {name}: {error}"));
            }
            _ => {
                oracle
                    .broken(Promise::Ends, format!("c{client}'s request for {name} does not end"));
            }
        }
    }
    oracle.event("everyone got every name");
}

/// A name for which all processes contend continuously.
const HOT: &str = "hot";
/// A name for whose slots all processes contend continuously.
const HOT_SLOTS: &str = "hot-slots";
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

/// Requests a name for which others contend continuously, and checks that no request is overtaken
/// too often.
pub(in crate::world) async fn no_request_starves(machines: &Machines, oracle: &Oracle) {
    let name = |_: &Process| Some(Wanted { name: HOT, slots: None });
    contend(machines, oracle, name, OVERTAKEN).await;
}

/// Does the same for slots.
pub(in crate::world) async fn no_request_for_slots_starves(machines: &Machines, oracle: &Oracle) {
    let slots = |process: &Process| {
        let slots = process.shared.slots();
        slots.map(|_| Wanted { name: HOT_SLOTS, slots })
    };
    contend(machines, oracle, slots, OVERTAKEN_SLOTS).await;
}

async fn contend(
    machines: &Machines,
    oracle: &Oracle,
    wanted: impl Fn(&Process) -> Option<Wanted>,
    overtaken: usize,
) {
    let over = Arc::new(AtomicBool::new(false));
    let mut waiting = Vec::new();
    for process in machines.processes() {
        let (Some(redlock), Some(wanted)) = (&process.redlock, wanted(process)) else { continue };
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
    for (Contender { client, wanted: Wanted { name, .. }, .. }, told) in waiting {
        match tokio::time::timeout(PATIENCE, told).await {
            Ok(Ok(most)) if most <= overtaken => {}
            Ok(Ok(most)) => {
                let text =
                    format!("a request of c{client} for {name} waited for {most} holds of others");
                oracle.broken(Promise::Liveness, text);
            }
            _ => {
                let text =
                    format!("c{client} does not get {name}, which others hold again and again");
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
        let guard = match wanted.slots {
            Some(slots) => {
                let slot = HeldSlot { name: wanted.name, number: lock.slot(), slots };
                oracle.slot_held(*client, slot, token, is_held)
            }
            None => oracle.held(*client, &[wanted.name], token, is_held),
        };
        tokio::time::sleep(HELD).await;
        guard.check();
        Ok(())
    }

    /// Returns the number of holds of what it wants.
    fn holds(&self) -> usize {
        let Wanted { name, slots } = self.wanted;
        slots.map_or_else(
            || self.oracle.holds_of(name),
            |slots| self.oracle.holds_of_slots(name, slots),
        )
    }
}
