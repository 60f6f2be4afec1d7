//! Locks of others that are revoked, listings, and the forms of a lock, while a set is down.

use std::{convert::Infallible, thread, time::Duration};

use futures_util::StreamExt as _;
use tower::{Service, ServiceBuilder, ServiceExt as _, service_fn};
use tower_redlock::{
    LockContext, LockError, Redlock, RedlockLayer, Resource,
    error::{LossCause, ReleaseError},
    layer::{GuardError, KeyError},
    lock::Released,
};

use crate::fixture::{HANG_GUARD, RedisServer, sets::Sets};

#[tokio::test]
async fn holder_in_second_set_learns_of_revoke() {
    let sets = Sets::start();
    let [first, second] = sets.names("n").await;
    let (holder, other) = (sets.owner("holder").await, sets.owner("other").await);
    let kept = holder.lock(first.as_str()).await.unwrap();
    let lost = holder.lock(second.as_str()).await.unwrap();
    let found = other.inspect(second.as_str()).await.unwrap().expect("it is held");
    assert_eq!(other.revoke(&found).await, Ok(Released::Released));
    let _taken = other.lock(second.as_str()).wait(HANG_GUARD).await.unwrap();
    let error = lost.extend().await.unwrap_err();
    let LockError::Lost { cause: LossCause::Stolen { owner } } = error else { panic!("{error}") };
    assert_eq!(owner.as_deref(), Some("other"));
    kept.extend().await.unwrap();
    let found = other.inspect(first.as_str()).await.unwrap().expect("it is held");
    assert_eq!(found.owner.as_deref(), Some("holder"));
    assert_eq!(other.revoke(&*second).await, Ok(Released::Released), "by its name");
}

#[tokio::test]
async fn names_are_revoked_beside_a_dead_set() {
    let mut sets = Sets::start();
    let [first, second] = sets.names("n").await;
    let (holder, other) = (sets.owner("holder").await, sets.owner("other").await);
    let _lost = holder.lock(second.as_str()).await.unwrap();
    sets.take_down(0, &[&holder, &other]).await;
    assert_eq!(other.revoke(&*second).await, Ok(Released::Released));
    let error = other.revoke(&*first).await.unwrap_err();
    assert!(!sets.servers[1].iter().any(|server| server.exists(&format!("redlock:lock:{second}"))));
    assert!(matches!(error, ReleaseError::NoQuorum { .. }), "{error:?}");
    assert!(error.to_string().contains("set 1 of 2"), "{error}");
}

#[tokio::test]
async fn errors_name_the_set_that_is_down() {
    let mut sets = Sets::start();
    let [first, second] = sets.names("n").await;
    let redlock = sets.owner("one").await;
    sets.take_down(1, &[&redlock]).await;
    let refused = redlock.lock(second.as_str()).await.unwrap_err();
    let waited = redlock.lock(second.as_str()).wait(Duration::from_millis(50)).await;
    let inspected = redlock.inspect(second.as_str()).await.unwrap_err();
    let ready = redlock.readiness().unwrap_err();
    for error in [refused, waited.unwrap_err(), inspected] {
        assert!(matches!(error.root(), LockError::NoQuorum { .. }), "{error:?}");
        assert!(error.to_string().contains("set 2 of 2: node-1: "), "{error}");
    }
    assert!(ready.to_string().starts_with("set 2 of 2: only 0 of 3 nodes vote"), "{ready}");
    let alone = redlock.sets()[0].readiness();
    assert!(alone.is_ok() && redlock.lock(first.as_str()).await.is_ok());
}

