//! Processes that are frozen or killed during their work.

use std::{convert::Infallible, path::Path, time::Duration};

use rustix::process::Signal;
use tower_redlock::{
    LockError, Redlock, RedlockBuilder,
    once::{Once, OnceError, UnknownOutcome},
};

use crate::fixture::{
    RedisServer, TempDir,
    child::{TestProcess, orders},
    connected, eventually, eventually_async, over,
};

const TTL: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const KEY: &str = "order:7";
const WORKING: &str = "working";
const GO_ON: &str = "go-on";

fn settings() -> RedlockBuilder {
    Redlock::builder().ttl(TTL).node_timeout(TTL / 10)
}

/// Does the work, which ends when the test permits it.
#[tokio::test]
async fn worker() {
    let Some(orders) = orders() else { return };
    let mut orders = orders.split(' ');
    let (kind, files) = (orders.next().unwrap(), Path::new(orders.next().unwrap()));
    let redlock = connected(over(settings().owner("worker"), orders)).await;
    let unknown = if kind == "hold" { UnknownOutcome::Hold(HOUR) } else { UnknownOutcome::Release };
    let ended = redlock.once(KEY).unknown(unknown).wait(HOUR).run(|_| async {
        std::fs::write(files.join(WORKING), "").unwrap();
        // The work stays within one poll, so that its end is reported, however late.
        while !files.join(GO_ON).exists() {
            // Another process writes the file: this is the polling interval.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok::<_, Infallible>(())
    });
    match ended.await {
        Ok(Once::RanUnrecorded((), LockError::Lost { .. })) => println!("refused"),
        ended => println!("ended {ended:?}"),
    }
    redlock.shutdown().await;
}

struct Worker {
    processes: TestProcess,
    files: TempDir,
}

impl Worker {
    /// A process during the work.
    fn start(kind: &str, servers: &[RedisServer]) -> Self {
        let files = TempDir::new();
        let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
        let orders = format!("{kind} {} {}", files.path().display(), urls.join(" "));
        let processes = TestProcess::start(module_path!(), "worker", &orders);
        eventually("the process works", || files.path().join(WORKING).exists());
        Self { processes, files }
    }

    fn signal(&self, signal: Signal) {
        self.processes.signal(signal);
    }
}

async fn run(redlock: &Redlock) -> Result<Once<()>, OnceError<Infallible>> {
    redlock.once(KEY).run(|_| async { Ok::<_, Infallible>(()) }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn process_frozen_past_validity_is_refused() {
    let servers = RedisServer::start_n(3);
    let worker = Worker::start("release", &servers);
    worker.signal(Signal::STOP);
    let settings = settings().owner("retry");
    let redlock = connected(over(settings, servers.iter().map(RedisServer::url))).await;
    eventually_async("another process runs the work", async || {
        matches!(run(&redlock).await, Ok(Once::Ran(())))
    })
    .await;
    std::fs::write(worker.files.path().join(GO_ON), "").unwrap();
    worker.signal(Signal::CONT);
    let output = worker.processes.output();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.contains("refused"), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let ended = run(&redlock).await;
    let Ok(Once::AlreadyDone { by, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(&*by, "retry");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_process_frees_key_after_ttl() {
    let servers = RedisServer::start_n(3);
    let worker = Worker::start("release", &servers);
    let redlock = connected(over(settings(), servers.iter().map(RedisServer::url))).await;
    assert!(matches!(run(&redlock).await, Ok(Once::InProgress { unknown: false, .. })));
    worker.signal(Signal::KILL);
    drop(worker);
    eventually_async("the key is free", async || matches!(run(&redlock).await, Ok(Once::Ran(()))))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_process_leaves_unknown_key() {
    let servers = RedisServer::start_n(3);
    let worker = Worker::start("hold", &servers);
    let redlock = connected(over(settings(), servers.iter().map(RedisServer::url))).await;
    worker.signal(Signal::KILL);
    drop(worker);
    eventually_async("the outcome is unknown", async || {
        matches!(run(&redlock).await, Ok(Once::InProgress { unknown: true, .. }))
    })
    .await;
    let status = redlock.once(KEY).status().await.unwrap().expect("unknown");
    assert_eq!(status.by.as_deref(), Some("worker"));
    redlock.once(KEY).mark_done().await.unwrap();
    let ended = run(&redlock).await;
    assert!(matches!(ended, Ok(Once::AlreadyDone { .. })), "{ended:?}");
}
