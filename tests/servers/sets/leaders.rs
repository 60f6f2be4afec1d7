//! Leaders of names in both sets.

use std::{convert::Infallible, time::Duration};

use futures_util::TryStreamExt as _;
use tower_redlock::{Leader, Redlock, RedlockBuilder};

use crate::fixture::{
    RedisServer, all_vote,
    child::{TestProcess, orders},
    eventually_async, over,
    sets::{EACH, Sets},
};

/// Long enough for renewals on a busy machine.
const TTL: Duration = Duration::from_secs(2);

fn settings(owner: &str) -> RedlockBuilder {
    Redlock::builder().ttl(TTL).node_timeout(Duration::from_secs(1)).owner(owner)
}

/// A candidate that leads until it loses, again and again.
fn campaign(redlock: &Redlock, name: &str) -> (Leader, tokio::task::JoinHandle<()>) {
    let leader = redlock.leader(name);
    let run = leader.run(|_| std::future::pending::<()>());
    let task = tokio::spawn(async move { drop(run.await) });
    (leader, task)
}

/// Runs in a child process, until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn candidate() {
    let Some(orders) = orders() else { return };
    let (names, urls) = orders.split_once(' ').unwrap();
    let urls: Vec<_> = urls.split(' ').map(ToOwned::to_owned).collect();
    let sets = urls.chunks(EACH).map(|urls| over(settings("child"), urls.to_vec()));
    let redlock = Redlock::sharded(sets).unwrap();
    all_vote(&redlock).await;
    let led: Vec<_> = names.split(',').map(|name| campaign(&redlock, name)).collect();
    for (_, task) in led {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn leaders_of_both_sets_move_from_a_killed_process() {
    let sets = Sets::start();
    let mut names = sets.names("x").await;
    names.sort();
    let urls: Vec<_> = sets.servers.iter().flatten().map(RedisServer::url).collect();
    let orders = format!("{} {}", names.join(","), urls.join(" "));
    let child = TestProcess::start(module_path!(), "candidate", &orders);
    let redlock = sets.connect(|| settings("parent")).await;
    let led_by = async |owner: &str| {
        let Ok(locks) = redlock.locks().try_collect::<Vec<_>>().await else { return false };
        let mut led: Vec<_> = locks
            .iter()
            .filter(|lock| lock.owner.as_deref() == Some(owner) && lock.is_quorum)
            .map(|lock| lock.name.to_string())
            .collect();
        led.sort();
        led == names.clone().map(|name| format!("leader:{name}"))
    };
    eventually_async("the child leads both", async || led_by("child").await).await;
    let standby = names.each_ref().map(|name| campaign(&redlock, name));
    let leads = || standby.each_ref().map(|(leader, _)| leader.is_leader());
    assert_eq!(leads(), [false, false], "each name has one leader");
    drop(child);
    eventually_async("this process leads both", async || leads() == [true, true]).await;
    assert!(led_by("parent").await, "a listing has the leaders of both sets");
    for (_, task) in &standby {
        task.abort();
    }
}

#[tokio::test]
async fn dead_set_ends_only_its_leaders() {
    let mut sets = Sets::start();
    let [first, second] = sets.names("x").await;
    let redlock = sets.connect(|| settings("one")).await;
    let (stopped, lost) = (campaign(&redlock, &first), campaign(&redlock, &second));
    eventually_async("both lead", async || stopped.0.is_leader() && lost.0.is_leader()).await;
    let mut transitions = stopped.0.transitions();
    transitions.mark_unchanged();
    sets.take_down(1, &[&redlock]).await;
    eventually_async("its leader stops", async || !lost.0.is_leader()).await;
    // Its lock had the same TTL, so this one was renewed meanwhile.
    assert!(stopped.0.is_leader());
    assert!(!transitions.has_changed().unwrap(), "it led all the time");
    let again = redlock.leader(&*first);
    let other = tokio::time::timeout(TTL, again.run(|_| async { Ok::<_, Infallible>(()) })).await;
    assert!(other.is_err(), "its name has one leader");
    for (_, task) in [stopped, lost] {
        task.abort();
    }
}
