//! Jobs of one scheduler in both sets.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Semaphore;
use tower_redlock::{
    Job, Redlock, RedlockBuilder, Schedule, Scheduler, SchedulerHandle, scheduler::JobState,
};

use crate::fixture::{HANG_GUARD, RedisServer, eventually_async, in_time, sets::Sets};

const PERIOD: Duration = Duration::from_millis(200);
/// A run that a dead set ends is over after this.
const TTL: Duration = Duration::from_secs(2);

fn settings() -> RedlockBuilder {
    Redlock::builder().ttl(TTL).node_timeout(Duration::from_secs(1))
}

/// The number of runs of each job.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<BTreeMap<String, usize>>>);

impl Runs {
    fn of(&self, job: &str) -> usize {
        self.0.lock().unwrap().get(job).copied().unwrap_or_default()
    }

    fn job(&self, name: &str, schedule: Schedule) -> Job {
        let runs = self.clone();
        Job::new(name, schedule, move |cx| {
            *runs.0.lock().unwrap().entry(cx.job().to_owned()).or_default() += 1;
            async { Ok::<_, Infallible>(()) }
        })
    }

    /// Waits until the job has run some more times.
    async fn more(&self, job: &str) {
        let before = self.of(job);
        eventually_async("the job runs", async || self.of(job) > before + 3).await;
    }
}

fn start(redlock: &Redlock, runs: &Runs, names: &[String; 2]) -> SchedulerHandle {
    let every = |name: &String| runs.job(name, Schedule::every(PERIOD));
    let beside =
        |name: &String| runs.job(&format!("{{{name}}}"), Schedule::every(PERIOD)).parallel(2);
    let jobs = names.iter().map(every).chain(names.iter().map(beside));
    Scheduler::new(redlock.clone()).jobs(jobs).start().unwrap()
}

fn waits_for(handle: &SchedulerHandle, job: &str, set: usize) -> bool {
    let jobs = handle.jobs();
    let status = jobs.iter().find(|status| &*status.name == job).unwrap();
    let text = format!("set {} of 2", set + 1);
    matches!(&status.state, JobState::WaitingForNodes { error } if error.contains(&text))
}

/// The names are `x` and `{x}`, which are in one set.
fn both(name: &str) -> [String; 2] {
    [name.to_owned(), format!("{{{name}}}")]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scheduler_starts_beside_a_dead_set() {
    for down in [0, 1] {
        let mut sets = Sets::start();
        let names = sets.names("j").await;
        sets.take_down(down, &[]).await;
        let (redlock, runs) = (sets.build(settings), Runs::default());
        let handle = start(&redlock, &runs, &names);
        for job in both(&names[1 - down]) {
            runs.more(&job).await;
        }
        for job in both(&names[down]) {
            assert!(waits_for(&handle, &job, down), "{:?}", handle.jobs());
            assert_eq!(runs.of(&job), 0);
        }
        sets.servers[down].iter_mut().for_each(RedisServer::restart);
        for job in both(&names[down]) {
            runs.more(&job).await;
        }
        in_time(handle.shutdown(HANG_GUARD)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_set_stops_only_its_jobs() {
    for down in [0, 1] {
        let mut sets = Sets::start();
        let names = sets.names("j").await;
        let (redlock, runs) = (sets.connect(settings).await, Runs::default());
        let handle = start(&redlock, &runs, &names);
        for job in names.iter().flat_map(|name| both(name)) {
            runs.more(&job).await;
        }

        sets.take_down(down, &[&redlock]).await;

        for job in both(&names[down]) {
            eventually_async("the job reports its set", async || waits_for(&handle, &job, down))
                .await;
        }
        for job in both(&names[1 - down]) {
            runs.more(&job).await;
        }
        in_time(handle.shutdown(HANG_GUARD)).await;
    }
}

/// The scheduler reads the requests for all of its jobs every few seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_arrive_beside_a_dead_set() {
    for down in [0, 1] {
        let mut sets = Sets::start();
        let names = sets.names("j").await;
        let (redlock, runs) = (sets.connect(settings).await, Runs::default());
        let hourly = Schedule::every(Duration::from_secs(3_600));
        let jobs = names.iter().map(|name| runs.job(name, hourly.clone()));
        let handle = Scheduler::new(redlock.clone()).jobs(jobs).start().unwrap();
        let operator = sets.connect(settings).await;
        let (dead, alive) = (&names[down], &names[1 - down]);
        eventually_async("both wait for their ticks", async || {
            handle.jobs().iter().all(|job| matches!(job.state, JobState::WaitingForTick { .. }))
        })
        .await;
        sets.take_down(down, &[&redlock, &operator]).await;
        let before = runs.of(alive);
        operator.trigger_job(alive.as_str()).await.unwrap();
        eventually_async("the requested run begins", async || runs.of(alive) == before + 1).await;
        operator.pause_job(alive.as_str()).by("ann").await.unwrap();
        eventually_async("the pause is seen", async || {
            handle
                .jobs()
                .iter()
                .any(|job| job.name[..] == alive[..] && job.control.paused.is_some())
        })
        .await;
        operator.resume_job(alive.as_str()).await.unwrap();
        let refused = operator.job_control(dead).await.unwrap_err();
        assert!(refused.to_string().contains(&format!("set {} of 2", down + 1)), "{refused}");
        in_time(handle.shutdown(HANG_GUARD)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_of_a_job_are_in_one_set() {
    const RUNS: usize = 3;
    let sets = Sets::start();
    let names = sets.names("j").await;
    let redlock = sets.connect(settings).await;
    let gate = Arc::new(Semaphore::new(0));
    let job = |name: &String| {
        let gate = Arc::clone(&gate);
        let work = move |_| {
            let gate = Arc::clone(&gate);
            async move { gate.acquire().await.map(drop) }
        };
        Job::new(name.as_str(), Schedule::every(PERIOD), work)
            .parallel(u32::try_from(RUNS).unwrap())
    };
    let handle = Scheduler::new(redlock.clone()).jobs(names.iter().map(job)).start().unwrap();
    let slots = |set: usize, name: &String| {
        let pattern = format!("redlock:lock:slot:*:job:{name}");
        sets.servers[set].iter().map(|server| server.keys(&pattern).len()).collect::<Vec<_>>()
    };

    for (set, name) in names.iter().enumerate() {
        eventually_async("all slots are in use", async || slots(set, name) == [RUNS; 3]).await;
        assert_eq!(slots(1 - set, name), [0; 3], "{name} is in set {}", set + 1);
        let holders = redlock.job_holders(name).await.unwrap();
        let is_slot = |name: &str| tower_redlock::Resource::slot_of(name).is_some();
        assert_eq!(holders.iter().filter(|holder| is_slot(&holder.name)).count(), RUNS);
    }
    gate.close();
    in_time(handle.shutdown(HANG_GUARD)).await;
}
