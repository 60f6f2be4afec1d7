//! Enumerating what the servers keep.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use futures_util::{TryStreamExt, future::join_all};
use tower_redlock::{LockError, Redlock, lock::Holder};

use crate::fixture::{Fixture, Resp, key, patient};

async fn listed(redlock: &Redlock) -> Result<Vec<Holder>, LockError> {
    redlock.locks().try_collect().await
}

async fn names(redlock: &Redlock) -> BTreeSet<String> {
    let listed = listed(redlock).await.unwrap();
    let names: BTreeSet<_> = listed.iter().map(|holder| holder.name.to_string()).collect();
    assert_eq!(names.len(), listed.len(), "each once: {names:?}");
    names
}

#[tokio::test]
async fn keys_of_a_minority_are_marked() {
    let (fixture, redlock) = Fixture::patient().await;
    for (server, name) in [(0, "of the first"), (2, "of the last")] {
        fixture.servers[server].set(&key(name), "by hand");
    }
    let _lock = redlock.lock("held").await.unwrap();
    let listed = listed(&redlock).await.unwrap();
    let marks: BTreeMap<_, _> = listed
        .iter()
        .map(|holder| (&*holder.name, (holder.is_quorum, holder.owner.is_some())))
        .collect();

    let expected =
        [("held", (true, true)), ("of the first", (false, false)), ("of the last", (false, false))];

    assert_eq!(marks, BTreeMap::from(expected));
}

/// Its name is read together with those of other locks.
#[tokio::test]
async fn key_of_other_type_hides_none() {
    let (fixture, redlock) = Fixture::patient().await;
    let locks: Vec<_> = join_all((0..5).map(|i| redlock.lock(format!("{i}")).into_future())).await;
    assert!(locks.iter().all(Result::is_ok));
    fixture.keys_everywhere().await;
    for server in &fixture.servers[..2] {
        let key = &key("3");
        assert!(matches!(server.cli(&["DEL", key]), Resp::Int(1)));
        server.cli(&["RPUSH", key, "a list"]);
    }
    let mut found = listed(&redlock).await.unwrap();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<_> = found.iter().map(|lock| &*lock.name).collect();
    assert_eq!(names, ["0", "1", "2", "3", "4"]);
    let owners = found.iter().map(|lock| lock.owner.is_some());
    assert_eq!(owners.collect::<Vec<_>>(), [true, true, true, false, true], "a foreign key");
}

#[tokio::test]
async fn patterns_in_prefix_match_themselves() {
    let fixture = Fixture::new(3);
    let odd = fixture.direct(patient().key_prefix("redlock:a*[b]?")).await;
    let other = fixture.direct(patient().key_prefix("redlock:a-b-c")).await;
    let _locks = (odd.lock("odd").await.unwrap(), other.lock("other").await.unwrap());
    assert_eq!(names(&odd).await, ["odd".to_owned()].into());
    assert_eq!(names(&other).await, ["other".to_owned()].into());
}

/// While another client acquires and releases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_are_listed_meanwhile() {
    const LOCKS: usize = 600;
    let fixture = Fixture::new(5);
    let (holder, other) = (fixture.direct(patient()).await, fixture.direct(patient()).await);
    let mut held = Vec::new();
    for chunk in 0..LOCKS / 100 {
        let names = (0..100).map(|i| format!("{}", chunk * 100 + i));
        let locks = join_all(names.map(|name| holder.lock(name).into_future())).await;
        held.extend(locks.into_iter().map(Result::unwrap));
    }
    let (is_over, granted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let working = tokio::spawn({
        let (is_over, granted) = (Arc::clone(&is_over), Arc::clone(&granted));
        async move {
            while !is_over.load(Ordering::Relaxed) {
                other.lock("busy").await.unwrap().release().await.unwrap();
                granted.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let before = granted.load(Ordering::Relaxed);
    let found = names(&holder).await;
    assert!(granted.load(Ordering::Relaxed) > before, "locks go on");
    is_over.store(true, Ordering::Relaxed);
    working.await.unwrap();
    assert_eq!(found.iter().filter(|name| *name != "busy").count(), LOCKS);
    drop(held);
}
