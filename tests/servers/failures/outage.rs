//! Logs and health of an outage.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tower_redlock::{
    error::Reason,
    node::redis::{Address, Connecting, Connector, Credentials},
};

use crate::fixture::{
    Log, LoggedSpawner, RedisServer, all_vote, eventually_async,
    faults::{down, patient, works},
    urls,
};

const SECRET: &str = "s3cret-0f-the-servers";

#[tokio::test]
async fn killed_server_votes_after_restart() {
    let mut servers = RedisServer::start_n(3);
    let redlock = patient(urls(&servers)).build().unwrap();
    all_vote(&redlock).await;
    works(&redlock).await;
    servers[1].kill();
    eventually_async("the reason is the refused connection", async || {
        matches!(down(&redlock, 1).await, Reason::NotConnected(why) if why.contains("refused"))
    })
    .await;
    works(&redlock).await;
    let health = &redlock.health()[1];
    assert_eq!((health.round_trip, health.in_flight), (None, 0));
    servers[1].restart();
    all_vote(&redlock).await;
    servers[0].kill();
    works(&redlock).await;
}

#[tokio::test]
async fn outage_logs_warning_and_end() {
    let mut server = RedisServer::start();
    let log = Log::new();
    let spawner = LoggedSpawner::start(&log);
    let redlock = patient([server.url()]).spawner(spawner).build().unwrap();
    let name = "node-1";
    all_vote(&redlock).await;
    log.wait_for("INFO", &["node is up", name]).await;
    server.kill();
    log.wait_for("WARN", &["node is down", name, "reason=connection lost"]).await;
    log.wait_for("WARN", &["node is still down", name, "refused"]).await;
    server.restart();

    log.wait_for("INFO", &["node is up again", name, "outage="]).await;
}

/// Refuses each connection, and counts them.
#[derive(Clone, Debug, Default)]
struct Refusing(Arc<AtomicUsize>);

impl Connector for Refusing {
    fn connect(&self, _: &Address) -> Connecting {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
    }
}

#[tokio::test]
async fn long_outage_does_not_fill_log() {
    let (log, refusing) = (Log::new(), Refusing::default());
    let builder = patient(["redis://server".to_owned()]).connector(refusing.clone());
    let redlock = builder.spawner(LoggedSpawner::start(&log)).build().unwrap();
    eventually_async("four attempts to connect have failed", async || {
        refusing.0.load(Ordering::SeqCst) > 4
    })
    .await;
    assert!(matches!(down(&redlock, 0).await, Reason::NotConnected(_)));
    log.wait_for("WARN", &["node is down", "refused"]).await;
    assert_eq!(log.count("WARN"), 1, "{}", log.text());
}

#[tokio::test]
async fn passwords_and_nonces_are_never_logged() {
    let mut server = RedisServer::with(&["--requirepass", SECRET]);
    let log = Log::new();
    let url = format!("redis://:{SECRET}@{}", server.addr());
    let redlock = patient([url])
        .credentials(Credentials::password(SECRET))
        .spawner(LoggedSpawner::start(&log))
        .build()
        .unwrap();
    all_vote(&redlock).await;
    let nonce = log
        .during(async {
            let lock = redlock.lock("a").await.unwrap();
            lock.extend().await.unwrap();
            let value = server.get("redlock:lock:a").unwrap();
            redlock.lock("a").await.unwrap_err();
            lock.release().await.unwrap();
            String::from_utf8(value[..32].to_vec()).unwrap()
        })
        .await;
    server.kill();
    log.wait_for("WARN", &["node is down"]).await;
    log.during(async { redlock.lock("a").await.unwrap_err() }).await;
    server.restart();
    // It restarts with another password: logins are refused and retried.
    log.wait_for("INFO", &["node is up again"]).await;
    server.set_config("requirepass", "another-s3cret");
    kill_connections(&server);
    log.wait_for("WARN", &["node is still down", "authentication failed"]).await;
    let text = log.text();
    assert!(text.contains("acquired"), "the log has the manager's messages:\n{text}");
    assert!(!text.contains(SECRET) && !text.contains(&nonce), "{text}");
    let shown = format!("{redlock:?} {:?}", redlock.health());
    assert!(!shown.contains(SECRET) && !shown.contains(&nonce), "{shown}");
}

/// Runs a command with the new password.
fn kill_connections(server: &RedisServer) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(server.addr()).unwrap();
    stream.write_all(b"AUTH another-s3cret\r\nCLIENT KILL TYPE normal SKIPME yes\r\n").unwrap();
    let mut answer = [0; 64];
    let _ = stream.read(&mut answer).unwrap();
}
