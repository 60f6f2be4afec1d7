//! The metrics, as a recorder of the `metrics` facade sees them.

mod recorder;
mod scrape;
#[cfg(feature = "testing")]
mod simulated;
#[path = "../support/mod.rs"]
mod support;

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Waker},
    thread,
    time::Duration,
};

use recorder::{Numbers, Series};
use support::{HANG_GUARD, RedisServer, acl, eventually_async};
use tower_redlock::{
    LockError, Redlock, RedlockBuilder,
    node::{EmbeddedNodes, NodeHealth, redis::RestartGuard},
};

/// One test, as a process has one recorder.
#[tokio::test]
async fn metrics_name_no_resource() {
    let numbers = everything_recorded().await;

    let all = numbers.all();
    assert!(all.len() > 9, "{all:?}");
    let described = numbers.described();
    for Series { name, label, kind } in all {
        assert!(name.starts_with("redlock_"), "{name}");
        assert_eq!(described.get(&name).map(|of| of.kind), Some(kind), "{name} is described");
        let (key, text) = label.unwrap_or_default();
        let keys = [
            "",
            "outcome",
            "mode",
            "outcome,mode",
            "cause",
            "leader",
            "node",
            "limit",
            "job_name",
            "job_name,outcome",
            "job_name,reason",
            "job_name,kind",
        ];
        assert!(keys.contains(&&*key), "{key}");
        assert!(!text.contains("secret"), "a resource's name is a label: {key}={text}");
    }
}

/// Returns the recorder after each metric was recorded.
async fn everything_recorded() -> Numbers {
    let numbers = Numbers::default();
    metrics::set_global_recorder(numbers.clone()).expect("it is the first");
    let nodes = EmbeddedNodes::new(3);
    let builder = Redlock::builder().nodes_from(&nodes).ttl(Duration::from_secs(1));
    let redlock = builder.build().unwrap();

    acquires_holds_and_waiters(&redlock, &numbers).await;
    let other = Redlock::builder().nodes_from(&nodes).build().unwrap();
    waiters_for_another_process(&redlock, &other, &numbers).await;
    take_overs(&redlock, &numbers).await;
    shared_locks(&redlock, &numbers).await;
    renewals_losses_and_stops(&redlock, &numbers).await;
    nodes_up_and_voting(&numbers).await;
    failed_activations(&numbers).await;
    probations(&numbers).await;
    records_copied(&numbers).await;
    #[cfg(feature = "scheduler")]
    jobs(&redlock, &numbers).await;
    #[cfg(feature = "scheduler")]
    two_schedules(&redlock, &numbers).await;
    #[cfg(feature = "scheduler")]
    leaders(&redlock, &numbers).await;
    work_done_once(&redlock, &numbers).await;
    records_over_the_quota(&nodes, &numbers).await;
    #[cfg(feature = "http")]
    responses_and_their_keys(&redlock, &numbers).await;
    #[cfg(feature = "testing")]
    owed_records(&numbers);
    numbers
}

async fn acquires_holds_and_waiters(redlock: &Redlock, numbers: &Numbers) {
    let acquires = |outcome| {
        let labels = format!("{outcome},exclusive");
        numbers.get("redlock_acquire_seconds", Some(("outcome,mode", &labels)))
    };
    let holds = || numbers.get("redlock_hold_seconds", Some(("mode", "exclusive")));
    let lock = redlock.lock("secret").await.unwrap();
    redlock.lock("secret").await.unwrap_err();
    let mut waiting = redlock.lock("secret").wait(HANG_GUARD).into_future();
    let mut task = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut waiting).poll(&mut task).is_pending());
    assert_eq!(numbers.get("redlock_waiters", None), 1);
    assert_eq!((acquires("acquired"), acquires("held")), (1, 1));
    assert_eq!(holds(), 0, "it is held still");
    drop(waiting);
    assert_eq!(numbers.get("redlock_waiters", None), 0);
    drop(lock);
    assert_eq!(holds(), 1);

    let lock = redlock.lock("secret").await.unwrap();
    let waited = redlock.lock("secret").wait(Duration::from_millis(1)).await;
    assert!(matches!(waited, Err(LockError::WaitTimedOut { .. })), "{waited:?}");
    assert_eq!((acquires("acquired"), acquires("wait_timed_out")), (2, 1));
    let next = redlock.lock("secret").wait(HANG_GUARD).into_future();
    drop(lock);
    drop(next.await.unwrap());
    assert_eq!(numbers.get("redlock_waiters", None), 0, "who had its turn waits no more");
}

