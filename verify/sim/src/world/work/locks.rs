//! Locks, by handle and around work.

use std::{sync::Arc, time::Duration};

use tower_redlock::{Redlock, time::Clock};

use super::{Checked, NAMES};
use crate::{
    oracle::{HoldGuard, Promise},
    rng::Rng,
    world::{Profile, naive::Naive, process::Shared},
};

/// Time in which a request ends after its wait.
pub(super) const BOUND: Duration = Duration::from_millis(1_500);

/// A time for which a name is held.
pub(super) fn hold_time(shared: &Shared, rng: &mut Rng) -> Duration {
    match rng.below(10) {
        // Most leases have been renewed, by which their keys live for the TTL and no longer.
        0..9 if shared.scene.profile == Profile::Steps => {
            rng.millis(shared.scene.ttl / 2, shared.scene.ttl * 2)
        }
        0..4 => rng.millis(0, 4),
        4..7 => rng.millis(5, 60),
        7..9 => rng.millis(60, shared.scene.ttl / 2),
        _ => rng.millis(shared.scene.ttl / 2, shared.scene.ttl * 2),
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
        let step = Duration::from_millis(shared.scene.ttl / 40 + 1).min(until - now);
        tokio::time::sleep(step).await;
    }
}

pub(super) async fn lock_again_and_again(shared: Arc<Shared>, redlock: Redlock, mut rng: Rng) {
    let (client, oracle) = (shared.client, shared.oracle.clone());
    let all = shared.scene.names();
    while !shared.is_stopping() {
        let is_rare = shared.scene.is_rarely_busy(client);
        let pause = match rng.chance(70) {
            _ if is_rare => rng.millis(900, 2_500),
            true => rng.millis(0, 40),
            false => rng.millis(40, 600),
        };
        shared.sleep(pause).await;
        let names: Vec<&str> = match rng.below(12) {
            0..11 if shared.scene.profile == Profile::Steps => vec![all[0]],
            0 => vec![all[0], all[1]],
            1..8 => vec![all[0]],
            8..10 => vec![all[1]],
            _ => vec![all[2]],
        };
        let wait = [0, 0, 80, 800, 3_000][rng.index(5)];
        let wait = Duration::from_millis(if is_rare { wait.clamp(400, 800) } else { wait });
        let time = hold_time(&shared, &mut rng);
        let resource = tower_redlock::Resource::new(names.clone()).expect("valid names");
        let mut request = redlock.lock(resource).wait(wait);
        if shared.scene.lingers {
            let linger = [0, 20, 200, shared.scene.ttl][rng.index(4)];
            request = request.linger(Duration::from_millis(linger));
        }
        let (asked, pauses) = (oracle.now(), shared.gate.pauses());
        let mut held_for = 0;
        let result = if rng.chance(50) {
            let held_for = &mut held_for;
            let (shared, oracle, names) = (&shared, &oracle, &names);
            let work = |context: tower_redlock::LockContext| {
                let belief = context.clone();
                let token = context.fencing_token().get();
                let guard =
                    oracle.held(client, names, token, move || !belief.remaining().is_zero());
                let from = oracle.now();
                let work = async move {
                    hold(shared, &guard, time).await;
                    *held_for = oracle.now() - from;
                };
                Checked::new(context, oracle, work)
            };
            request.run(work).await
        } else {
            match request.await {
                Ok(lock) => {
                    let (from, belief) = (oracle.now(), lock.context());
                    let token = lock.fencing_token().get();
                    let guard =
                        oracle.held(client, &names, token, move || !belief.remaining().is_zero());
                    hold(&shared, &guard, time).await;
                    held_for = oracle.now() - from;
                    drop(guard);
                    if rng.chance(50) {
                        let released = lock.release().await;
                        oracle
                            .event(format!("c{client} releases {}: {released:?}", names.join("+")));
                    }
                    Ok(())
                }
                Err(error) => Err(error),
            }
        };
        let took = Duration::from_micros(oracle.now() - asked - held_for);
        match &result {
            Ok(()) => oracle.count("released"),
            Err(error) => {
                oracle.count("refused");
                oracle.event(format!("c{client} {} after {took:?}: {error}", names.join("+")));
            }
        }
        let is_lost = matches!(result, Err(tower_redlock::LockError::Lost { .. }));
        if took > wait + BOUND && pauses == shared.gate.pauses() && !is_lost {
            let names = names.join("+");
            let text =
                format!("c{client}'s request for {names} took {took:?}, with a wait of {wait:?}");
            oracle.broken(Promise::Ends, text);
        }
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
