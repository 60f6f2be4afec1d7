//! A pause and the history, after every replica and every server was killed and restarted.

use std::time::Duration;

use tower_redlock::{
    Redlock,
    scheduler::{JobRun, JobRunResult},
};

use crate::fixture::{RedisServer, eventually_async, in_time, over};

use super::{
    journal::{LineKind, now},
    replica::{Plan, TTL},
    replicas::Fleet,
};

const REPLICAS: usize = 3;
const JOB: &str = "fleet";
/// On a busy machine, servers answer late.
const PATIENT: Duration = Duration::from_secs(1);

/// A process of an operator, without the job.
async fn operator(fleet: &Fleet) -> Redlock {
    let builder = Redlock::builder().ttl(TTL).node_timeout(PATIENT).owner("operator");
    let redlock = over(builder, fleet.urls()).build().unwrap();
    in_time(redlock.ready()).await.unwrap();
    redlock
}

fn starts(fleet: &mut Fleet) -> usize {
    fleet.journal.lines().iter().filter(|line| line.what == LineKind::Start).count()
}

fn ticks(runs: &[JobRun]) -> Vec<std::time::SystemTime> {
    runs.iter().map(|run| run.tick).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pause_and_history_outlive_everything() {
    let servers = (0..3).map(|_| RedisServer::with(&["--appendonly", "yes"])).collect();
    let mut fleet = Fleet::over(Plan::Short, servers, REPLICAS);
    let redlock = operator(&fleet).await;
    let mut before = Vec::new();
    eventually_async("some runs have ended", async || {
        before = redlock.job_history(JOB).await.unwrap();
        before.len() >= 5
    })
    .await;
    redlock.pause_job(JOB).by("ann").why("the disk is full").await.unwrap();
    // A run that had begun ends, and is recorded.
    let paused_at = now();
    eventually_async("no run is in progress", async || {
        redlock.inspect("job:fleet").await.unwrap().is_none()
    })
    .await;
    before = redlock.job_history(JOB).await.unwrap();
    drop(redlock);
    for replica in 0..REPLICAS {
        fleet.kill(replica);
    }
    fleet.restart_servers();
    for replica in 0..REPLICAS {
        fleet.start_replica(replica);
    }
    for replica in 0..REPLICAS {
        fleet.is_up(replica, paused_at);
    }
    let redlock = operator(&fleet).await;
    let control = redlock.job_control(JOB).await.unwrap();
    let pause = control.paused.unwrap();
    assert_eq!((&*pause.by, pause.why.as_deref()), ("ann", Some("the disk is full")));
    let after = redlock.job_history(JOB).await.unwrap();
    assert_eq!(ticks(&after), ticks(&before), "nothing ran meanwhile");
    // A requested run starts while the job is paused. Ticks before that have come, and do not run.
    let seen = starts(&mut fleet);
    let id = redlock.trigger_job(JOB).by("ann").await.unwrap();
    let mut runs = Vec::new();
    eventually_async("the requested run has ended", async || {
        runs = redlock.job_history(JOB).await.unwrap();
        runs.iter().any(|run| run.trigger == Some(id) && run.ended.is_some())
    })
    .await;
    assert_eq!(starts(&mut fleet), seen + 1, "it runs on one replica, and no tick does");
    let run = runs.last().unwrap();
    assert_eq!((run.trigger, run.result), (Some(id), JobRunResult::Finished));
    assert!(run.owner.starts_with("replica "), "{run:?}");
    redlock.resume_job(JOB).by("ann").await.unwrap();
    let resumed = now();
    let first = fleet.next_run("a tick runs again", |_| true);
    let wait = first.from.saturating_duration_since(resumed);
    assert!(wait < Duration::from_secs(30), "{wait:?}");
    fleet.stop();
}