async fn waiters_for_another_process(redlock: &Redlock, other: &Redlock, numbers: &Numbers) {
    let held = other.lock("secret").await.unwrap();
    let mut waiting = redlock.lock("secret").wait(HANG_GUARD).into_future();
    let mut task = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut waiting).poll(&mut task).is_pending());
    assert_eq!(numbers.get("redlock_waiters", None), 1);
    drop(held);
    drop(waiting.await.unwrap());
    assert_eq!(numbers.get("redlock_waiters", None), 0);
}

async fn take_overs(redlock: &Redlock, numbers: &Numbers) {
    let taken_over = || numbers.get("redlock_take_overs_total", None);
    for expected in [0, 1, 2] {
        drop(redlock.lock("secret").linger(Duration::from_secs(1)).await.unwrap());
        assert_eq!(taken_over(), expected);
    }
    drop(redlock.lock("secret").await.unwrap());
    assert_eq!(taken_over(), 3);
}

async fn shared_locks(redlock: &Redlock, numbers: &Numbers) {
    let one = redlock.lock("secret").shared().await.unwrap();
    let two = redlock.lock("secret").shared().await.unwrap();
    redlock.lock("secret").await.unwrap_err();
    drop((one, two));

    let labels = Some(("outcome,mode", "acquired,shared"));
    assert_eq!(numbers.get("redlock_acquire_seconds", labels), 2);
    assert_eq!(numbers.get("redlock_hold_seconds", Some(("mode", "shared"))), 2);
    assert_eq!(numbers.get("redlock_joins_total", None), 1);
}

async fn renewals_losses_and_stops(redlock: &Redlock, numbers: &Numbers) {
    let renewals = numbers.get("redlock_renewals_total", None);
    let lock = redlock.lock("secret").await.unwrap();
    lock.extend().await.unwrap();
    drop(lock);
    assert!(numbers.get("redlock_renewals_total", None) > renewals);

    let short = Duration::from_millis(200);
    let request = redlock.lock("secret").max_hold(short);
    let stopped = request.run(|_| std::future::pending::<()>()).await;
    assert!(matches!(stopped, Err(LockError::Lost { .. })), "{stopped:?}");
    let ended = || {
        let losses = numbers.get("redlock_losses_total", Some(("cause", "max_hold")));
        let stops = numbers.get("redlock_hard_stops_total", Some(("cause", "max_hold")));
        (losses, stops, numbers.get("redlock_overruns_total", None))
    };
    assert_eq!(ended(), (1, 1, 0));

    let request = redlock.lock("secret").max_hold(short);
    let overran = request
        .run(|cx| async move {
            while cx.ensure_valid().is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
            // Past the end of the validity, which is after the hard stop.
            thread::sleep(Duration::from_millis(50));
        })
        .await;
    assert_eq!(overran, Ok(()));
    assert_eq!(ended(), (2, 1, 1), "it ended by itself, too late");
}

async fn nodes_up_and_voting(numbers: &Numbers) {
    let mut server = RedisServer::start();
    let builder = Redlock::builder().named_node("one", server.url());
    let redlock = builder.restart_guard(RestartGuard::Off).build().unwrap();
    redlock.ready().await.unwrap();
    let label = Some(("node", "one"));
    let both = || {
        let up = numbers.get("redlock_node_up", label);
        (up, numbers.get("redlock_node_voting", label))
    };
    eventually_async("it is up and votes", async || both() == (1, 1)).await;
    // The value comes from the server's health check, once a second.
    eventually_async("its queue is measured", async || {
        numbers.all().iter().any(|series| series.name == "redlock_node_queue_seconds")
    })
    .await;
    server.set_config("maxmemory", "1");
    redlock.lock("secret").await.unwrap_err();
    eventually_async("it is up and refuses", async || both() == (1, 0)).await;
    server.kill();
    eventually_async("it is down", async || both() == (0, 0)).await;
}

