//! Requests for locks, by handle and around work, and what the oracle checks of them.

use std::{fmt, time::Duration};

use tower_redlock::{LockContext, LockError, LockRequest, Redlock, Resource};

use super::{
    Checked,
    locks::{BOUND, hold},
};
use crate::{
    oracle::{HeldSlot, HoldGuard, Oracle, Promise},
    world::process::Shared,
};

/// What a request is for: names, alone or shared, or a slot of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) names: &'static [&'static str],
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Exclusive,
    Shared,
    /// One of this number of slots.
    Slot(u32),
    /// Alone, by requests that are dropped soon.
    Leaving,
}

impl Wanted {
    pub(super) fn request(self, redlock: &Redlock) -> LockRequest {
        let resource = Resource::new(self.names.to_vec()).expect("valid names");
        let request = redlock.lock(resource);
        match self.kind {
            Kind::Exclusive | Kind::Leaving => request,
            Kind::Shared => request.shared(),
            Kind::Slot(slots) => request.slots(slots),
        }
    }

    /// Records that a client holds it from now on, as long as it believes so.
    pub(super) fn held(self, oracle: &Oracle, client: usize, context: &LockContext) -> HoldGuard {
        let token = context.fencing_token().get();
        match self.kind {
            Kind::Exclusive | Kind::Leaving => {
                oracle.held(client, self.names, token, belief(context))
            }
            Kind::Shared => oracle.shared_held(client, self.names[0], token, belief(context)),
            Kind::Slot(slots) => {
                let slot = HeldSlot { name: self.names[0], number: context.slot(), slots };
                oracle.slot_held(client, slot, token, belief(context))
            }
        }
    }

    /// The kinds of events that are counted: grants that were released, and refusals.
    fn counted(self) -> [&'static str; 2] {
        match self.kind {
            Kind::Exclusive | Kind::Leaving => ["released", "refused"],
            Kind::Shared => ["shared released", "shared refused"],
            Kind::Slot(_) => ["slots released", "slots refused"],
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.names.join("+"), self.kind)
    }
}

/// Returns whether the holder believes that it holds its lock, when called.
pub(super) fn belief(context: &LockContext) -> impl Fn() -> bool + Send + Sync + 'static {
    let context = context.clone();
    move || !context.remaining().is_zero()
}

/// One request of a process.
pub(super) struct Attempt<'a> {
    pub(super) shared: &'a Shared,
    pub(super) wanted: Wanted,
    pub(super) wait: Duration,
    /// Time for which the lock is held.
    pub(super) time: Duration,
}

/// A result, and the time for which the lock was held.
pub(super) type Ended = (Result<(), LockError>, Duration);

impl Attempt<'_> {
    /// Holds the lock around work, which checks the end of the lock.
    pub(super) async fn around_work(&self, request: LockRequest) -> Ended {
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
        let result = request.wait(self.wait).run(work).await;
        (result, held_for)
    }

    /// Holds the lock by its handle. `awaits_release` is asked when the hold is over.
    pub(super) async fn by_handle(
        &self,
        request: LockRequest,
        awaits_release: impl FnOnce() -> bool,
    ) -> Ended {
        let Shared { client, oracle, .. } = self.shared;
        let lock = match request.wait(self.wait).await {
            Ok(lock) => lock,
            Err(error) => return (Err(error), Duration::ZERO),
        };
        let from = oracle.now();
        let guard = self.held(&lock.context());
        hold(self.shared, &guard, self.time).await;
        let held_for = Duration::from_micros(oracle.now() - from);
        drop(guard);
        if awaits_release() {
            let released = lock.release().await;
            oracle.event(format!("c{client} releases {}: {released:?}", self.wanted));
        }
        (Ok(()), held_for)
    }

    /// Drops the request, or the lock, after a while.
    pub(super) async fn drop_after(&self, time: Duration, request: LockRequest) {
        let held = self.by_handle(request, || false);
        if tokio::time::timeout(time, held).await.is_err() {
            let Shared { client, oracle, .. } = self.shared;
            oracle.event(format!("c{client} drops a request for {}", self.wanted));
        }
    }

    fn held(&self, context: &LockContext) -> HoldGuard {
        self.wanted.held(&self.shared.oracle, self.shared.client, context)
    }

    /// Checks that the request, made at `asked`, ended in time, unless the process was paused since
    /// it had been `pauses` times.
    pub(super) fn judge(&self, (result, held_for): &Ended, asked: u64, pauses: u64) {
        let Self { shared: Shared { client, oracle, gate, .. }, wanted, wait, .. } = self;
        let took = Duration::from_micros(oracle.now() - asked).saturating_sub(*held_for);
        let [released, refused] = wanted.counted();
        match result {
            Ok(()) => oracle.count(released),
            Err(error) => {
                oracle.count(refused);
                oracle.event(format!("c{client} {wanted} after {took:?}: {error}"));
            }
        }
        let is_lost = matches!(result, Err(LockError::Lost { .. }));
        if took > *wait + BOUND && pauses == gate.pauses() && !is_lost {
            let text =
                format!("c{client}'s request for {wanted} took {took:?}, with a wait of {wait:?}");
            oracle.broken(Promise::Ends, text);
        }
    }
}
