//! Slots of a name, by handle and around work, and the control, which counts holders.

use std::{sync::Arc, time::Duration};

use tower_redlock::{Redlock, time::Clock};

use super::{
    POOL,
    locks::{hold, hold_time},
    requests::{Attempt, Kind, Wanted},
};
use crate::{
    oracle::HeldSlot,
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
        let wanted = Wanted { names: &[POOL], kind: Kind::Slot(slots) };
        let attempt = Attempt { shared: &shared, wanted, wait, time };
        let request = wanted.request(&redlock);
        if rng.chance(10) {
            attempt.drop_after(rng.millis(0, 60), request).await;
            continue;
        }
        let (asked, pauses) = (shared.oracle.now(), shared.gate.pauses());
        let ended = if rng.chance(50) {
            attempt.around_work(request).await
        } else {
            let awaits_release = rng.chance(50);
            attempt.by_handle(request, || awaits_release).await
        };
        attempt.judge(&ended, asked, pauses);
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
