//! The records of work that is done: what loses them, and when they end.

use std::{convert::Infallible, time::Duration};

use tower_redlock::once::{Once, UnknownOutcome};

use crate::fixture::{Fixture, RedisServer, eventually_async};

#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let (fixture, redlock) = Fixture::patient().await;
    let flush = |server: &RedisServer| drop(server.cli(&["SCRIPT", "FLUSH"]));
    let unknown = UnknownOutcome::Hold(Duration::from_secs(3600));
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
    eventually_async("the record is repaired", async || {
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
    eventually_async("the work runs again", async || matches!(run().await, Ok(Once::Ran(()))))
        .await;
}
