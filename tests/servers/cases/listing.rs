//! Enumerating what the servers keep.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use futures_util::{StreamExt, TryStreamExt, future::join_all};
use tower_redlock::{
    LockError, Redlock,
    error::{Reason, VoteOutcome},
    lock::Holder,
};

use super::scene::{Scene, key, patient};
use crate::support::{Resp, eventually_async};

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
async fn locks_of_all_clients_are_listed() {
    let scene = Scene::new(3);
    let (blue, green) =
        (scene.direct(patient().owner("blue")).await, scene.direct(patient().owner("green")).await);

    assert!(listed(&blue).await.unwrap().is_empty());

    let mut locks = BTreeMap::new();
    for i in 0..150 {
        let name = format!("name {i}");
        let by = if i % 2 == 0 { &blue } else { &green };
        locks.insert(name.clone(), by.lock(name).await.unwrap());
    }
    let set = green.lock(["x", "y"]).await.unwrap();
    scene.keys_everywhere().await;
    for redlock in [&blue, &green] {
        let mut listed = listed(redlock).await.unwrap();
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        let tokens: BTreeMap<_, _> =
            listed.iter().map(|holder| (holder.name.to_string(), holder.token)).collect();
        assert_eq!((listed.len(), tokens.len()), (152, 152));
        for (name, lock) in &locks {
            assert_eq!(tokens[name], lock.fencing_token(), "{name}");
        }
        assert_eq!((tokens["x"], tokens["y"]), (set.fencing_token(), set.fencing_token()));
        let of_blue = listed.iter().filter(|holder| holder.owner.as_deref() == Some("blue"));
        assert_eq!(of_blue.count(), 75);
        let held =
            |vote: &tower_redlock::error::Vote| matches!(vote.outcome, VoteOutcome::Held { .. });
        assert!(listed.iter().all(|holder| holder.is_quorum && holder.votes.iter().all(held)));
    }
}

#[tokio::test]
async fn keys_of_a_minority_are_marked() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    for (server, name) in [(0, "of the first"), (2, "of the last")] {
        scene.servers[server].set(&key(name), "by hand");
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

#[tokio::test]
async fn lost_minority_hides_no_lock() {
    let mut scene = Scene::new(5);
    let redlock = scene.direct(patient()).await;

    let locks: Vec<_> =
        join_all((0..120).map(|i| redlock.lock(format!("{i}")).into_future())).await;

    assert!(locks.iter().all(Result::is_ok));

    scene.keys_everywhere().await;
    scene.servers[0].kill();
    scene.servers[3].freeze();
    assert_eq!(names(&redlock).await.len(), 120);

    scene.servers[3].thaw();
}

/// Its name is read together with those of other locks.
#[tokio::test]
async fn key_of_other_type_hides_none() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;

    let locks: Vec<_> = join_all((0..5).map(|i| redlock.lock(format!("{i}")).into_future())).await;

    assert!(locks.iter().all(Result::is_ok));

    scene.keys_everywhere().await;
    for server in &scene.servers[..2] {
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
async fn too_few_nodes_are_an_error() {
    let mut scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;

    assert_eq!(listed(&redlock).await.map(|locks| locks.len()), Ok(0));

    scene.servers[0].kill();
    scene.servers[1].kill();
    eventually_async("both are down", async || {
        redlock.health().iter().filter(|node| node.is_voting()).count() == 1
    })
    .await;
    let mut locks = std::pin::pin!(redlock.locks());
    let error = locks.next().await.unwrap().unwrap_err();

    let LockError::NoQuorum { votes } = &error else { panic!("{error}") };

    let not_read = |vote: &&tower_redlock::error::Vote| {
        matches!(
            &vote.outcome,
            VoteOutcome::NotCounted(Reason::NotConnected(_) | Reason::Disconnected)
        )
    };

    assert_eq!(votes.iter().filter(not_read).count(), 2, "{error}");
    assert!(locks.next().await.is_none(), "nothing follows an error");
}

#[tokio::test]
async fn patterns_in_prefix_match_themselves() {
    let scene = Scene::new(3);
    let odd = scene.direct(patient().key_prefix("redlock:a*[b]?")).await;
    let other = scene.direct(patient().key_prefix("redlock:a-b-c")).await;
    let _locks = (odd.lock("odd").await.unwrap(), other.lock("other").await.unwrap());
    assert_eq!(names(&odd).await, ["odd".to_owned()].into());
    assert_eq!(names(&other).await, ["other".to_owned()].into());
}

#[tokio::test]
async fn once_keys_and_jobs_are_listed() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    for i in 0..3 {
        redlock.once(format!("webhook {i}")).run(|_| async { Ok::<_, ()>(()) }).await.unwrap();
    }

    let keys: BTreeSet<_> = redlock.once_keys().try_collect().await.unwrap();

    assert_eq!(keys, ["webhook 0", "webhook 1", "webhook 2"].map(Into::into).into());
    for key in keys {
        assert!(redlock.once(&*key).status().await.unwrap().is_some(), "{key}");
    }

    let jobs: Vec<_> = redlock.claimed_jobs().try_collect().await.unwrap();
    assert!(jobs.is_empty(), "{jobs:?}");
}

/// While another client acquires and releases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_are_listed_meanwhile() {
    const LOCKS: usize = 2_000;
    let scene = Scene::new(5);
    let (holder, other) = (scene.direct(patient()).await, scene.direct(patient()).await);
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
