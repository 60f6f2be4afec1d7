//! Jobs of a fleet of three replicas: paused, resumed and started from a page.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::broadcast::Receiver;
use tower_redlock::{
    Job, Redlock, Schedule, Scheduler, SchedulerHandle,
    scheduler::{JobEvent, JobEventKind, JobState, MissReason},
};

use crate::{
    fixture::{Fixture, Site, served, with},
    web::{Browser, eventually},
};

const PERIOD: Duration = Duration::from_millis(250);

/// The replicas of a service, and the number of runs of their job.
struct Replicas {
    handles: Vec<SchedulerHandle>,
    managers: Vec<Redlock>,
    runs: Arc<AtomicUsize>,
}

impl Replicas {
    async fn start(fixture: &Fixture, runs: &Arc<AtomicUsize>) -> Self {
        let (mut handles, mut managers) = (Vec::new(), Vec::new());
        for owner in ["web-1", "web-2", "web-3"] {
            let redlock = fixture.process(owner).await;
            let counted = Arc::clone(runs);
            let work = move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                async { Ok::<_, Infallible>(()) }
            };
            let job = Job::new("report", Schedule::every(PERIOD), work);
            handles.push(Scheduler::new(redlock.clone()).job(job).start().unwrap());
            managers.push(redlock);
        }
        Self { handles, managers, runs: Arc::clone(runs) }
    }

    fn count(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Waits until each replica has seen the pause. Returns the number of runs by then: none is in progress.
    async fn are_paused(&self) -> usize {
        eventually("each replica is paused", async || {
            self.handles
                .iter()
                .all(|handle| matches!(handle.jobs()[0].state, JobState::Paused { .. }))
        })
        .await;
        self.count()
    }

    async fn run_again(&self) {
        let count = self.count();
        eventually("the job runs", async || self.count() > count + 2).await;
    }

    async fn stop(self) {
        for handle in &self.handles {
            handle.shutdown(Duration::from_secs(5)).await;
        }
        for redlock in self.managers {
            redlock.shutdown().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_outlives_all_replicas() {
    let fixture = Fixture::new().await;
    let runs = Arc::default();
    let replicas = Replicas::start(&fixture, &runs).await;
    let site = fixture.serve_jobs(replicas.handles[0].clone()).await;
    let browser = Browser::start().await;
    replicas.run_again().await;
    let row = with("data-job", "report");
    browser.open_with(&site.page("jobs"), &row).await;
    browser.click(&format!("{row} a")).await;
    browser.click("a[data-action=pause]").await;
    browser.fill("#why", "the disk is full").await;
    browser.click("#confirm").await;
    browser.wait_url("/job?name=report&done=pause").await;
    browser.wait_text("[role=status]", "paused").await;
    browser.wait_text("#job", "the disk is full").await;
    let count = replicas.are_paused().await;
    let paused = Instant::now();
    browser.leave().await;
    drop(site);
    replicas.stop().await;

    let replicas = Replicas::start(&fixture, &runs).await;
    let site = fixture.serve_jobs(replicas.handles[2].clone()).await;
    let mut events: Vec<_> = replicas.handles.iter().map(SchedulerHandle::events).collect();
    assert_eq!(replicas.are_paused().await, count, "the pause is still there");
    eventually("ticks are due", async || paused.elapsed() > 8 * PERIOD).await;
    assert_eq!(replicas.count(), count, "no tick runs");
    let row = format!("tr[data-job=report]{}", with("data-state", "paused"));
    browser.open_with(&site.page("jobs"), &row).await;
    browser.wait_text(&row, "ada").await;
    browser.screenshot("paused").await;
    resume(&browser, &site).await;
    replicas.run_again().await;
    assert!(missed(&mut events) >= 8, "the ticks that were due were missed because of the pause");
    browser.open(&site.page("jobs?refresh=1")).await;
    browser.wait_for("tr[data-job=report]:not([data-state=paused])").await;
    browser.assert_no_errors(&[]).await;
    replicas.stop().await;
}

/// The number of ticks that were missed because of a pause.
fn missed(events: &mut [Receiver<JobEvent>]) -> u64 {
    let mut missed = 0;
    for events in events {
        while let Ok(event) = events.try_recv() {
            if let JobEventKind::Missed { count, why: MissReason::Paused { .. }, .. } = event.kind {
                missed += count;
            }
        }
    }
    missed
}

async fn resume(browser: &Browser, site: &Site) {
    browser.open(&site.page("job?name=report")).await;
    browser.click("a[data-action=resume]").await;
    browser.click("#confirm").await;
    browser.wait_url("done=resume").await;
    browser.wait_for("a[data-action=pause]").await;
}

/// A scheduler with a job that is due once an hour, whose second run fails.
fn hourly(redlock: &Redlock) -> SchedulerHandle {
    let number = AtomicUsize::new(0);
    let work = move |_| {
        let fails = number.fetch_add(1, Ordering::SeqCst) == 1;
        async move { if fails { Err("no <b>disk</b>") } else { Ok(()) } }
    };
    let job = Job::new("import", Schedule::every(Duration::from_secs(3_600)), work);
    Scheduler::new(redlock.clone()).job(job).start().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn triggered_runs_are_drawn() {
    let fixture = Fixture::new().await;
    let handle = hourly(&fixture.redlock);
    let site = fixture.serve_jobs(handle.clone()).await;
    let browser = Browser::start().await;
    for (runs, result) in [(1, "finished"), (2, "failed"), (3, "finished")] {
        browser.open(&site.page("job?name=import")).await;
        browser.click("a[data-action=trigger]").await;
        browser.click("#confirm").await;
        browser.wait_url("done=trigger").await;
        browser.choose("#refresh", "1").await;
        browser.wait_for(&format!("#runs tbody tr:first-child[data-run={result}]")).await;
        assert_eq!(browser.count("tr[data-run]").await, runs);
    }
    assert_eq!(browser.count("svg.history rect").await, 6, "a bar and a lateness for each run");
    browser.wait_text("tr[data-run=failed]", "no <b>disk</b>").await;
    browser.screenshot("history").await;
    browser.open(&site.page("events")).await;
    browser.wait_text("li[data-event=trigger]", "import, by ada").await;
    browser.assert_no_errors(&[]).await;
    handle.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_of_another_process_is_stopped() {
    let fixture = Fixture::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let begun = Arc::clone(&runs);
    let work = move |_| {
        begun.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<Result<(), Infallible>>()
    };
    let job = Job::new("import", Schedule::every(Duration::from_secs(3_600)), work);
    let job = job.stop_grace(Duration::from_millis(100));
    let worker = Scheduler::new(fixture.process("worker-7").await).job(job).start().unwrap();
    let site = fixture.serve().await;
    let browser = Browser::start().await;
    browser.open(&site.page("job?name=import&refresh=1")).await;
    assert!(!browser.has("a[data-action=stop]").await, "there is no run");
    fixture.redlock.trigger_job("import").await.unwrap();
    eventually("the work has begun", async || runs.load(Ordering::SeqCst) == 1).await;
    browser.wait_text("#job", "worker-7").await;

    // Without refreshing, which would replace the link while it is clicked.
    browser.open(&site.page("job?name=import&refresh=0")).await;
    browser.click("a[data-action=stop]").await;
    browser.fill("#why", "the disk is full").await;
    browser.screenshot("stop").await;
    browser.click("#confirm").await;

    browser.wait_url("/job?name=import&done=stop&refresh=0").await;
    browser.wait_text("[role=status]", "asked to stop").await;
    browser.open(&site.page("job?name=import&refresh=1")).await;
    browser.wait_for("#runs tr[data-run=stopped]").await;
    browser.wait_gone("a[data-action=stop]").await;
    browser.wait_text("#job-events li[data-event=stop]", "ada").await;
    browser.assert_no_errors(&[]).await;
    worker.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_are_listed() {
    let (fixture, site, browser) = served().await;
    browser.open(&site.page("leaders?refresh=1")).await;
    assert!(!browser.has("tr[data-leader]").await);
    let other = fixture.process("worker-7").await;
    let leader = other.leader("shop");
    let leading = {
        let leader = leader.clone();
        tokio::spawn(async move { leader.run(|_| std::future::pending::<()>()).await })
    };
    browser.wait_text("tr[data-leader=shop]", "worker-7").await;
    leading.abort();
    browser.wait_gone("tr[data-leader]").await;
    browser.assert_no_errors(&[]).await;
}
