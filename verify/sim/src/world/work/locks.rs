//! Locks, by handle and around work.

use std::{sync::Arc, time::Duration};

use tower_redlock::{Redlock, time::Clock};

use super::{
    NAMES,
    requests::{Attempt, Kind, Wanted},
};
use crate::{
    oracle::HoldGuard,
    rng::Rng,
    world::{Profile, naive::Naive, process::Shared},
};

/// Time in which a request ends after its wait.
pub(super) const BOUND: Duration = Duration::from_millis(1_500);

/// A time for which a name is held.
pub(super) fn hold_time(shared: &Shared, rng: &mut Rng) -> Duration {
    match rng.below(10) {
        // Most leases have been renewed, by which their keys live for the TTL and no longer.
        0..9 if shared.scenario.profile == Profile::Steps => {
            rng.millis(shared.scenario.ttl / 2, shared.scenario.ttl * 2)
        }
        0..4 => rng.millis(0, 4),
        4..7 => rng.millis(5, 60),
        7..9 => rng.millis(60, shared.scenario.ttl / 2),
        _ => rng.millis(shared.scenario.ttl / 2, shared.scenario.ttl * 2),
    }
}

/// Holds a name, and checks repeatedly for other holders.
pub(super) async fn hold(shared: &Shared, guard: &HoldGuard, time: Duration) {
    let until = tokio::time::Instant::now() + time;
    loop {
        guard.check();
        let now = tokio::time::Instant::now();
        if now >= until {
            return;
        }
        let step = Duration::from_millis(shared.scenario.ttl / 40 + 1).min(until - now);
        tokio::time::sleep(step).await;
    }
}

pub(super) async fn lock_again_and_again(shared: Arc<Shared>, redlock: Redlock, mut rng: Rng) {
    let all = shared.scenario.names();
    while !shared.is_stopping() {
        let is_rare = shared.scenario.is_rarely_busy(shared.client);
        let pause = match rng.chance(70) {
            _ if is_rare => rng.millis(900, 2_500),
            true => rng.millis(0, 40),
            false => rng.millis(40, 600),
        };
        shared.sleep(pause).await;
        let names = match rng.below(12) {
            0..11 if shared.scenario.profile == Profile::Steps => &all[..1],
            0 => &all[..2],
            1..8 => &all[..1],
            8..10 => &all[1..2],
            _ => &all[2..],
        };
        let wait = [0, 0, 80, 800, 3_000][rng.index(5)];
        let wait = Duration::from_millis(if is_rare { wait.clamp(400, 800) } else { wait });
        let time = hold_time(&shared, &mut rng);
        let wanted = Wanted { names, kind: Kind::Exclusive };
        let attempt = Attempt { shared: &shared, wanted, wait, time };
        let mut request = wanted.request(&redlock);
        if shared.scenario.lingers {
            let linger = [0, 20, 200, shared.scenario.ttl][rng.index(4)];
            request = request.linger(Duration::from_millis(linger));
        }
        let (asked, pauses) = (shared.oracle.now(), shared.gate.pauses());
        let ended = if rng.chance(50) {
            attempt.around_work(request).await
        } else {
            attempt.by_handle(request, || rng.chance(50)).await
        };
        attempt.judge(&ended, asked, pauses);
    }
}

pub(super) async fn lock_naively(shared: Arc<Shared>, naive: Arc<Naive>, mut rng: Rng) {
    let (client, oracle) = (shared.client, shared.oracle.clone());
    while !shared.is_stopping() {
        shared.sleep(rng.millis(0, 100)).await;
        let name = NAMES[rng.index(2)];
        let Some(lock) = naive.lock(name, shared.ttl()).await else { continue };
        let (clock, until) = (naive.clock.clone(), lock.until);
        let guard = oracle.held(client, &[name], 0, move || clock.now() < until);
        let left = until.saturating_duration_since(naive.clock.now());
        hold(&shared, &guard, hold_time(&shared, &mut rng).min(left)).await;
        drop(guard);
        naive.release(&lock).await;
    }
}
