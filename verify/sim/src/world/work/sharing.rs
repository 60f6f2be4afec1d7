//! Shared locks, by handle and around work, on the names that other tasks lock exclusively.

use std::{sync::Arc, time::Duration};

use tower_redlock::Redlock;

use super::{
    locks::{hold, hold_time},
    requests::{Attempt, Ended, Kind, Wanted},
};
use crate::{rng::Rng, world::process::Shared};

/// Shares names again and again. One request in ten is dropped before or after its grant, and one in
/// ten has a maximum hold time of its own.
pub(super) async fn share_again_and_again(shared: Arc<Shared>, redlock: Redlock, mut rng: Rng) {
    while !shared.is_stopping() {
        let pause = if rng.chance(70) { rng.millis(0, 40) } else { rng.millis(40, 600) };
        shared.sleep(pause).await;
        let names =
            std::slice::from_ref(&shared.scenario.names()[[0, 0, 0, 1, 1, 2][rng.index(6)]]);
        let wait = Duration::from_millis([0, 0, 80, 800, 3_000][rng.index(5)]);
        let time = hold_time(&shared, &mut rng);
        let max_hold = rng.chance(10).then(|| rng.millis(1, shared.scenario.ttl));
        let wanted = Wanted { names, kind: Kind::Shared };
        let attempt = Attempt { shared: &shared, wanted, wait, time };
        let request = wanted.request(&redlock);
        let request = match max_hold {
            Some(limit) => request.max_hold(limit),
            None => request,
        };
        if rng.chance(10) {
            attempt.drop_after(rng.millis(0, 60), request).await;
            continue;
        }
        let (asked, pauses) = (shared.oracle.now(), shared.gate.pauses());
        let ended = if rng.chance(50) {
            attempt.around_work(request).await
        } else if rng.chance(30) {
            downgraded(&attempt, &redlock).await
        } else {
            let awaits_release = rng.chance(50);
            attempt.by_handle(request, || awaits_release).await
        };
        attempt.judge(&ended, asked, pauses);
    }
}

/// Holds the names exclusively, and then beside others.
async fn downgraded(attempt: &Attempt<'_>, redlock: &Redlock) -> Ended {
    let Attempt { shared, wanted, wait, time } = *attempt;
    let alone = Wanted { kind: Kind::Exclusive, ..wanted };
    let exclusive = match alone.request(redlock).wait(wait).await {
        Ok(lock) => lock,
        Err(error) => return (Err(error), Duration::ZERO),
    };
    let Shared { client, oracle, .. } = shared;
    let from = oracle.now();
    let held_for = || Duration::from_micros(oracle.now() - from);
    let guard = alone.held(oracle, *client, &exclusive.context());
    hold(shared, &guard, time / 2).await;
    // The belief has to end by itself.
    let lock = match exclusive.downgrade() {
        Ok(lock) => lock,
        Err(error) => {
            oracle.count("downgrade failed");
            return (Err(error), held_for());
        }
    };
    oracle.count("downgraded");
    let shared_guard = wanted.held(oracle, *client, &lock.context());
    drop(guard);
    hold(shared, &shared_guard, time / 2).await;
    let held_for = held_for();
    drop(shared_guard);
    (Ok(()), held_for)
}
