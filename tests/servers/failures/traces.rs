//! Spans and log messages of a lock.

use std::future::pending;

use tower_redlock::{LockError, error::LossCause};
use tracing::Level;

use crate::fixture::{
    Log, LoggedSpawner, RedisServer, all_vote, faults::patient, in_time, log::Span,
};

use crate::support::scene::{Scene, TTL};

const SECRET: &str = "s3cret-0f-the-servers";

/// Three nodes in this process, and a log of everything that the manager over them does.
fn embedded(log: &Log) -> Scene {
    Scene::by_hand(3).with(|builder| builder.owner("ourselves").spawner(LoggedSpawner::start(log)))
}

/// The only span, which must be the one of an acquire.
#[track_caller]
fn only_acquire(log: &Log) -> Span {
    let mut spans = log.spans();
    let span = spans.pop().expect("a span");
    assert_eq!(spans, [], "one span for each acquire");
    assert_eq!((span.name, span.level), ("acquire", Level::DEBUG));
    let elapsed = &span.fields["elapsed"];
    assert!(elapsed.starts_with(|c: char| c.is_ascii_digit()) && elapsed.ends_with('s'));
    span
}

#[tokio::test]
async fn votes_are_counted_or_named() {
    let mut servers: Vec<_> =
        (0..3).map(|_| RedisServer::with(&["--requirepass", SECRET])).collect();
    let urls = servers.iter().map(|server| format!("redis://:{SECRET}@{}", server.addr()));
    let log = Log::new();
    let redlock =
        patient(urls.collect::<Vec<_>>()).spawner(LoggedSpawner::start(&log)).build().unwrap();
    all_vote(&redlock).await;
    servers[1].kill();
    log.wait_for("WARN", &["node is down", "node-2"]).await;
    log.during(async { redlock.lock("a").await.unwrap().release().await.unwrap() }).await;
    let span = only_acquire(&log);
    assert_eq!((&*span.fields["votes"], &*span.fields["outcome"]), ("2 of 3", "acquired"));
    servers[2].kill();
    log.wait_for("WARN", &["node is down", "node-3"]).await;
    let error = log.during(async { redlock.lock("a").await.unwrap_err() }).await;
    let span = log.spans().pop().unwrap();
    assert_eq!(
        (&*span.fields["outcome"], &span.fields["error"]),
        ("no_quorum", &error.to_string())
    );
    let LockError::NoQuorum { votes } = error else { panic!("{error}") };
    assert_eq!(span.fields["votes"], votes.to_string());
    for node in ["node-1", "node-2", "node-3"] {
        assert!(span.fields["votes"].contains(node), "{span:?}");
    }
    log.assert_keeps(&[SECRET]);
}

#[tokio::test]
async fn loss_of_a_stopped_process_says_so() {
    let log = Log::new();
    let Scene { clock, redlock, .. } = embedded(&log);
    let lock = redlock.lock("invoice:42").await.unwrap();
    clock.advance(3 * TTL);

    in_time(lock.lost()).await;

    let text = log.text();
    assert!(text.contains("WARN message=lock lost, and noticed late: this process"), "{text}");
    assert!(text.contains("late=2"), "two TTLs and the allowance for drift: {text}");
    log.assert_keeps(&[]);
}

#[tokio::test]
async fn planned_end_is_not_a_warning() {
    let log = Log::new();
    let Scene { clock, redlock, .. } = embedded(&log);
    let limit = TTL / 2;
    let limited = redlock.lock("a").max_hold(limit).await.unwrap();
    clock.advance(limit);
    let max_hold = in_time(limited.lost()).await;
    assert_eq!(max_hold, LossCause::MaxHold { limit });
    let short = redlock.lock("b").auto_extend(false).await.unwrap();
    clock.advance(TTL);
    let expired = in_time(short.lost()).await;
    assert!(matches!(expired, LossCause::Expired { .. }), "{expired}");
    let line = |name, cause| format!("DEBUG message=lock ended resource={name} cause={cause}");
    assert_eq!(log.text(), [line("a", max_hold), line("b", expired)].join("\n"));
    log.assert_keeps(&[]);
}

#[tokio::test]
async fn hard_stop_is_a_warning() {
    let log = Log::new();
    let Scene { clock, redlock, .. } = embedded(&log);
    let mut token = 0;
    let work = redlock.lock("invoice:42").run(|cx| {
        token = cx.fencing_token().get();
        clock.advance(TTL);
        pending::<()>()
    });
    let error = in_time(log.during(work)).await.unwrap_err();
    let LockError::Lost { cause } = error else { panic!("{error}") };
    let stopped = "WARN message=hard stop: guarded work was dropped";
    let line = format!("{stopped} resource=invoice:42 token={token} cause={cause}");
    assert!(log.text().lines().any(|logged| logged == line), "{line}\n{}", log.text());
    assert_eq!((log.count(stopped), log.count("WARN message=lock lost")), (1, 1));
    // Work that blocks its thread when the lock ends can't be stopped; this is logged.
    let work = redlock.lock("b").run(|_| async { clock.advance(TTL) });
    log.during(work).await.unwrap();
    let overran = "WARN message=guarded work was inside a poll when its lock ended";
    assert_eq!(log.count(overran), 1, "{}", log.text());
    assert_eq!(log.count(stopped), 1, "{}", log.text());
    log.assert_keeps(&[]);
}
