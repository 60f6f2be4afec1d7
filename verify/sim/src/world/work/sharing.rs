//! Shared locks, by handle and around work, on the names that other tasks lock exclusively.

use std::{sync::Arc, time::Duration};

use tower_redlock::{LockContext, LockError, Redlock};

use super::{
    Checked,
    locks::{BOUND, hold, hold_time},
};
use crate::{
    oracle::{HoldGuard, Promise},
    rng::Rng,
    world::process::Shared,
};

/// Shares names again and again. One request in ten is dropped before or after its grant, and one in
/// ten has a maximum hold time of its own.
pub(super) async fn share_again_and_again(shared: Arc<Shared>, redlock: Redlock, mut rng: Rng) {
    while !shared.is_stopping() {
        let pause = if rng.chance(70) { rng.millis(0, 40) } else { rng.millis(40, 600) };
        shared.sleep(pause).await;
        let name = shared.scene.names()[[0, 0, 0, 1, 1, 2][rng.index(6)]];
        let wait = Duration::from_millis([0, 0, 80, 800, 3_000][rng.index(5)]);
        let time = hold_time(&shared, &mut rng);
        let max_hold = rng.chance(10).then(|| rng.millis(1, shared.scene.ttl));
        let request = Request { shared: &shared, redlock: &redlock, name, wait, time, max_hold };
        if rng.chance(10) {
            let patience = rng.millis(0, 60);
            if tokio::time::timeout(patience, request.by_handle(false)).await.is_err() {
                shared.oracle.event(format!("c{} drops a shared request", shared.client));
            }
            continue;
        }
        let (asked, pauses) = (shared.oracle.now(), shared.gate.pauses());
        let (result, held_for) = if rng.chance(50) {
            request.around_work().await
        } else if rng.chance(30) {
            request.downgraded().await
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
    name: &'static str,
    wait: Duration,
    /// Time for which the name is held.
    time: Duration,
    max_hold: Option<Duration>,
}

/// A result, and the time for which the name was held.
type Ended = (Result<(), LockError>, Duration);

impl Request<'_> {
    fn request(&self) -> tower_redlock::LockRequest {
        let request = self.redlock.lock(self.name).shared().wait(self.wait);
        match self.max_hold {
            Some(limit) => request.max_hold(limit),
            None => request,
        }
    }

    async fn around_work(&self) -> Ended {
        let (shared, time) = (self.shared, self.time);
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
        let result = self.request().run(work).await;
        (result, held_for)
    }

    async fn by_handle(&self, awaits_release: bool) -> Ended {
        let Self { shared, name, time, .. } = *self;
        let lock = match self.request().await {
            Ok(lock) => lock,
            Err(error) => return (Err(error), Duration::ZERO),
        };
        let from = shared.oracle.now();
        let guard = self.held(&lock.context());
        hold(shared, &guard, time).await;
        let held_for = Duration::from_micros(shared.oracle.now() - from);
        drop(guard);
        if awaits_release {
            let released = lock.release().await;
            shared.oracle.event(format!("c{} shares {name} no more: {released:?}", shared.client));
        }
        (Ok(()), held_for)
    }

    /// Holds the name exclusively, and then beside others.
    async fn downgraded(&self) -> Ended {
        let Self { shared, name, time, .. } = *self;
        let exclusive = match self.redlock.lock(name).wait(self.wait).await {
            Ok(lock) => lock,
            Err(error) => return (Err(error), Duration::ZERO),
        };
        let from = shared.oracle.now();
        let held_for = || Duration::from_micros(shared.oracle.now() - from);
        let (belief, token) = (exclusive.context(), exclusive.fencing_token().get());
        let is_held = move || !belief.remaining().is_zero();
        let guard = shared.oracle.held(shared.client, &[name], token, is_held);
        hold(shared, &guard, time / 2).await;
        // The belief has to end by itself.
        let lock = match exclusive.downgrade() {
            Ok(lock) => lock,
            Err(error) => {
                shared.oracle.count("downgrade failed");
                return (Err(error), held_for());
            }
        };
        shared.oracle.count("downgraded");
        let shared_guard = self.held(&lock.context());
        drop(guard);
        hold(shared, &shared_guard, time / 2).await;
        let held_for = held_for();
        drop(shared_guard);
        (Ok(()), held_for)
    }

    fn held(&self, context: &LockContext) -> HoldGuard {
        let (belief, token) = (context.clone(), context.fencing_token().get());
        let is_held = move || !belief.remaining().is_zero();
        self.shared.oracle.shared_held(self.shared.client, self.name, token, is_held)
    }

    /// Checks that the request ended in time, unless the process was paused.
    fn judge(&self, result: &Result<(), LockError>, took: Duration, ran: bool) {
        let Self { shared: Shared { client, oracle, .. }, name, wait, .. } = self;
        match result {
            Ok(()) => oracle.count("shared released"),
            Err(error) => {
                oracle.count("shared refused");
                oracle.event(format!("c{client} to share {name} after {took:?}: {error}"));
            }
        }
        let is_lost = matches!(result, Err(LockError::Lost { .. }));
        if took > *wait + BOUND && ran && !is_lost {
            let text = format!(
                "c{client}'s request to share {name} took {took:?}, with a wait of {wait:?}"
            );
            oracle.broken(Promise::Ends, text);
        }
    }
}
