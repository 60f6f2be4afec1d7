//! Slots of a name, by handle and around work, and the control, which counts holders.

use std::{sync::Arc, time::Duration};

use tower_redlock::{LockContext, LockError, Redlock, time::Clock};

use super::{
    Checked, POOL,
    locks::{BOUND, hold, hold_time},
};
use crate::{
    oracle::{HeldSlot, HoldGuard, Promise},
    rng::Rng,
    world::{naive::Naive, process::Shared},
};

/// Requests slots again and again. One request in ten is dropped before or after its grant.
pub(super) async fn hold_slots(shared: Arc<Shared>, redlock: Redlock, slots: u32, mut rng: Rng) {
    while !shared.is_stopping() {
        let pause = if rng.chance(70) { rng.millis(0, 20) } else { rng.millis(20, 400) };
        shared.sleep(pause).await;
        let wait = Duration::from_millis([0, 0, 80, 800, 3_000][rng.index(5)]);
        let time = hold_time(&shared, &mut rng);
        let request = Request { shared: &shared, redlock: &redlock, slots, wait, time };
        if rng.chance(10) {
            let patience = rng.millis(0, 60);
            if tokio::time::timeout(patience, request.by_handle(false)).await.is_err() {
                shared.oracle.event(format!("c{} drops a request for a slot", shared.client));
            }
            continue;
        }
        let (asked, pauses) = (shared.oracle.now(), shared.gate.pauses());
        let (result, held_for) = if rng.chance(50) {
            request.around_work().await
        } else {
            request.by_handle(rng.chance(50)).await
        };
        let took = Duration::from_micros(shared.oracle.now() - asked).saturating_sub(held_for);
        request.judge(&result, took, pauses == shared.gate.pauses());
    }
}

struct Request<'a> {
    shared: &'a Shared,
    redlock: &'a Redlock,
    slots: u32,
    wait: Duration,
    /// Time for which the slot is held.
    time: Duration,
}

/// A result, and the time for which the slot was held.
type Ended = (Result<(), LockError>, Duration);

impl Request<'_> {
    async fn around_work(&self) -> Ended {
        let Self { shared, redlock, slots, wait, time } = *self;
        let mut held_for = Duration::ZERO;
        let held = &mut held_for;
        let work = |context: LockContext| {
            let guard = self.held(&context);
            let from = shared.oracle.now();
            let work = async move {
                hold(shared, &guard, time).await;
                *held = Duration::from_micros(shared.oracle.now() - from);
            };
            Checked::new(context, &shared.oracle, work)
        };
        let result = redlock.lock(POOL).slots(slots).wait(wait).run(work).await;
        (result, held_for)
    }

    async fn by_handle(&self, awaits_release: bool) -> Ended {
        let Self { shared, redlock, slots, wait, time } = *self;
        let lock = match redlock.lock(POOL).slots(slots).wait(wait).await {
            Ok(lock) => lock,
            Err(error) => return (Err(error), Duration::ZERO),
        };
        let from = shared.oracle.now();
        let guard = self.held(&lock.context());
        hold(shared, &guard, time).await;
        let held_for = Duration::from_micros(shared.oracle.now() - from);
        drop(guard);
        if awaits_release {
            let slot = lock.slot();
            let released = lock.release().await;
            let client = shared.client;
            shared.oracle.event(format!("c{client} releases slot {slot:?}: {released:?}"));
        }
        (Ok(()), held_for)
    }

    fn held(&self, context: &LockContext) -> HoldGuard {
        let slot = HeldSlot { name: POOL, number: context.slot(), slots: self.slots };
        let (belief, token) = (context.clone(), context.fencing_token().get());
        let is_held = move || !belief.remaining().is_zero();
        self.shared.oracle.slot_held(self.shared.client, slot, token, is_held)
    }

    /// Checks that the request ended in time, unless the process was paused.
    fn judge(&self, result: &Result<(), LockError>, took: Duration, ran: bool) {
        let Self { shared: Shared { client, oracle, .. }, slots, wait, .. } = self;
        match result {
            Ok(()) => oracle.count("slots released"),
            Err(error) => {
                oracle.count("slots refused");
                oracle.event(format!("c{client} {POOL} after {took:?}: {error}"));
            }
        }
        let is_lost = matches!(result, Err(LockError::Lost { .. }));
        if took > *wait + BOUND && ran && !is_lost {
            let text = format!(
                "c{client}'s request for one of {slots} slots took {took:?}, with a wait of {wait:?}"
            );
            oracle.broken(Promise::Ends, text);
        }
    }
}

/// Holds what counts as a slot by the counts of a majority of servers.
pub(super) async fn count_holders(
    shared: Arc<Shared>,
    naive: Arc<Naive>,
    slots: u32,
    mut rng: Rng,
) {
    while !shared.is_stopping() {
        shared.sleep(rng.millis(0, 100)).await;
        let Some(lock) = naive.slot(POOL, slots, shared.ttl()).await else { continue };
        let (clock, until) = (naive.clock.clone(), lock.until);
        let slot = HeldSlot { name: POOL, number: None, slots };
        let guard = shared.oracle.slot_held(shared.client, slot, 0, move || clock.now() < until);
        let left = until.saturating_duration_since(naive.clock.now());
        hold(&shared, &guard, hold_time(&shared, &mut rng).min(left)).await;
        drop(guard);
        naive.release(&lock).await;
    }
}
