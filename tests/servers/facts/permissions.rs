//! Users that may log in and not do everything.

use tower_redlock::Reason;

use super::scene::{a_bad_minority_is_harmless_and_a_bad_majority_is_named, manager, urls, works};
use crate::support::{RedisServer, Resp};

fn is_no_permission(reason: &Reason) -> bool {
    matches!(reason, Reason::NoPermission(_)) && !reason.to_string().contains("word")
}

/// Two servers with a user `app` of these rules; the URLs log in as it.
async fn refuses_with(rules: &[&str]) {
    let servers = RedisServer::start_n(2);
    let urls = logins(&servers, rules);
    let [first, second] = urls.try_into().expect("two servers");
    a_bad_minority_is_harmless_and_a_bad_majority_is_named(
        [first, second],
        manager,
        is_no_permission,
    )
    .await;
}

fn logins(servers: &[RedisServer], rules: &[&str]) -> Vec<String> {
    for server in servers {
        let user = ["ACL", "SETUSER", "app", "on", ">word"];
        let command: Vec<&str> = user.iter().chain(rules).copied().collect();
        assert_eq!(server.cli(&command), Resp::Simple("OK".into()));
    }
    urls(servers).iter().map(|url| url.replace("redis://", "redis://app:word@")).collect()
}

#[tokio::test]
async fn a_user_without_evalsha_lacks_permission() {
    refuses_with(&["~*", "+@all", "-evalsha"]).await;
}

#[tokio::test]
async fn a_user_without_scripts_lacks_permission() {
    refuses_with(&["~*", "+@all", "-@scripting"]).await;
}

#[tokio::test]
async fn a_user_without_the_keys_lacks_permission() {
    refuses_with(&["~other:*", "+@all"]).await;
}

#[tokio::test]
async fn a_user_without_the_lock_keys_lacks_permission() {
    refuses_with(&["~redlock:meta", "+@all"]).await;
}

#[tokio::test]
async fn a_user_without_a_command_that_the_scripts_call_lacks_permission() {
    refuses_with(&["~*", "+@all", "-set"]).await;
    refuses_with(&["~*", "+@all", "-hset", "-hmget"]).await;
}

#[tokio::test]
async fn a_user_with_nothing_lacks_permission() {
    refuses_with(&["~*", "-@all"]).await;
}

#[tokio::test]
async fn the_rules_that_are_needed_are_few() {
    let servers = RedisServer::start_n(1);
    let rules = [
        "~redlock:*",
        "-@all",
        "+evalsha",
        "+eval",
        "+script|load",
        "+time",
        "+hmget",
        "+hget",
        "+hset",
        "+hsetnx",
        "+hlen",
        "+get",
        "+set",
        "+del",
        "+pexpire",
        "+pttl",
    ];
    let redlock = manager(logins(&servers, &rules));
    works(&redlock).await;
    let lock = redlock.lock(["a", "b"]).await.unwrap();
    lock.extend().await.unwrap();
    lock.release().await.unwrap();
    // INFO is not among them: the version stays unknown, and that is all.
    assert_eq!(redlock.health()[0].version, None);
}
