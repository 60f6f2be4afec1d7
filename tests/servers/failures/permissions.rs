//! Users with too few permissions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tower_redlock::{
    LockError, Redlock,
    error::{Reason, VoteOutcome, Votes},
    node::NodeState,
};

use crate::fixture::{
    Reaction, RedisServer, Resp, acl, all_vote, eventually, eventually_async, fake,
    faults::{manager, only_a_majority_matters, refused, works},
    in_time, urls,
};

fn is_no_permission(reason: &Reason) -> bool {
    matches!(reason, Reason::NoPermission(_)) && !reason.to_string().contains("word")
}

/// Gives the user `app` these rules, and returns URLs that log in as this user.
fn logins(servers: &[RedisServer], rules: &[&str]) -> Vec<String> {
    for server in servers {
        let user = ["ACL", "SETUSER", "app", "reset", "on", ">word"];
        let command: Vec<&str> = user.iter().chain(rules).copied().collect();
        assert_eq!(server.cli(&command), Resp::Simple("OK".into()));
    }
    let login = |server: &RedisServer| server.plain_url().replace("://", "://app:word@");
    servers.iter().map(login).collect()
}

#[tokio::test]
async fn missing_permission_is_the_reason() {
    let servers = RedisServer::start_n(2);
    for rules in [
        &["~*", "+@all", "-evalsha"][..],
        &["~*", "+@all", "-@scripting"],
        &["~other:*", "+@all"],
        &["~redlock:meta", "~redlock:fences*", "+@all"],
        // Commands of scripts.
        &["~*", "+@all", "-set"],
        &["~*", "+@all", "-hset", "-hmget"],
        &["~*", "-@all"],
    ] {
        let [first, second] = logins(&servers, rules).try_into().expect("two servers");
        only_a_majority_matters([first, second], manager, is_no_permission).await;
    }
}

#[tokio::test]
async fn documented_rules_suffice() {
    let servers = RedisServer::start_n(1);
    servers[0].set_rules(&acl::rules());
    let redlock = manager(urls(&servers));
    works(&redlock).await;
    let lock = redlock.lock(["a", "b"]).await.unwrap();
    lock.extend().await.unwrap();
    // A waiter can store a mark for the holder.
    let refused = manager(urls(&servers)).lock("a").wait(Duration::from_millis(1)).await;
    assert!(matches!(refused, Err(LockError::WaitTimedOut { .. })), "{refused:?}");
    assert!(servers[0].get("redlock:lock:a").unwrap().ends_with(b"\n"));
    lock.release().await.unwrap();
    // CONFIG is not permitted: only the snapshot settings stay unknown.
    let health = &redlock.diagnosis().await.nodes[0].health;
    assert_eq!(health.persistence.expect("INFO reports it").snapshots, None);
    assert!(health.denied.is_empty(), "{health}");
}

#[tokio::test]
async fn denied_downgrade_keeps_the_key() {
    let servers = RedisServer::start_n(3);
    let rules: Vec<_> = acl::rules().into_iter().filter(|rule| *rule != "+pexpireat").collect();
    for server in &servers {
        server.set_rules(&rules);
    }
    let redlock = manager(urls(&servers));
    works(&redlock).await;
    let lock = redlock.lock("a").await.unwrap().downgrade().unwrap();

    let renewed = lock.extend().await;

    assert!(matches!(renewed, Err(LockError::NoQuorum { .. })), "{renewed:?}");
    let is_there = |server: &RedisServer| server.get("redlock:lock:a").is_some();
    assert!(lock.is_valid() && servers.iter().all(is_there));
    let other = manager(urls(&servers)).lock("a").await;
    assert!(matches!(other, Err(LockError::Held { .. })), "{other:?}");
}

/// Whether a diagnosis shows that the node's user lacks this rule.
async fn shows(redlock: &Redlock, rule: &str) -> bool {
    let health = &redlock.diagnosis().await.nodes[0].health;
    let name = rule.strip_prefix('+').unwrap_or(rule);
    health.denied.iter().any(|denied| &**denied == name)
        || matches!(
            &health.state,
            NodeState::Down { reason: Reason::NoPermission(_), .. }
                | NodeState::Refusing { reason: Reason::NoPermission(_), .. }
        )
}