async fn failed_activations(numbers: &Numbers) {
    let mut servers = RedisServer::start_n(3);
    let named = |builder: RedlockBuilder, (i, server): (usize, &RedisServer)| {
        builder.named_node(format!("guarded-{i}"), server.url())
    };
    let builder = Redlock::builder().ttl(Duration::from_millis(500));
    let redlock = servers.iter().enumerate().fold(builder, named).build().unwrap();
    eventually_async("all vote", async || redlock.health().iter().all(NodeHealth::is_voting)).await;
    let failed = || numbers.get("redlock_failed_activations_total", Some(("node", "guarded-2")));
    // An activation may fail while the set starts.
    let before = failed();
    // The node can't read from the other nodes.
    let rules: Vec<_> = acl::rules().into_iter().filter(|rule| *rule != "+hgetall").collect();
    for server in &servers[..2] {
        server.set_rules(&rules);
    }
    servers[2].restart();
    eventually_async("activations fail", async || failed() > before + 1).await;
}

async fn probations(numbers: &Numbers) {
    let mut servers = RedisServer::start_n(3);
    let named = |builder: RedlockBuilder, (i, server): (usize, &RedisServer)| {
        builder.named_node(format!("restarts-{i}"), server.url())
    };
    let builder = Redlock::builder().ttl(Duration::from_secs(1));
    let redlock = servers.iter().enumerate().fold(builder, named).build().unwrap();
    let gauges = |node| {
        ["redlock_node_up", "redlock_node_voting", "redlock_node_probation"]
            .map(|name| numbers.gauge(name, ("node", node)))
    };
    let become_at = async |node, expected: [f64; 3]| {
        eventually_async(&format!("{node} becomes {expected:?}"), async || {
            gauges(node) == expected.map(Some)
        })
        .await;
    };
    for node in ["restarts-0", "restarts-1", "restarts-2"] {
        become_at(node, [1.0, 1.0, 0.0]).await;
    }

    servers[1].restart();

    become_at("restarts-1", [1.0, 0.0, 1.0]).await;
    assert_eq!(gauges("restarts-0"), [1.0, 1.0, 0.0].map(Some), "the others vote");
    become_at("restarts-1", [1.0, 1.0, 0.0]).await;
    drop(redlock);
}

async fn records_copied(numbers: &Numbers) {
    let servers = RedisServer::start_n(3);
    let nodes = ["x", "y", "z"].into_iter().zip(&servers);
    let builder = Redlock::builder().ttl(Duration::from_secs(1));
    let named = |builder: RedlockBuilder, (name, server): (&str, &RedisServer)| {
        // The default user, whose permissions change.
        builder.named_node(name, server.plain_url())
    };
    let redlock = nodes.fold(builder, named).build().unwrap();
    redlock.ready().await.unwrap();
    let of_y = |name| numbers.get(name, Some(("node", "y")));
    servers[0].set("redlock:done:secret", "d 12345");
    servers[2].cli(&["ACL", "SETUSER", "default", "-scan"]);
    servers[1].cli(&["FLUSHALL"]);
    eventually_async("a record is copied", async || of_y("redlock_copied_records_total") == 1)
        .await;
    assert_eq!(of_y("redlock_node_copying"), 1);
    assert_eq!(of_y("redlock_copied_bytes_total"), 19 + 7, "key and value");
    servers[2].cli(&["ACL", "SETUSER", "default", "+scan"]);
    eventually_async("all is copied", async || of_y("redlock_node_copying") == 0).await;
    assert_eq!(of_y("redlock_copied_records_total"), 1);
}