#[tokio::test]
async fn listings_show_the_other_sets_before_the_error() {
    for down in [0, 1] {
        let mut sets = Sets::start();
        let names = sets.names("n").await;
        let redlock = sets.owner("one").await;
        let up = &names[1 - down];
        let _held = redlock.lock(up.as_str()).await.unwrap();
        let key = format!("{{{up}}}");
        let request = redlock.once(key.as_str());
        request.run(|_| async { Ok::<_, Infallible>(String::new()) }).await.unwrap();
        sets.take_down(down, &[&redlock]).await;

        let locks: Vec<_> = redlock.locks().collect().await;
        let keys: Vec<_> = redlock.once_keys().collect().await;

        let [Ok(lock), Err(error)] = &locks[..] else { panic!("set {down} is down: {locks:?}") };
        assert_eq!(*lock.name, **up);
        assert!(error.to_string().contains(&format!("set {} of 2", down + 1)), "{error}");
        let [Ok(key), Err(_)] = &keys[..] else { panic!("set {down} is down: {keys:?}") };
        assert_eq!(**key, *format!("{{{up}}}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_handle_serves_the_set_that_is_up() {
    let mut sets = Sets::start();
    let [first, second] = sets.names("n").await;
    let redlock = sets.owner("one").await;
    let blocking = redlock.blocking();
    let ran = thread::scope(|scope| {
        let (blocking, first, second) = (&blocking, &first, &second);
        let run = |name: &String| blocking.lock(name.as_str()).run(|cx| cx.is_valid());
        scope.spawn(move || [run(first), run(second)]).join().unwrap()
    });
    assert_eq!(ran, [Ok(true), Ok(true)]);
    sets.take_down(0, &[&redlock]).await;
    let held = |name: &str| {
        let has_key = |server: &RedisServer| server.exists(&format!("redlock:lock:{name}"));
        sets.servers[1].iter().filter(|server| has_key(server)).count()
    };
    let (refused, ran) = thread::scope(|scope| {
        let work = || {
            let refused = blocking.lock(first.as_str()).run(|_| ()).unwrap_err();
            (refused, blocking.lock(second.as_str()).run(|_| held(&second)))
        };
        scope.spawn(work).join().unwrap()
    });
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
    assert!(ran.as_ref().is_ok_and(|held| *held >= 2), "{ran:?}");
}

#[tokio::test]
async fn once_runs_in_the_set_that_is_up() {
    let mut sets = Sets::start();
    // The part in braces decides about the set, and the lock of a key has a longer name.
    let [first, second] = sets.names("n").await.map(|name| format!("{{{name}}}"));
    let (one, two) = (sets.owner("one").await, sets.owner("two").await);
    let run = async |redlock: &Redlock, key: &str, wait| {
        let request = redlock.once(key).wait(wait);
        request.run(|_| async { Ok::<_, Infallible>("done".to_owned()) }).await
    };
    sets.take_down(0, &[&one, &two]).await;
    let refused = run(&one, &first, Duration::ZERO).await.unwrap_err();
    let ran = run(&one, &second, Duration::ZERO).await.unwrap();
    // The release of the first may still be under way.
    let again = run(&two, &second, HANG_GUARD).await.unwrap();
    assert!(refused.to_string().contains("set 1 of 2"), "{refused}");
    assert!(matches!(ran, tower_redlock::once::Once::Ran(_)), "{ran:?}");
    assert!(matches!(again, tower_redlock::once::Once::AlreadyDone { .. }), "{again:?}");
    assert!(two.once(&*second).forget().await.unwrap(), "its record");
}

/// A layer keys each request by itself, so one service serves both sets.
#[tokio::test]
async fn layer_refuses_only_requests_of_the_dead_set() {
    let mut sets = Sets::start();
    let [first, second] = sets.names("n").await;
    let redlock = sets.owner("site").await;
    let key = |name: &String| {
        Ok::<_, KeyError>(Some(Resource::try_from(name.as_str()).map_err(KeyError::from)?))
    };
    let mut service = ServiceBuilder::new().layer(RedlockLayer::new(redlock.clone(), key)).service(
        service_fn(async |_: String| {
            Ok::<_, Infallible>(LockContext::current().map(|cx| cx.fencing_token().get()))
        }),
    );
    let before = service.ready().await.unwrap().call(first.clone()).await.unwrap();
    sets.take_down(0, &[&redlock]).await;
    let refused = service.ready().await.unwrap().call(first).await.unwrap_err();
    let served = service.ready().await.unwrap().call(second).await.unwrap();
    let GuardError::Lock(error) = &refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("set 1 of 2"), "{error}");
    assert!(before.is_some() && served.is_some(), "both ran under a lock");
}
