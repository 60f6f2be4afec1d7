//! Work that blocks past the end of its lock: the manager's thread reports it or ends the
//! process.

use std::{os::unix::process::ExitStatusExt, sync::mpsc, thread, time::Duration};

use tower_redlock::{
    Job, LockError, LockRequest, Redlock, RedlockBuilder, Schedule, Scheduler, error::LossCause,
    lock::Overrun,
};

use crate::fixture::{
    HANG_GUARD, Log, LoggedSpawner, RedisServer,
    child::{TestProcess, orders},
    connected, over, runtime,
};

const TTL: Duration = Duration::from_millis(500);

/// The work blocks until the warning is logged: only the manager's thread can have
/// written it.
#[tokio::test]
async fn warning_names_resource_and_overrun() {
    let server = RedisServer::start();
    let log = Log::new();
    let (url, spawner) = (server.url(), LoggedSpawner::start(&log));
    let (go_on, continued) = mpsc::channel::<()>();
    let blocked = thread::spawn(move || {
        let runtime = runtime();
        runtime.block_on(async {
            let builder = Redlock::builder().ttl(TTL).spawner(spawner);
            let redlock = connected(over(builder, [url])).await;
            let request = redlock.lock("invoice:7").auto_extend(false).wait(HANG_GUARD);
            request
                .run(|cx| async move {
                    continued.recv_timeout(HANG_GUARD).unwrap();
                    cx.ensure_valid().unwrap_err();
                })
                .await
        })
    });
    log.wait_for("WARN", &["resource=invoice:7", "blocks past the end of its lock", "by="]).await;

    go_on.send(()).unwrap();

    // The poll began under the lock, so its result counts.
    assert_eq!(blocked.join().unwrap(), Ok(()));
}

#[tokio::test]
async fn timely_stop_logs_nothing() {
    let server = RedisServer::start();
    let log = Log::new();
    let builder = Redlock::builder().ttl(TTL).spawner(LoggedSpawner::start(&log));
    let redlock = connected(over(builder, [server.url()])).await;
    let request = redlock.lock("x").auto_extend(false).wait(HANG_GUARD);
    let result = request.run(|_| std::future::pending::<()>()).await;
    let expired = LockError::Lost { cause: LossCause::Released };
    assert!(std::mem::discriminant(&result.unwrap_err()) == std::mem::discriminant(&expired));
    // Later than the check would have been.
    let lock = redlock.lock("x").wait(HANG_GUARD).auto_extend(false).await.unwrap();
    lock.lost().await;
    assert!(!log.text().contains("blocks past the end"), "{}", log.text());
}

#[test]
fn process_aborts_where_configured() {
    let server = RedisServer::start();
    let children = [
        "blocks_under_a_manager_that_aborts",
        "blocks_under_a_request_that_aborts",
        "blocks_as_a_job_that_aborts",
        "blocks_as_a_leader_that_aborts",
    ];

    for child in children {
        let output = TestProcess::start(module_path!(), child, &server.url()).output();
        assert_eq!(output.status.signal(), Some(6), "SIGABRT: {output:?}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("went on"), "{output:?}");
    }
}

/// A child process of the test above, as the tests that follow.
#[test]
fn blocks_under_a_manager_that_aborts() {
    let Some(url) = orders() else { return };
    block(url, Redlock::builder().overrun(Overrun::Abort), |request| request);
}

#[test]
fn blocks_under_a_request_that_aborts() {
    let Some(url) = orders() else { return };
    block(url, Redlock::builder(), |request| request.overrun(Overrun::Abort));
}

#[test]
fn blocks_as_a_job_that_aborts() {
    let Some(url) = orders() else { return };
    let runtime = runtime();
    runtime.block_on(async {
        let redlock = connected(over(Redlock::builder().ttl(TTL), [url])).await;
        let often = Schedule::every(Duration::from_millis(50));
        // Blocks until the manager ends the process; the limit is a hang guard.
        let job = Job::blocking("x", often, |_| thread::sleep(HANG_GUARD))
            .max_run(TTL)
            .overrun(Overrun::Abort);
        let _jobs = Scheduler::new(redlock).job(job).start().unwrap();
        // The process has to end meanwhile.
        tokio::time::sleep(HANG_GUARD).await;
        println!("went on");
    });
}

#[test]
fn blocks_as_a_leader_that_aborts() {
    let Some(url) = orders() else { return };
    let runtime = runtime();
    runtime.block_on(async {
        let redlock = connected(over(Redlock::builder().ttl(TTL), [url])).await;
        let leader = redlock.leader("x").stall_limit(TTL).overrun(Overrun::Abort);
        // Blocks until the manager ends the process; the limit is a hang guard.
        let _ = leader.run(|_| async { thread::sleep(HANG_GUARD) }).await;
        println!("went on");
    });
}

fn block(url: String, builder: RedlockBuilder, set: impl FnOnce(LockRequest) -> LockRequest) {
    let runtime = runtime();
    runtime.block_on(async {
        let redlock = connected(over(builder.ttl(TTL), [url])).await;
        let request = set(redlock.lock("x").auto_extend(false).wait(HANG_GUARD));
        // Blocks until the manager ends the process; the limit is a hang guard.
        let _ = request.run(|_| async { thread::sleep(HANG_GUARD) }).await;
        println!("went on");
    });
}