#[cfg(feature = "scheduler")]
async fn jobs(redlock: &Redlock, numbers: &Numbers) {
    use tower_redlock::{Job, Schedule, Scheduler};

    let never = Schedule::at(std::time::SystemTime::now() + Duration::from_secs(3600));
    let often = Schedule::every(Duration::from_millis(20));
    let lock = redlock.lock(tower_redlock::Resource::of_job("held").unwrap()).await.unwrap();
    let (go_on, told) = tokio::sync::watch::channel(false);
    let jobs = Scheduler::new(redlock.clone())
        .job(Job::new("fails", never, |_| async { Err::<(), _>("on purpose") }))
        .job(Job::new("held", often.clone(), |_| async {}))
        .job(Job::new("slow", often, move |_| {
            let mut told = told.clone();
            async move { drop(told.wait_for(|go_on| *go_on).await) }
        }))
        .start()
        .unwrap();
    let runs = |of: &str| numbers.get("redlock_job_run_seconds", Some(("job_name,outcome", of)));
    jobs.trigger_here("fails").unwrap();
    eventually_async("ticks come during the first run", async || {
        numbers.get("redlock_job_skips_total", Some(("job_name,reason", "slow,overlap"))) > 1
    })
    .await;
    go_on.send_replace(true);
    eventually_async("jobs are counted", async || {
        let held = numbers.get("redlock_job_skips_total", Some(("job_name,reason", "held,held")));
        let missed = numbers
            .get("redlock_job_missed_ticks_total", Some(("job_name,reason", "slow,overlap")));
        runs("fails,failed") == 1 && runs("slow,finished") > 1 && held > 0 && missed > 0
    })
    .await;
    assert_eq!(runs("held,finished"), 0);
    let at = |name: &str, job| numbers.gauge(name, ("job_name", job));
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let succeeded =
        at("redlock_job_last_success_timestamp_seconds", "slow").expect("it has finished");
    assert!((now - 60.0..=now).contains(&succeeded), "{succeeded}");
    assert_eq!(at("redlock_job_last_success_timestamp_seconds", "fails"), None);
    let next = at("redlock_job_next_tick_timestamp_seconds", "fails").expect("it is known");
    assert!((now + 3_500.0..now + 3_700.0).contains(&next), "{next}");
    drop(lock);
    jobs.shutdown(HANG_GUARD).await;
    assert_eq!(at("redlock_job_next_tick_timestamp_seconds", "fails"), Some(0.0), "it has ended");
}

#[cfg(feature = "scheduler")]
async fn two_schedules(redlock: &Redlock, numbers: &Numbers) {
    use tower_redlock::{Job, Schedule, Scheduler};

    let every = |millis| {
        let schedule = Schedule::every(Duration::from_millis(millis));
        Scheduler::new(redlock.clone()).job(Job::new("two", schedule, |_| async {})).start()
    };
    let both = [every(20).unwrap(), every(30).unwrap()];
    eventually_async("the conflict is counted", async || {
        numbers.get("redlock_job_conflicts_total", Some(("job_name,kind", "two,schedule"))) > 0
    })
    .await;
    for jobs in both {
        jobs.shutdown(HANG_GUARD).await;
    }
}

#[cfg(feature = "scheduler")]
async fn leaders(redlock: &Redlock, numbers: &Numbers) {
    let leads = || numbers.gauge("redlock_leader", ("leader", "main"));
    let leader = redlock.leader("main");
    let running = tokio::spawn(leader.clone().run(|term| async move { term.stopping().await }));
    eventually_async("it leads", async || leads() == Some(1.0)).await;
    leader.stop().await;
    running.await.unwrap().unwrap();
    assert_eq!(leads(), Some(0.0), "it has stopped");

    let dropped = tokio::spawn(redlock.leader("main").run(|_| std::future::pending::<()>()));
    eventually_async("it leads again", async || leads() == Some(1.0)).await;
    dropped.abort();
    dropped.await.unwrap_err();
    assert_eq!(leads(), Some(0.0), "it was dropped");
}

async fn work_done_once(redlock: &Redlock, numbers: &Numbers) {
    let once = |outcome| numbers.get("redlock_once_total", Some(("outcome", outcome)));
    let run = |ended: Result<u8, u8>| redlock.once("secret").run(move |_| async move { ended });
    run(Err(1)).await.unwrap_err();
    assert_eq!(once("failed"), 1);
    let forever = std::future::pending::<Result<u8, u8>>();
    let mut running = Box::pin(redlock.once("secret").run(|_| forever));
    let mut task = Context::from_waker(Waker::noop());
    assert!(running.as_mut().poll(&mut task).is_pending());
    run(Ok(1)).await.unwrap();
    assert_eq!(once("in_progress"), 1);
    drop(running);
    run(Ok(1)).await.unwrap();
    run(Ok(1)).await.unwrap();
    assert_eq!((once("ran"), once("already_done"), once("lost")), (1, 1, 0));
}

