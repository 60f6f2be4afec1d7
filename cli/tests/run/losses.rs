//! The lock is lost, or about to end, while the command runs.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tower_redlock::{Redlock, node::redis::RestartGuard};

use crate::{
    fixture::{Fixture, is_alive},
    support::{connected, urls},
};

const ENDLESS: &str = "echo $$ > begun; while :; do sleep 0.01; done";

#[tokio::test(flavor = "multi_thread")]
async fn broken_lock_stops_command() {
    let fixture = Fixture::with_ttl("30s");
    let mut run = fixture.script(&["--on-lost", "echo \"$REDLOCK_LOSS\" > lost"], ENDLESS);
    let command = fixture.line_of("begun");
    let _next = fixture.script(&["--owner", "next"], "echo > next; sleep 60");
    let builder = Redlock::builder().nodes(urls(&fixture.servers)).ttl(Duration::from_secs(30));
    let builder = builder.node_timeout(Duration::from_secs(3));
    let redlock = connected(builder.restart_guard(RestartGuard::Off)).await;
    let begun = Instant::now();
    let holder = redlock.inspect("a").await.unwrap().unwrap();
    // A renewal may store the key again before the next client is there.
    while fixture.read("next").is_empty() {
        redlock.revoke(&holder).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    run.ends(70, "the lock was lost, and sh stopped");
    assert!(begun.elapsed() < Duration::from_secs(25), "before the TTL: {:?}", begun.elapsed());
    assert!(!is_alive(&command));
    assert!(fixture.line_of("lost").contains("next"), "{}", fixture.read("lost"));
}

#[test]
fn frozen_servers_end_command_in_time() {
    let fixture = Fixture::with_ttl("1s");
    let mut run = fixture.script(&[], ENDLESS);
    let command = fixture.line_of("begun");
    fixture.freeze();
    run.ends(70, "the lock was lost");
    assert!(!is_alive(&command));
    fixture.thaw();
    // The lock is free again: a second run begins.
    fixture.script(&["-w", "30s"], "exit 0").ends(0, "");
}

#[test]
fn stop_signal_comes_first() {
    let fixture = Fixture::with_ttl("2s");
    let traps = "trap 'echo soft > got; exit 0' USR1; ";
    let mut run =
        fixture.script(&["--stop-signal", "USR1", "--max-hold", "3s"], &[traps, ENDLESS].concat());
    fixture.line_of("begun");
    // The command ended with 0, but was stopped.
    run.ends(70, "--max-hold");
    assert_eq!(fixture.read("got"), "soft\n");
    assert_eq!(fixture.held_on("a"), 0);
}

#[test]
fn deaf_command_is_killed() {
    let fixture = Fixture::with_ttl("2s");
    let mut run = fixture.script(&["--max-hold", "3s"], &["trap '' TERM; ", ENDLESS].concat());
    let command = fixture.line_of("begun");
    run.ends(70, "the lock was lost");
    assert!(!is_alive(&command));
}

#[test]
fn kill_after_is_earlier() {
    let fixture = Fixture::with_ttl("60s");
    // The margin before the end is 12 s of 60.
    let options = ["--max-hold", "13s", "--kill-after", "10ms"];
    let begun = Instant::now();
    let mut run = fixture.script(&options, &["trap '' TERM; ", ENDLESS].concat());
    run.ends(70, "the lock was lost");
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
}

#[test]
fn renewed_lock_outlives_ttl() {
    let fixture = Fixture::with_ttl("1s");
    let mut run = fixture.script(&[], "echo $$ > begun; sleep 3; exit 5");
    fixture.line_of("begun");
    let mut second = fixture.script(&[], "echo > second");
    assert_eq!(run.code(), 5);
    assert_eq!(second.code(), 0);
}

#[test]
fn failed_hook_is_told() {
    let fixture = Fixture::with_ttl("1s");
    let mut run = fixture.script(&["--on-lost", "exit 3", "--max-hold", "1s"], ENDLESS);
    run.ends(70, "the command of --on-lost failed");
    run = fixture.script(&["--on-lost", "echo > unused"], "exit 0");
    run.ends(0, "");
    assert_eq!(fixture.read("unused"), "");
    run = fixture.script(&["--on-lost", "echo > unused"], "kill -KILL $$");
    run.ends(128 + Signal::KILL.as_raw(), "");
    assert_eq!(fixture.read("unused"), "");
}
