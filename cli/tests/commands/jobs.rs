//! `jobs`: what the servers know of the fleet's jobs, and commands for all replicas.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, Semaphore};
use tower_redlock::{
    Job, Redlock, Schedule, Scheduler, schedule::WallTime, scheduler::JobRunResult,
};

use crate::{
    fixture::{enrolled, redlock},
    program::{fleet, with_fleet},
    support::{RedisServer, eventually_async},
};

/// Runs the tick of an hour without a scheduler.
async fn tick(redlock: &Redlock, job: &str, result: Result<(), &'static str>) {
    let hourly = Schedule::every(Duration::from_secs(3_600));
    let _ = redlock.job_tick(job, hourly).run(|_| async { result }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_listed() {
    let (servers, fleet) = with_fleet().await;
    redlock(&servers, &["jobs", "list"]).is(0, &[]);
    tick(&fleet, "report", Ok(())).await;
    tick(&fleet, "import\u{202e}", Err("no disk\nsecond line")).await;
    for args in [&["jobs"][..], &["jobs", "ls"]] {
        let listed = redlock(&servers, args);
        listed.is(0, &["report", "idle", "finished", "failed", "night-shift", r"import\u{202e}"]);
    }
    redlock(&servers, &["jobs", "report"]).is(64, &["unrecognized subcommand"]);
    redlock(&servers, &["jobs", "list", "rep*"]).is(0, &["report"]).never_says("import");
    let json = redlock(&servers, &["jobs", "list", "report", "--json"]).is(0, &[]).json();
    assert_eq!((&json["job"], &json["state"]), (&"report".into(), &"idle".into()));
    assert_eq!(json["last"]["result"], "finished");

    let history = redlock(&servers, &["jobs", "history", "import\u{202e}"]);
    history.is(0, &["TICK", "failed", "no disk", "night-shift"]).never_says("second line");
    let json = redlock(&servers, &["jobs", "history", "report", "--json"]).is(0, &[]).json();
    assert_eq!(json["runs"][0]["result"], "finished");
    assert_eq!(json["control"]["paused"], serde_json::Value::Null);
    redlock(&servers, &["jobs", "history", "other"]).is(66, &["the servers know no job \"other\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn running_job_is_shown() {
    let (servers, fleet) = with_fleet().await;
    tick(&fleet, "report", Ok(())).await;
    let lock = tower_redlock::Resource::of_job("report").unwrap();
    let running = fleet.lock(lock).await.unwrap();
    redlock(&servers, &["jobs", "list"]).is(0, &["running", "night-shift"]);
    redlock(&servers, &["status"]).is(0, &["1 job\n", "report", "running"]);
    let status = redlock(&servers, &["status", "--json"]).is(0, &[]).json();
    assert_eq!(status["locks"]["jobs"][0]["state"], "running");
    let json = redlock(&servers, &["jobs", "list", "--json"]).is(0, &[]).json();
    assert_eq!(json["running"]["token"], running.fencing_token().get());
    redlock(&servers, &["jobs", "forget", "report", "--yes"]).is(75, &["held"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_parallel_job_are_shown() {
    let servers = RedisServer::start_n(3);
    let (running, gate) = (Arc::<AtomicUsize>::default(), Arc::new(Semaphore::new(0)));
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let (running, gate) = (Arc::clone(&running), Arc::clone(&gate));
        let job = Job::new("import", Schedule::every(Duration::from_millis(200)), move |_| {
            let (running, gate) = (Arc::clone(&running), Arc::clone(&gate));
            async move {
                running.fetch_add(1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                Ok::<_, Infallible>(())
            }
        });
        let scheduler = Scheduler::new(fleet(&servers).await).job(job.parallel(2));
        replicas.push(scheduler.start().unwrap());
    }
    eventually_async("two ticks run", async || running.load(Ordering::SeqCst) == 2).await;

    redlock(&servers, &["jobs", "list"]).is(0, &["running (2 runs)", "night-shift"]);
    let json = redlock(&servers, &["jobs", "list", "--json"]).is(0, &[]).json();
    let slots = [&json["running"]["slot"], &json["running_beside"][0]["slot"]];
    assert!(slots == [0, 1] || slots == [1, 0], "{json}");
    redlock(&servers, &["ls"]).is(0, &["job:import, slot 0", "job:import, slot 1"]);

    gate.add_permits(1_000);
    for jobs in replicas {
        jobs.shutdown(Duration::from_secs(60)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_stops_all_replicas() {
    let (servers, fleet) = with_fleet().await;
    let pause = ["jobs", "pause", "report", "--anyway", "--why", "disk full", "--by", "ann"];
    let paused = redlock(&servers, &pause);
    paused.is(0, &["is paused on all replicas, until it is resumed"]);
    tick(&fleet, "report", Ok(())).await;
    assert_eq!(fleet.job_history("report").await.unwrap(), []);
    redlock(&servers, &["jobs", "history", "report"]).is(0, &["paused by ann", "disk full"]);
    let pause = fleet.job_control("report").await.unwrap().paused.unwrap();
    assert_eq!((&*pause.by, pause.why.as_deref(), pause.until), ("ann", Some("disk full"), None));

    redlock(&servers, &["jobs", "resume", "report"]).is(0, &["runs again from its next tick"]);
    tick(&fleet, "report", Ok(())).await;
    redlock(&servers, &["jobs", "resume", "report"]).is(0, &["was not paused"]);
    assert_eq!(fleet.job_history("report").await.unwrap()[0].result, JobRunResult::Finished);

    let json = redlock(&servers, &["jobs", "pause", "report", "--for", "1h", "--json"]).json();
    assert!(json["control"]["paused"]["until"].is_string(), "{json}");
    let by = json["control"]["paused"]["by"].as_str().unwrap();
    assert!(by.contains("redlock@"), "{by}");
    let past = ["jobs", "pause", "report", "--until", "2020-01-01T00:00:00Z"];
    redlock(&servers, &past).is(64, &["the time has passed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_runs_on_one_replica() {
    let (servers, fleet) = with_fleet().await;
    let ran = Arc::new(Notify::new());
    let scheduler = Scheduler::new(fleet.clone()).job({
        let ran = Arc::clone(&ran);
        Job::new("report", Schedule::every(Duration::from_secs(86_400)), move |_| {
            let ran = Arc::clone(&ran);
            async move {
                ran.notify_one();
                Ok::<_, Infallible>(())
            }
        })
    });
    let jobs = scheduler.start().unwrap();
    let json = redlock(&servers, &["jobs", "trigger", "report", "--json"]).is(0, &[]).json();
    let id = json["trigger"].as_u64().unwrap();
    tokio::time::timeout(Duration::from_secs(60), ran.notified()).await.unwrap();
    eventually_async("the run is in the history", async || {
        let history = fleet.job_history("report").await.unwrap();
        history.iter().any(|run| run.trigger == Some(id) && run.result == JobRunResult::Finished)
    })
    .await;
    redlock(&servers, &["jobs", "history", "report"]).is(0, &[&format!("requested: {id}")]);
    jobs.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_job_is_gone() {
    let (servers, fleet) = with_fleet().await;
    tick(&fleet, "report", Ok(())).await;
    redlock(&servers, &["jobs", "forget", "report"]).is(64, &["no terminal", "nothing was done"]);
    redlock(&servers, &["jobs", "list"]).is(0, &["report"]);
    redlock(&servers, &["jobs", "forget", "report", "--yes"]).is(0, &["is forgotten"]);
    redlock(&servers, &["jobs", "list"]).is(0, &[]).never_says("report");
    assert_eq!(fleet.job_history("report").await.unwrap(), []);
}

/// A success for nothing hides a misspelt name.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_jobs_are_66() {
    let (servers, fleet) = with_fleet().await;
    tick(&fleet, "report", Ok(())).await;
    for args in [
        &["jobs", "pause", "reprot"][..],
        &["jobs", "resume", "reprot"],
        &["jobs", "trigger", "reprot"],
        &["jobs", "stop", "reprot"],
        &["jobs", "history", "reprot"],
        &["jobs", "next", "reprot"],
        &["jobs", "forget", "reprot", "--yes"],
    ] {
        redlock(&servers, args)
            .is(66, &["know no job \"reprot\"", "they know report"])
            .never_says("all replicas");
    }
    let json = redlock(&servers, &["jobs", "list", "--json"]).is(0, &[]).json();
    assert_eq!(json["job"], "report", "nothing is left of the others");
    redlock(&servers, &["jobs", "stop", "report"]).is(0, &["is not running"]);
    redlock(&servers, &["jobs", "pause", "new", "--anyway"]).is(0, &["is paused"]);
    redlock(&servers, &["jobs", "resume", "new"]).is(0, &["runs again from its next tick"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn next_ticks_are_shown() {
    let (servers, fleet) = with_fleet().await;
    redlock(&servers, &["jobs", "next", "other"]).is(66, &["they know none"]);
    let berlin = Schedule::cron("30 3 * * *").unwrap().in_tz("Europe/Berlin").unwrap();
    let request = fleet.job_tick("report", berlin.clone());
    request.run(|_| async { Ok::<_, Infallible>(()) }).await.unwrap();

    let json =
        redlock(&servers, &["jobs", "next", "report", "-n", "3", "--json"]).is(0, &[]).json();
    let expected: Vec<_> = Schedule::from(berlin)
        .ticks(std::time::SystemTime::now().into(), WallTime::MAX)
        .take(3)
        .map(|tick| serde_json::Value::from(tick.to_string()))
        .collect();
    assert_eq!(json["ticks"].as_array(), Some(&expected));
    assert_eq!(json["schedule"], "cron 0 30 3 * * * in Europe/Berlin");
    let shown = redlock(&servers, &["jobs", "next", "report"]);
    shown.is(0, &["every day at 03:30 (Europe/Berlin)", expected[0].as_str().unwrap(), "in "]);

    redlock(&servers, &["jobs", "pause", "report", "--by", "ann"]).is(0, &[]);
    redlock(&servers, &["jobs", "next", "report"]).is(0, &["paused by ann until it is resumed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_rules_have_no_preview() {
    let (servers, fleet) = with_fleet().await;
    let rule = Schedule::custom("banking days", |after: WallTime| {
        Schedule::every(Duration::from_secs(60)).next(after, None)
    });
    let request = fleet.job_tick("report", rule);
    request.run(|_| async { Ok::<_, Infallible>(()) }).await.unwrap();

    let shown = redlock(&servers, &["jobs", "next", "report"]);
    shown.is(0, &["custom banking days: only the program knows its ticks"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_jobs_are_forgotten() {
    let (servers, fleet) = with_fleet().await;
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let old = fleet.job_tick("old", Schedule::at(long_ago));
    old.run(|_| async { Ok::<_, Infallible>(()) }).await.unwrap();
    tick(&fleet, "report", Ok(())).await;

    redlock(&servers, &["jobs", "forget"]).is(64, &["--unused-for"]);
    redlock(&servers, &["jobs", "forget", "old", "--unused-for", "1d"]).is(64, &["cannot be used"]);
    let forget = |time, more: &[&'static str]| {
        let mut args = vec!["jobs", "forget", "--unused-for", time];
        args.extend_from_slice(more);
        redlock(&servers, &args)
    };
    forget("1h", &["--yes"]).is(0, &["no job has been unused for that time"]);
    eventually_async("it has been unused for a second", async || forget("1s", &[]).code == 64)
        .await;
    forget("1s", &[]).is(64, &["no terminal", "nothing was done"]);
    redlock(&servers, &["jobs", "list"]).is(0, &["old", "report"]);
    forget("1s", &["--yes"]).is(0, &["old unused since", "1 forgotten"]);
    redlock(&servers, &["jobs", "list"]).is(0, &["report"]).never_says("old");
}

#[test]
fn servers_that_are_down_are_69() {
    let mut servers = enrolled(3);
    servers.iter_mut().skip(1).for_each(RedisServer::kill);
    for args in [
        &["jobs", "list"][..],
        &["jobs", "history", "a"],
        &["jobs", "pause", "a"],
        &["jobs", "forget", "a", "--yes"],
    ] {
        redlock(&servers, args).is(69, &[]);
    }
}