#[tokio::test]
async fn each_documented_rule_missing_shows() {
    let server = RedisServer::start();
    let rules: Vec<_> = acl::rules();
    let is_of_use = |rule: &&str| rule.starts_with(['+', '&']);
    let missing: Vec<_> = rules.iter().copied().filter(is_of_use).collect();
    assert!(missing.len() > 20, "{missing:?}");
    for missing in missing {
        let rest: Vec<_> = rules.iter().copied().filter(|rule| *rule != missing).collect();
        let redlock = if missing.ends_with("subscribe") {
            server.set_rules(&rules);
            let redlock = manager([server.url()]);
            all_vote(&redlock).await;
            server.set_rules(&rest);
            redlock
        } else {
            server.set_rules(&rest);
            manager([server.url()])
        };
        let _waiting =
            missing.ends_with("subscribe").then(|| listen_and_leave(&server, &redlock, missing));
        let is_missed = format!("{missing} is missed");
        eventually_async(&is_missed, async || shows(&redlock, missing).await).await;
    }
}

/// Waits for one name, and for another one for longer.
fn listen_and_leave(server: &RedisServer, redlock: &Redlock, rule: &str) -> [Redlock; 1] {
    let holder = manager([server.plain_url()]);
    let (held, waiter) = (holder.clone(), redlock.clone());
    let [a, b] = ["a", "b"].map(|name| format!("{name} {rule}"));
    tokio::spawn(async move {
        let (_first, _second) = (held.lock(&*a).await.unwrap(), held.lock(&*b).await.unwrap());
        let short = waiter.lock(&*a).wait(Duration::from_millis(100));
        let long = waiter.lock(&*b).wait(Duration::from_secs(60));
        tokio::join!(short, long)
    });
    [holder]
}

#[tokio::test]
async fn newer_server_errors_are_understood() {
    // Redis 7.2 and newer, and Valkey, inside a script.
    const DENIED: &str =
        "ERR ACL failure in script: User locks has no permissions to run the 'set' command";
    let denies = Arc::new(AtomicBool::new(true));
    let is_denied = Arc::clone(&denies);
    let server = fake::greeting(move |command| {
        // No other script sets a key here: a release is allowed.
        if is_denied.load(Ordering::SeqCst) && fake::votes(command) {
            Reaction::error(DENIED)
        } else {
            fake::granted(command)
        }
    });
    let redlock = manager([server.url()]);
    all_vote(&redlock).await;
    let votes = refused(&redlock).await;
    let is_understood =
        matches!(&votes[0].outcome, VoteOutcome::NotCounted(reason) if is_no_permission(reason));
    assert!(is_understood, "{votes}");
    assert_eq!(*redlock.health()[0].denied, [Arc::from("set")]);
    denies.store(false, Ordering::SeqCst);
    drop(in_time(async { redlock.lock("a").await }).await.unwrap());
    assert!(redlock.health()[0].denied.is_empty(), "{:?}", redlock.health());
}

/// Requests share commands, and one forbidden key makes the whole command fail.
#[tokio::test]
async fn allowed_names_lock_despite_denied_ones() {
    const ROUNDS: usize = 10;
    let servers = RedisServer::start_n(3);
    let redlock = manager(logins(
        &servers,
        &["~redlock:meta", "~redlock:fences*", "~redlock:lock:ok*", "+@all"],
    ));
    all_vote(&redlock).await;
    let locks = |name: String, allowed: bool| {
        let redlock = redlock.clone();
        async move {
            for _ in 0..ROUNDS {
                match redlock.lock(&*name).await {
                    Ok(lock) if allowed => drop(lock.release().await.unwrap()),
                    Err(LockError::NoQuorum { votes }) if !allowed => assert_no_permission(&votes),
                    other => panic!("{name}: {other:?}"),
                }
            }
        }
    };
    let tasks: Vec<_> = (0..64)
        .map(|i| match i % 8 {
            0 => tokio::spawn(locks(format!("secret{i}"), false)),
            _ => tokio::spawn(locks(format!("ok{i}"), true)),
        })
        .collect();
    for task in tasks {
        in_time(task).await.unwrap();
    }
    eventually("no key is left", || {
        servers.iter().all(|server| server.keys("redlock:lock:*").is_empty())
    });
    redlock.lock("ok").await.unwrap().release().await.unwrap();
}

/// Each vote of the quorum has this reason; other nodes were not awaited.
#[track_caller]
fn assert_no_permission(votes: &Votes) {
    let count = |what: &dyn Fn(&Reason) -> bool| {
        let outcomes = votes.iter().map(|vote| &vote.outcome);
        outcomes.filter(|o| matches!(o, VoteOutcome::NotCounted(reason) if what(reason))).count()
    };
    let (refused, rest) = (count(&is_no_permission), count(&|r| *r == Reason::NotAwaited));
    assert!(refused >= 2 && refused + rest == votes.len(), "{votes}");
}
