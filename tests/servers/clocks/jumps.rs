//! Servers whose clocks jump: one, or a majority alike, as one time source may make them.

use std::time::{Duration, Instant};

use tower_redlock::{
    Redlock,
    error::{LossCause, Reason, VoteOutcome},
    node::NodeHealth,
};

use crate::fixture::{
    LONG, LoggedSpawner, Proxy, all_vote,
    clock::{Fixture, MINUTES, is_jump, jump_is_seen, refusal, vote},
    eventually_async, in_time, over, patient,
};

#[tokio::test]
async fn first_vote_after_jump_is_void() {
    // Keys survive a small jump or a jump back, and commands arrive in time: only the clock check
    // refuses such a grant. After a large jump the command is too late, or too early.
    for by in [2.0, -2.0, MINUTES, -MINUTES] {
        let Some(mut fixture) = Fixture::new() else { return };
        let redlock = fixture.manager(patient()).await;
        fixture.servers[2].kill();
        fixture.is_down(&redlock, 2).await;
        fixture.servers[0].set_clock_offset(by);
        match vote(&redlock, 0).await {
            VoteOutcome::NotCounted(reason) if is_jump(&reason) => {}
            VoteOutcome::NotCounted(Reason::Late) if by > 2.0 => {}
            VoteOutcome::NotCounted(Reason::TokenAhead) if by < -2.0 => {}
            other => panic!("{by} s: {other:?}"),
        }
        jump_is_seen(&redlock, 0).await;
        assert!(
            matches!(vote(&redlock, 0).await, VoteOutcome::NotCounted(reason) if is_jump(&reason))
        );
    }
}

#[tokio::test]
async fn jump_bars_votes_for_max_ttl() {
    let max_ttl = Duration::from_secs(2);
    for by in [MINUTES, -MINUTES] {
        let Some(fixture) = Fixture::new() else { return };
        let builder = Redlock::builder().ttl(max_ttl / 2).max_ttl(max_ttl);
        let redlock = fixture.manager(builder).await;
        let lock = redlock.lock("a").ttl(max_ttl).auto_extend(false).await.unwrap();
        fixture.keys_everywhere().await;
        let jumped = Instant::now();
        fixture.servers[0].set_clock_offset(by);
        assert_eq!(fixture.keys(), [by < 0.0, true, true], "keys expire by the server's clock");
        jump_is_seen(&redlock, 0).await;
        let reason = refusal(&redlock, 0).expect("the node is barred");
        let Reason::ClockJumped { by_micros } = reason else { panic!("{reason}") };
        #[expect(clippy::cast_precision_loss, reason = "a few minutes")]
        let reported = by_micros as f64 / 1e6;
        assert!((reported - by).abs() < 1.0, "{reported} s");
        let way = if by < 0.0 { "back" } else { "forward" };
        fixture.log.wait_for("WARN", &["the server's clock jumped", "node-1", way]).await;
        assert!(lock.is_valid(), "two healthy nodes have the key");
        drop(lock);
        eventually_async("the node votes again", async || redlock.health()[0].is_voting()).await;
        assert!(jumped.elapsed() >= max_ttl, "{:?}", jumped.elapsed());
        assert!(!fixture.log.text().contains("local clock paused"), "{}", fixture.log.text());
        let grants = async {
            let lock = redlock.lock("a").await.unwrap();
            eventually_async("the node grants", async || fixture.keys()[0]).await;
            lock.release().await.unwrap();
        };
        in_time(grants).await;
    }
}

#[tokio::test]
async fn lock_without_quorum_ends_at_jump() {
    for by in [MINUTES, -MINUTES] {
        let Some(mut fixture) = Fixture::new() else { return };
        // No timer of a lock is due before a third of its TTL, or the node timeout of its grant.
        let builder = patient().ttl(LONG * 4).node_timeout(LONG / 3);
        let redlock = fixture.manager(builder).await;
        let on_all = redlock.lock("b").await.unwrap();
        eventually_async("every server has the key", async || {
            fixture.servers.iter().all(|server| server.exists("redlock:lock:b"))
        })
        .await;
        fixture.servers[2].kill();
        fixture.is_down(&redlock, 2).await;
        let on_two = redlock.lock("a").await.unwrap();
        fixture.servers[0].set_clock_offset(by);
        let cause = in_time(on_two.lost()).await;
        let LossCause::ClockJumped { votes } = &cause else { panic!("{cause}") };
        let jumped = |outcome: &VoteOutcome| matches!(outcome, VoteOutcome::NotCounted(reason) if is_jump(reason));
        assert!(jumped(&votes[0].outcome), "{votes}");
        assert!(!on_two.is_valid());
        assert!(on_all.is_valid(), "the other two nodes confirmed it");
        fixture.log.wait_for("WARN", &["lock lost", "resource=a", "servers jumped"]).await;
    }
}

