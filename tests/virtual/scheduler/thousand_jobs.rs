//! A thousand jobs in one scheduler.

use std::time::{Duration, Instant};

use tower_redlock::{Job, Redlock, Schedule, Scheduler};

use crate::scheduler::scene::{MS, SECOND, Scene};

const JOBS: usize = 1_000;
const DAY: Duration = Duration::from_secs(24 * 3600);

#[test]
fn start_reads_each_node_twice() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job = |number| site.job(&format!("job {number}"), Schedule::every(DAY), Duration::ZERO);
    // The first replica registers the jobs.
    let first = scene.site("first");
    let _first = first.start((0..JOBS).map(job));
    scene.advance(60 * SECOND);
    let jobs = site.start((0..JOBS).map(job));
    scene.advance(60 * SECOND);
    let sent = site.wire.sent_by_kind();
    assert_eq!((sent["claims"], sent.len()), (2 * 5, 1), "500 jobs a call: {sent:?}");
    assert_eq!(jobs.handle.jobs().len(), JOBS);
}

#[test]
fn controls_are_read_together() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job = |number| site.job(&format!("job {number}"), Schedule::every(DAY), Duration::ZERO);
    let _jobs = site.start((0..JOBS).map(job));
    scene.advance(60 * SECOND);
    site.wire.all_sent();
    scene.advance(60 * SECOND);
    // Twice 500 jobs, every 4 to 5 s.
    let reads = site.wire.all_sent()["control"] / (2 * 5);
    assert!((12..=15).contains(&reads), "{reads}");
}

#[test]
fn registrations_are_spread_over_time() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job = |number| site.job(&format!("job {number}"), Schedule::every(DAY), Duration::ZERO);
    let _jobs = site.start((0..JOBS).map(job));
    let mut most = 0;
    let mut sum = 0;
    for _ in 0..60 {
        scene.advance(100 * MS);
        let sent = site.wire.sent();
        (most, sum) = (most.max(sent), sum + sent);
    }
    // An acquire, a promise, a claim and a release at each node.
    assert_eq!(sum, 5 * (2 + 4 * JOBS));
    // 20 jobs on average.
    assert!(most <= 5 * 4 * 60, "{most} operations within 100 ms");
    scene.advance(600 * SECOND);
    assert_eq!(site.wire.sent(), 0);
}

/// The CPU time of this process.
#[cfg(target_os = "linux")]
fn cpu_time() -> Duration {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(clock.tv_sec.unsigned_abs(), u32::try_from(clock.tv_nsec).unwrap())
}

/// Other tests of this process run meanwhile, so a child process is measured.
#[cfg(target_os = "linux")]
#[test]
fn idle_jobs_cost_little() {
    const ALONE: &str = "TOWER_REDLOCK_TEST_IDLE_JOBS";
    if std::env::var_os(ALONE).is_none() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "scheduler::thousand_jobs::idle_jobs_cost_little", "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        print!("{}", String::from_utf8_lossy(&output.stdout));
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let job =
            |number| Job::new(format!("job {number}"), Schedule::every(400 * DAY), |_| async {});
        let jobs = Scheduler::new(Redlock::embedded()).jobs((0..JOBS).map(job)).start().unwrap();
        while jobs.jobs().iter().any(|status| status.next_tick.is_none()) {
            tokio::task::yield_now().await;
        }
        let (began, before) = (Instant::now(), cpu_time());
        // CPU time is measured over an interval of real time.
        tokio::time::sleep(5 * SECOND).await;
        let share = cpu_time().saturating_sub(before).as_secs_f64() / began.elapsed().as_secs_f64();
        println!("{JOBS} idle jobs: {:.3} % of one core", share * 100.0);
        assert!(share < 0.5);
        let report = jobs.shutdown(SECOND).await;
        assert!(report.stopped.is_empty());
    });
}
