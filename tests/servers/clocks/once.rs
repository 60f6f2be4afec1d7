//! Work that is done once, under the strict clock guard.

use std::{convert::Infallible, time::Duration};

use tower_redlock::{
    LockError, Redlock, RedlockBuilder,
    once::{Once, OnceError},
};

use super::scene::{LONG, MINUTES, Scene, in_time, patient};
use crate::support::{Feature, eventually_async, hand_clock::HandClock, has};

const DONE: &str = "redlock:done:once:order:7";

fn strict() -> RedlockBuilder {
    patient().clock_guard(Duration::from_secs(2))
}

type Ended = Result<Once<()>, OnceError<Infallible>>;

/// Work that calls `act` at its end.
async fn run(redlock: &Redlock, act: impl FnOnce()) -> Ended {
    let work = redlock.once("order:7").run(|_| async {
        act();
        Ok(())
    });
    in_time(work).await
}

impl Scene {
    fn records(&self) -> Vec<bool> {
        self.servers.iter().map(|server| server.exists(DONE)).collect()
    }
}

#[tokio::test]
async fn wrong_clock_keeps_no_record() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    for off in [MINUTES, -MINUTES, 5.0, -5.0] {
        let scene = Scene::new();
        scene.servers[0].set_clock_offset(off);
        let redlock = scene.manager(strict()).await;
        assert_eq!(run(&redlock, || {}).await, Ok(Once::Ran(())), "{off} s");
        eventually_async("the other nodes have the record", async || {
            scene.records()[1..] == [true; 2]
        })
        .await;
        assert!(!scene.servers[0].exists(DONE), "{off} s");
        let ended = run(&redlock, || panic!("it is done")).await;
        assert!(matches!(ended, Ok(Once::AlreadyDone { .. })), "{ended:?}");
    }
}

#[tokio::test]
async fn wrong_clocks_leave_the_end_unrecorded() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    for off in [MINUTES, -MINUTES] {
        let scene = Scene::new();
        let redlock = scene.manager(strict()).await;
        let put_off = || scene.servers[..2].iter().for_each(|server| server.set_clock_offset(off));
        let ended = run(&redlock, put_off).await;
        let Ok(Once::RanUnrecorded((), LockError::NoQuorum { .. } | LockError::Lost { .. })) =
            ended
        else {
            panic!("{ended:?}")
        };
        assert_eq!(scene.records()[..2], [false; 2], "{off} s");
    }
}

/// The process was suspended, or its clock was put forward: another process may run the work.
#[tokio::test]
async fn late_work_by_wall_is_undone() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    let scene = Scene::new();
    let clock = HandClock::system();
    let redlock = scene.manager(strict().clock(clock.clone())).await;
    let ended = run(&redlock, || clock.set_wall_ahead(LONG)).await;
    assert!(matches!(ended, Ok(Once::RanUnrecorded((), LockError::Lost { .. }))), "{ended:?}");
    assert_eq!(scene.records(), [false; 3]);
    clock.set_wall_ahead(Duration::ZERO);
    let other = scene.manager(strict()).await;
    eventually_async("the key is free again", async || {
        run(&other, || {}).await == Ok(Once::Ran(()))
    })
    .await;
}