#[tokio::test]
async fn extension_counts_where_key_remains() {
    let Some(mut fixture) = Fixture::new() else { return };
    let redlock = fixture.manager(patient()).await;
    let lock = redlock.lock("a").await.unwrap();
    fixture.keys_everywhere().await;
    fixture.servers[0].set_clock_offset(5.0);
    jump_is_seen(&redlock, 0).await;
    fixture.servers[2].kill();
    fixture.is_down(&redlock, 2).await;
    in_time(lock.extend()).await.unwrap();
}

#[tokio::test]
async fn jumped_server_does_not_regrant_key() {
    let Some(fixture) = Fixture::new() else { return };
    let redlock = fixture.manager(patient()).await;
    let lock = redlock.lock("a").await.unwrap();
    fixture.keys_everywhere().await;
    fixture.servers[0].set_clock_offset(MINUTES);
    jump_is_seen(&redlock, 0).await;
    in_time(lock.extend()).await.unwrap();
    assert_eq!(fixture.keys(), [false, true, true]);
}

#[tokio::test]
async fn vanished_key_stays_unavailable() {
    let Some(mut fixture) = Fixture::new() else { return };
    let (first, second) = (fixture.manager(patient()).await, fixture.manager(patient()).await);
    // The first client holds it on two servers, as the third server starts afterwards.
    fixture.servers[2].kill();
    fixture.is_down(&first, 2).await;
    let lock = first.lock("a").await.unwrap();
    fixture.servers[2].restart();
    eventually_async("the third votes again", async || second.health()[2].is_voting()).await;
    fixture.servers[0].set_clock_offset(MINUTES);
    eventually_async("the first client detects the jump", async || {
        let other = in_time(async { second.lock("a").await }).await;
        assert!(!(other.is_ok() && lock.is_valid()), "two clients hold the lock");
        !lock.is_valid()
    })
    .await;
    assert!(matches!(in_time(lock.lost()).await, LossCause::ClockJumped { .. }));
    // Not even then: the second client cannot have detected the jump.
    assert!(second.lock("a").await.is_err());
}

/// A limit of R10.
#[tokio::test]
async fn undone_jump_between_checks_is_missed() {
    let Some(mut fixture) = Fixture::new() else { return };
    let way = Proxy::start(fixture.servers[0].addr());
    let urls = vec![way.url(), fixture.servers[1].url(), fixture.servers[2].url()];
    let first = over(patient(), urls).build().unwrap();
    all_vote(&first).await;
    fixture.servers[2].kill();
    fixture.is_down(&first, 2).await;
    let lock = first.lock("a").await.unwrap();
    fixture.servers[2].restart();
    // No request to read the clock arrives meanwhile.
    way.stall();
    fixture.blink(0);
    way.resume();
    assert_eq!(fixture.keys(), [false, true, false]);
    let second = fixture.manager(patient()).await;
    let other = in_time(async { second.lock("a").await }).await.unwrap();
    assert!(lock.is_valid() && other.is_valid() && LONG > other.remaining());
}

/// The drift is 0.6 s for `max_ttl`; the lock sets 32 ms aside.
#[tokio::test]
async fn small_jump_matters_to_short_lock() {
    let Some(fixture) = Fixture::new() else { return };
    let way = Proxy::start(fixture.servers[2].addr());
    let urls = vec![fixture.servers[0].url(), fixture.servers[1].url(), way.url()];
    let builder = || Redlock::builder().ttl(Duration::from_secs(2)).max_ttl(LONG);
    let first = over(builder(), urls).build().unwrap();
    in_time(first.ready()).await.unwrap();
    let second = fixture.manager(builder()).await;
    way.cut();
    let lock = in_time(async { first.lock("a").auto_extend(false).await }).await.unwrap();
    assert!(!fixture.keys()[2]);
    fixture.servers[0].set_clock_offset(0.5);
    let next = second.lock("a").wait(lock.remaining()).await;
    assert!(
        next.is_err() || !lock.is_valid(),
        "two clients hold the lock: {:?} left",
        lock.remaining()
    );
}

