//! Jobs of a scheduler, and the control, in which each replica that gets the lock of a tick runs
//! it.

use std::{sync::Arc, time::Duration};

use tokio::sync::broadcast;
use tower_redlock::{
    Job, JobContext, Redlock, Schedule, Scheduler, SchedulerHandle,
    scheduler::{JobEvent, JobEventKind, MissReason, Missed},
    time::Clock,
};

use super::{Checked, requests::belief};
use crate::{
    oracle::MissedTicks,
    rng::Rng,
    world::{process::Shared, scenario::Profile},
};

/// The period of the checked job, in ms.
const PERIOD: u64 = 700;

pub(super) async fn schedule(shared: Arc<Shared>, redlock: Redlock, mut rng: Rng) {
    let mut job = |name: &'static str, period: u64, most: u64| {
        let shared = Arc::clone(&shared);
        let mut rng = Rng::of(rng.number(), 8);
        let ttl = shared.ttl();
        // Ticks that seem missed run again one by one if claims come late.
        let missed = match shared.scenario.profile {
            Profile::Cuts => Missed::RunAll { at_most: 20 },
            _ => Missed::RunLatest,
        };
        let work = move |context: JobContext| {
            let (shared, time) = (Arc::clone(&shared), rng.millis(0, most));
            let oracle = shared.oracle.clone();
            if !context.is_triggered() {
                oracle.tick_started(shared.client, name, context.tick().as_millis());
            }
            let lock = (*context).clone();
            let token = lock.fencing_token().get();
            let guard = oracle.held(shared.client, &[name], token, belief(&lock));
            let work = async move {
                tokio::time::sleep(time).await;
                guard.check();
            };
            Checked::new(lock, &oracle, work)
        };
        let job = Job::new(name, Schedule::every(Duration::from_millis(period)), work);
        job.ttl(ttl).missed(missed)
    };
    let fast = job("fast", PERIOD, 300);
    let slow = job("slow", 1_900, 2 * shared.scenario.ttl);
    let scheduler = Scheduler::new(redlock).spawner(shared.gate.clone()).job(fast).job(slow);
    let handle = scheduler.start().expect("the jobs are valid");
    shared.spawn(follow(Arc::clone(&shared), handle.events()));
    shared.spawn(command(Arc::clone(&shared), handle.clone(), Rng::of(rng.number(), 9)));
    let mut stop = shared.stop.subscribe();
    // `shared` keeps the sender alive.
    let _ = stop.wait_for(|stop| *stop).await;
    let report = handle.shutdown(Duration::from_secs(1)).await;
    shared.oracle.event(format!("c{} shuts its jobs down: {report:?}", shared.client));
}

/// Reports missed ticks to the oracle.
async fn follow(shared: Arc<Shared>, mut events: broadcast::Receiver<JobEvent>) {
    while let Ok(JobEvent { job, tick, kind, .. }) = events.recv().await {
        if let JobEventKind::Missed { first, why, .. } = kind {
            let is_unstarted =
                !matches!(why, MissReason::Interrupted { .. } | MissReason::Forgotten);
            let missed = MissedTicks {
                client: shared.client,
                job: job.to_string(),
                first: first.as_millis(),
                last: tick.as_millis(),
                is_unstarted,
            };
            shared.oracle.ticks_missed(&missed, &why.to_string());
        }
    }
}

/// Triggers the jobs, and pauses one of them, as operators do.
async fn command(shared: Arc<Shared>, handle: SchedulerHandle, mut rng: Rng) {
    while !shared.is_stopping() {
        shared.sleep(rng.millis(1_000, 6_000)).await;
        let job = if rng.chance(50) { "fast" } else { "slow" };
        if rng.chance(75) {
            let requested = handle.trigger(job).await.is_ok();
            shared.oracle.event(format!("c{} triggers {job}: {requested}", shared.client));
            shared.oracle.count("triggers");
        } else if handle.pause("slow").await.is_ok() {
            shared.oracle.event(format!("c{} pauses slow", shared.client));
            shared.sleep(rng.millis(500, 4_000)).await;
            let _ = handle.resume("slow").await;
        }
    }
}

/// Runs a tick if its lock is free when the tick is due, as schedulers without claims do.
pub(super) async fn by_lease_only(shared: Arc<Shared>, redlock: Redlock) {
    let clock = shared.clock.clone();
    let period = Duration::from_millis(PERIOD);
    while !shared.is_stopping() {
        let wall = clock.wall();
        let tick = wall.as_millis() / period.as_millis() + 1;
        let due = period * u32::try_from(tick).unwrap_or(u32::MAX);
        shared.sleep(due.saturating_sub(wall)).await;
        let run = redlock.lock("tick").run(|_| {
            let tick = u64::try_from(due.as_millis()).unwrap_or(0);
            shared.oracle.tick_started(shared.client, "tick", tick);
            // Held for half of the period, so that no punctual replica runs it again.
            tokio::time::sleep(period / 2)
        });
        // Another replica has it.
        let _ = run.await;
    }
}
