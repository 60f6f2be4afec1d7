//! A replica: the same job on each, and the same few lines around it.

use std::{future::Future, time::Duration};

use tower_redlock::{Job, JobContext, Redlock, Schedule, Scheduler};

use crate::{
    Failure,
    said::{Said, now},
};

pub(crate) const PERIOD: Duration = Duration::from_millis(200);
const WORK: Duration = Duration::from_millis(30);
/// How long a crashed replica keeps the others from going on. The default, 10 s, suits longer runs.
const TTL: Duration = Duration::from_millis(500);
/// How long a run may go on when the replica stops.
const GRACE: Duration = Duration::from_secs(1);

/// Runs the job until `stop` completes.
pub(crate) async fn run<S>(redlock: Redlock, say: S, stop: impl Future) -> Result<(), Failure>
where
    S: Fn(Said) + Clone + Send + Sync + 'static,
{
    let scheduler = Scheduler::new(redlock.clone()).job(job(say)).start()?;
    stop.await;
    // First the runs, then what they stand on: their locks are given back in between.
    scheduler.shutdown(GRACE).await;
    redlock.shutdown().await;
    Ok(())
}

fn job<S>(say: S) -> Job
where
    S: Fn(Said) + Clone + Send + Sync + 'static,
{
    let work = move |cx: JobContext| {
        let say = say.clone();
        async move {
            // For what the run writes elsewhere: a store that checks tokens turns away a run that
            // was overtaken.
            let token = cx.fencing_token().get();
            let (tick, lateness) = (cx.tick(), cx.lateness());
            say(Said::Began { tick, token, lateness, at: now() });
            tokio::time::sleep(WORK).await;
            say(Said::Ended { token, at: now() });
        }
    };
    Job::new("heartbeat", Schedule::every(PERIOD), work).ttl(TTL)
}