/// The process runs all the time: the jump moved the end of the lock into the past.
#[tokio::test]
async fn jump_is_no_stopped_process() {
    let Some(mut fixture) = Fixture::new() else { return };
    let ttl = Duration::from_secs(3);
    let redlock =
        fixture.manager(Redlock::builder().ttl(ttl).max_ttl(Duration::from_secs(60))).await;
    let lock = redlock.lock("a").await.unwrap();
    fixture.keys_everywhere().await;
    fixture.servers[2].kill();
    tokio::time::sleep(ttl * 2).await;
    assert!(lock.is_valid());
    fixture.servers[0].set_clock_offset(MINUTES);
    in_time(lock.lost()).await;
    let text = fixture.log.text();
    assert!(text.contains("lock lost") && !text.contains("did not run"), "{text}");
}

const HOUR: f64 = 3_600.0;
const OWN: &str = "local clock paused";

#[tokio::test]
async fn is_found_out_by_the_third() {
    let Some(fixture) = Fixture::new() else { return };
    let (first, second) = (fixture.manager(patient()).await, fixture.manager(patient()).await);
    let lock = first.lock("a").auto_extend(false).await.unwrap();
    fixture.keys_everywhere().await;
    fixture.servers[0].set_clock_offset(HOUR);
    fixture.servers[1].set_clock_offset(HOUR);
    eventually_async("the first client detects the jump", async || {
        let other = in_time(async { second.lock("a").await }).await;
        assert!(
            !(other.is_ok() && lock.is_valid()),
            "two clients hold the lock:\n{}",
            fixture.log.text()
        );
        !lock.is_valid()
    })
    .await;
    let cause = in_time(lock.lost()).await;
    assert!(matches!(cause, LossCause::ClockJumped { .. }), "{cause}");
    for redlock in [&first, &second] {
        eventually_async("both nodes are barred", async || {
            (0..2).all(|node| refusal(redlock, node).as_ref().is_some_and(is_jump))
        })
        .await;
        assert!(redlock.health()[2].is_voting());
    }
    assert!(second.lock("a").await.is_err(), "the second client cannot have detected the jump");
    assert!(!fixture.log.text().contains(OWN), "{}", fixture.log.text());
}

/// A limit of the guard: no node with a correct clock is left to compare with.
#[tokio::test]
async fn is_taken_for_pause_without_third() {
    let Some(mut fixture) = Fixture::new() else { return };
    let redlock = fixture.manager(patient()).await;
    fixture.servers[2].kill();
    fixture.is_down(&redlock, 2).await;
    fixture.servers[0].set_clock_offset(HOUR);
    fixture.servers[1].set_clock_offset(HOUR);

    fixture.log.wait_for("WARN", &[OWN]).await;
}

/// The same limit: the verdict waits for the third node while it is connected.
#[tokio::test]
async fn waits_for_a_third_that_hangs() {
    let Some(fixture) = Fixture::new() else { return };
    let way = Proxy::start(fixture.servers[2].addr());
    let urls = vec![fixture.servers[0].url(), fixture.servers[1].url(), way.url()];
    let spawner = LoggedSpawner::start(&fixture.log);
    let builder = patient().node_timeout(Duration::from_millis(100));
    let redlock = over(builder, urls).spawner(spawner).build().unwrap();
    eventually_async("every node votes", async || {
        redlock.health().iter().all(NodeHealth::is_voting)
    })
    .await;
    way.stall();
    for server in &fixture.servers[..2] {
        server.set_clock_offset(3.0);
    }
    fixture.log.wait_for("WARN", &[OWN]).await;
    let text = fixture.log.text();
    let lines: Vec<_> = text.lines().collect();
    let place = |parts: [&str; 2]| {
        lines.iter().position(|line| parts.iter().all(|part| line.contains(part)))
    };
    let (down, verdict) = (place(["node is down", "node-3"]), place([OWN, ""]));
    assert!(down.is_some() && down < verdict, "{text}");
}
