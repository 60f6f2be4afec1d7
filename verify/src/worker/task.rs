//! One task of a loaded worker: it acquires a lock, holds it for a while, releases it, and reports.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::hold::{Grant, now};
use super::link::Link;
use crate::locks::{Held, Locks, Manner, TTL};
use crate::message::Load;
use crate::random::Random;

/// Number of names, so few that a task always waits.
const QUICK_NAMES: u64 = 4;
const SLOW_NAMES: u64 = 8;
/// Number of names that are shared. One request in four for them is exclusive.
const SHARED_NAMES: u64 = 2;
/// The name that has slots.
const POOL: &str = "pool";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Released quickly, so that many locks are acquired.
    Quick,
    /// Held for long, so that locks are renewed while servers forget.
    Slow,
    /// A name that others share.
    Sharing,
    /// One of so many slots.
    Slot(u32),
}

/// A task, as described in the module's docs.
pub(super) struct Task {
    worker: usize,
    kind: Kind,
    locks: Arc<Locks>,
    link: Arc<Link>,
    random: Random,
}

impl Task {
    /// The task of this number, which ends soon after the driver orders it.
    pub(super) fn new(
        worker: usize,
        number: usize,
        load: Load,
        locks: Arc<Locks>,
        link: Arc<Link>,
    ) -> Self {
        let kind = match (load.slots, number % 4) {
            (slots @ 1.., 3) => Kind::Slot(slots),
            (1.., 1) => Kind::Sharing,
            _ if number.is_multiple_of(3) => Kind::Quick,
            _ => Kind::Slow,
        };
        let stream = 1 + worker * load.tasks + number;
        let stream = u64::try_from(stream).expect("a small number");
        Self { worker, kind, locks, link, random: Random::stream(load.seed, stream) }
    }

    /// Acquires and reports locks until the driver orders the end.
    pub(super) async fn run(mut self) {
        while !self.link.is_stopped() {
            self.cycle().await;
            let pause = self.random.millis(0..10);
            sleep(pause).await;
        }
    }

    async fn cycle(&mut self) {
        let (name, manner) = self.name();
        let wait = self.random.millis(0..200);
        let wanted = match self.kind {
            Kind::Quick => self.random.millis(1..60),
            Kind::Slow => self.random.times(TTL, 0.1, 8.0),
            Kind::Slot(_) | Kind::Sharing => self.random.times(TTL, 0.01, 2.0),
        };
        let awaits_release = self.random.one_in(2);
        let asked = now();
        let Some(held) = self.locks.acquire(&name, manner, wait).await else { return };
        check_slot(&held, manner);
        let mut grant = Grant::new(self.worker, &name, asked, held);
        let is_over = |time: Duration| time >= wanted || self.link.is_stopped();
        grant.hold(&self.link, false, is_over).await;
        if awaits_release {
            grant.held.release().await;
        } else {
            grant.held.drop();
        }
    }

    fn name(&mut self) -> (String, Manner) {
        let random = &mut self.random;
        match self.kind {
            Kind::Quick => (format!("quick-{}", random.below(QUICK_NAMES)), Manner::Exclusive),
            Kind::Slow => (format!("slow-{}", random.below(SLOW_NAMES)), Manner::Exclusive),
            Kind::Sharing => {
                let name = format!("shared-{}", random.below(SHARED_NAMES));
                let manner = if random.one_in(4) { Manner::Exclusive } else { Manner::Shared };
                (name, manner)
            }
            Kind::Slot(slots) => (POOL.into(), Manner::Slot(slots)),
        }
    }
}

/// The checker compares the holders of each slot: with numbers below the number of slots, there are
/// no more holders than slots. The end of a worker fails the run.
fn check_slot(held: &Held, manner: Manner) {
    let Manner::Slot(slots) = manner else { return };
    let number = held.slot().map(|(number, _)| number);
    if number.is_none_or(|number| number >= slots) {
        eprintln!("slot {number:?} of {slots}");
        std::process::exit(1);
    }
}
