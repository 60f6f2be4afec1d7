//! Many duplicates at once.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use tower_redlock::{
    Redlock,
    once::{Once, OnceError},
};

use crate::fixture::{Fixture, RedisServer, patient};

const KEYS: usize = 200;
const DUPLICATES: usize = 50;

/// Retries as a sender does until the work is done; returns whether it ran here.
async fn deliver(redlock: Redlock, key: String, effects: Arc<AtomicUsize>) -> bool {
    loop {
        let work = |_| async {
            // The duration of the work.
            tokio::time::sleep(Duration::from_millis(1)).await;
            effects.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(())
        };
        match redlock.once(key.clone()).run(work).await {
            Ok(Once::Ran(())) => return true,
            Ok(Once::AlreadyDone { .. }) => return false,
            // Held by another task, or votes split between the two managers.
            Ok(Once::InProgress { .. }) | Err(OnceError::Lock(_)) => {
                // The pause of a sender before its retry.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            ended => panic!("{ended:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_fifty_duplicates_runs() {
    let fixture = Fixture::new(3);
    let managers = [fixture.direct(patient()).await, fixture.direct(patient()).await];
    let effects: Vec<_> = (0..KEYS).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    // All duplicates of a key at once, and twenty keys side by side.
    for keys in (0..KEYS).collect::<Vec<_>>().chunks(20) {
        let deliveries = keys.iter().flat_map(|key| (0..DUPLICATES).map(move |i| (*key, i)));
        let ran = join_all(deliveries.map(|(key, i)| {
            let (redlock, effects) = (managers[i % 2].clone(), Arc::clone(&effects[key]));
            tokio::spawn(deliver(redlock, format!("event {key}"), effects))
        }));
        let ran = ran.await.into_iter().filter(|ran| *ran.as_ref().unwrap()).count();
        assert_eq!(ran, keys.len(), "each key was done by one");
    }
    for (key, effects) in effects.iter().enumerate() {
        assert_eq!(effects.load(Ordering::SeqCst), 1, "key {key}");
    }
    fixture.all_keys_gone().await;
    for server in &fixture.servers {
        assert_eq!(server.keys("redlock:done:once:event *").len(), KEYS);
    }
}

#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let (fixture, redlock) = Fixture::patient().await;
    let flush = |server: &RedisServer| drop(server.cli(&["SCRIPT", "FLUSH"]));
    let unknown = tower_redlock::once::UnknownOutcome::Hold(Duration::from_secs(3600));
    let run = redlock.once("a").unknown(unknown).run(|_| async {
        fixture.servers.iter().for_each(flush);
        Ok::<_, Infallible>(1)
    });
    assert!(matches!(run.await, Ok(Once::Ran(1))));
    fixture.servers.iter().for_each(flush);
    let again = redlock.once("a").run(|_| async { Ok::<_, Infallible>(2) }).await;
    assert!(matches!(again, Ok(Once::AlreadyDone { .. })), "{again:?}");
    // The record of a node that lost it comes back, by a script as well.
    fixture.servers[0].cli(&["DEL", "redlock:done:once:a"]);
    fixture.servers.iter().for_each(flush);
    crate::fixture::eventually_async("the record is repaired", async || {
        redlock.once("a").status().await.unwrap().expect("done");
        fixture.servers[0].exists("redlock:done:once:a")
    })
    .await;
    fixture.servers.iter().for_each(flush);
    assert_eq!(redlock.once("a").forget().await, Ok(true));
    let again = redlock.once("a").run(|_| async { Ok::<_, Infallible>(3) }).await;
    assert!(matches!(again, Ok(Once::Ran(3))), "{again:?}");
}

#[tokio::test]
async fn a_record_ends_with_its_retention() {
    let (_fixture, redlock) = Fixture::patient().await;
    let run = || {
        redlock.once("a").retain(Duration::from_secs(2)).run(|_| async { Ok::<_, Infallible>(()) })
    };
    assert!(matches!(run().await, Ok(Once::Ran(()))));
    let Ok(Once::AlreadyDone { remaining, .. }) = run().await else { panic!() };
    assert!(remaining <= Duration::from_secs(2), "{remaining:?}");
    crate::fixture::eventually_async("the work runs again", async || {
        matches!(run().await, Ok(Once::Ran(())))
    })
    .await;
}