async fn records_over_the_quota(nodes: &EmbeddedNodes, numbers: &Numbers) {
    let redlock = Redlock::builder().nodes_from(nodes).max_records(1).build().unwrap();
    let run = |key: &'static str| redlock.once(key).run(|_| async { Ok::<_, ()>(()) });
    run("secret 1").await.unwrap();
    run("secret 2").await.unwrap_err();
    run("secret 3").await.unwrap_err();
    assert_eq!(numbers.get("redlock_over_quota_total", Some(("limit", "max_records"))), 2);
}

/// Responses of requests that ran, by what they mean for their keys.
#[cfg(feature = "http")]
async fn responses_and_their_keys(redlock: &Redlock, numbers: &Numbers) {
    use http::{Request, Response};
    use tower::{Layer, ServiceExt, service_fn};
    use tower_redlock::{OnceLayer, once::http::ServerErrors};

    let once = |outcome| numbers.get("redlock_once_total", Some(("outcome", outcome)));
    let layer = |errors| {
        let key = |request: &Request<u16>| format!("secret {}", request.body());
        OnceLayer::new(redlock.clone(), "hook", key).http().server_errors(errors)
    };
    let call = async |status: u16, errors| {
        let answer = service_fn(async |request: Request<u16>| {
            let response = Response::builder().status(*request.body());
            Ok::<_, std::convert::Infallible>(
                response.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap(),
            )
        });
        let answered = layer(errors).layer(answer).oneshot(Request::new(status)).await.unwrap();
        assert_eq!(answered.status(), status);
    };
    let ran = once("ran");

    call(502, ServerErrors::Release).await;
    call(404, ServerErrors::Release).await;
    assert_eq!((once("ran"), once("freed"), once("uncertain")), (ran, 2, 0));

    call(502, ServerErrors::Hold(Duration::from_secs(60))).await;
    assert_eq!((once("ran"), once("freed"), once("uncertain")), (ran, 2, 1));

    call(503, ServerErrors::Keep).await;
    call(204, ServerErrors::Release).await;
    assert_eq!((once("ran"), once("freed"), once("uncertain")), (ran + 2, 2, 1));
}

/// Records of two requests that no node stores at once: of the first while its lock is valid, of the second
/// never.
#[cfg(feature = "testing")]
fn owed_records(numbers: &Numbers) {
    use tower_redlock::testing::{ManualClock, Nodes};

    let once = |outcome| numbers.get("redlock_once_total", Some(("outcome", outcome)));
    let owed = || numbers.get("redlock_owed_ends", None);
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let replica = nodes.replica("secret");
    let redlock = replica.redlock();
    let begin = |key: &'static str| {
        let frozen = nodes.clone();
        let work = redlock.once(key).run(|_| async move {
            frozen.freeze(0..3);
            Ok::<_, ()>(())
        });
        clock.spawn(work)
    };
    let ran = once("ran");

    let mut work = begin("secret 1");
    clock.advance(Duration::from_millis(700));
    drop(work.take().expect("it is answered").unwrap());
    assert_eq!((once("owed"), once("unrecorded"), owed()), (1, 0, 1));
    nodes.thaw(0..3);
    clock.advance(Duration::from_secs(2));
    assert_eq!((once("owed"), once("unrecorded"), owed()), (1, 0, 0));

    let mut work = begin("secret 2");
    clock.advance(Duration::from_secs(30));
    drop(work.take().expect("it is answered").unwrap());
    assert_eq!((once("owed"), once("unrecorded"), owed()), (2, 1, 1));
    nodes.thaw(0..3);
    clock.advance(Duration::from_secs(2));
    assert_eq!((once("owed"), once("unrecorded"), owed()), (2, 1, 0));
    assert_eq!(once("ran"), ran, "none was recorded when it was answered");
}
