//! Ticks without a scheduler, and what the servers keep of jobs, in both sets.

use std::{
    convert::Infallible,
    time::{Duration, SystemTime},
};

use futures_util::StreamExt as _;
use tower_redlock::{
    LockError, LockOptions, Redlock, Schedule,
    scheduler::{ControlError, JobRunResult, TickError, TickOutcome},
};

use crate::fixture::{HANG_GUARD, hand_clock::HandClock, patient, sets::Sets};

fn hourly() -> Schedule {
    Schedule::every(Duration::from_secs(3_600))
}

async fn tick(
    redlock: &Redlock,
    job: &str,
    at: SystemTime,
) -> Result<TickOutcome<u64>, TickError<Infallible>> {
    // The tick before may still hold the lock.
    let options = LockOptions::new().wait(HANG_GUARD);
    let tick = redlock.job_tick(job, hourly()).at(at).options(options);
    tick.run(async |cx| Ok(cx.fencing_token().get())).await
}

#[tokio::test]
async fn ticks_run_once_in_each_set() {
    let mut sets = Sets::start();
    let names = sets.names("j").await;
    let (one, two) = (sets.owner("one").await, sets.owner("two").await);
    let now = SystemTime::now();
    for name in &names {
        let ran = tick(&one, name, now).await.unwrap();
        let again = tick(&two, name, now).await.unwrap();
        assert!(matches!(ran, TickOutcome::Ran(_)), "{name}: {ran:?}");
        assert!(matches!(&again, TickOutcome::AlreadyDone { .. }), "{name}: {again:?}");
    }
    sets.take_down(0, &[&one, &two]).await;
    // The tick after the next one, which may be due in a moment.
    let later = now + Duration::from_secs(7_200);
    // Without a wait, which would be the error.
    let at_once = two.job_tick(names[0].as_str(), hourly()).at(now);
    let refused = at_once.run(async |_| Ok::<_, Infallible>(())).await.unwrap_err();
    let again = tick(&two, &names[1], now).await.unwrap();
    let ahead = tick(&two, &names[1], later).await;
    assert!(matches!(again, TickOutcome::AlreadyDone { .. }), "{again:?}");
    assert!(matches!(ahead, Err(TickError::ClockAhead { .. })), "{ahead:?}");
    let TickError::Lock(error @ LockError::NoQuorum { .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(error.to_string().contains("set 1 of 2"), "{error}");
}

#[tokio::test]
async fn commands_and_histories_are_kept_in_each_set() {
    let mut sets = Sets::start();
    let names = sets.names("j").await;
    // A command waits for a quorum for two TTLs.
    let brisk = || patient().ttl(Duration::from_secs(2));
    let (one, two) = (sets.connect(brisk).await, sets.connect(brisk).await);
    for name in &names {
        tick(&one, name, SystemTime::now()).await.unwrap();
        one.pause_job(name.as_str()).by(name.as_str()).await.unwrap();
        one.trigger_job(name.as_str()).await.unwrap();
    }
    let controls = two.job_controls(&names).await.unwrap();
    for (name, control) in names.iter().zip(controls) {
        assert_eq!(&*control.paused.unwrap().by, name);
        assert_eq!(control.requested.len(), 1);
        let history = two.job_history(name).await.unwrap();
        assert_eq!(history[0].result, JobRunResult::Finished);
        two.resume_job(name.as_str()).await.unwrap();
    }
    let controls = two.job_controls(names.iter().rev()).await.unwrap();
    assert!(controls.iter().all(|control| control.paused.is_none()), "{controls:?}");
    sets.take_down(1, &[&one, &two]).await;
    two.pause_job(names[0].as_str()).await.unwrap();
    assert!(two.forget_job(names[0].as_str()).await.unwrap());
    let error = two.forget_job(names[1].as_str()).await.unwrap_err();
    let is_refused = matches!(error, ControlError::Nodes { .. } | ControlError::Incomplete { .. });
    assert!(is_refused && error.to_string().contains("set 2 of 2"), "{error:?}");
}

#[tokio::test]
async fn unused_jobs_are_found_beside_a_dead_set() {
    for down in [0, 1] {
        let mut sets = Sets::start();
        let names = sets.names("j").await;
        let redlock = sets.owner("one").await;
        let past = SystemTime::now() - Duration::from_secs(7_200);
        for name in &names {
            tick(&redlock, name, past).await.unwrap();
        }
        sets.take_down(down, &[&redlock]).await;

        let unused: Vec<_> = redlock.unused_jobs(Duration::ZERO).collect().await;
        let claimed: Vec<_> = redlock.claimed_jobs().collect().await;

        let [Ok(job), Err(error)] = &unused[..] else { panic!("set {down}: {unused:?}") };
        assert_eq!(*job.name, *names[1 - down]);
        assert!(error.to_string().contains(&format!("set {} of 2", down + 1)), "{error}");
        let [Ok(job), Err(_)] = &claimed[..] else { panic!("set {down}: {claimed:?}") };
        assert_eq!(**job, *names[1 - down]);
    }
}

/// A process whose own clock is an hour behind uses the clock of the servers that are up.
#[tokio::test]
async fn commands_use_the_clock_of_the_set_that_is_up() {
    let mut sets = Sets::start();
    let [_, second] = sets.names("j").await;
    let hour = 3_600_000;
    let redlock = sets.connect(|| patient().clock(HandClock::skewed(-hour))).await;
    sets.take_down(0, &[&redlock]).await;
    let now = SystemTime::now();

    redlock.pause_job(second.as_str()).await.unwrap();

    let at = redlock.job_control(&second).await.unwrap().paused.unwrap().at;
    let behind = now.duration_since(at).unwrap_or_default();
    assert!(behind < Duration::from_secs(60), "{behind:?}");
}
