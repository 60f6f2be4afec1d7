//! Ends of work that the nodes do not store at once: they are owed until a quorum has them.

use std::convert::Infallible;

use tower_redlock::{
    LockError, Redlock,
    lock::{LockEventKind, OwedKind},
    once::{Once, OnceError, UnknownOutcome},
    testing::Task,
};

use super::scene::{Ended, HOUR, KEY, MS, SECOND, Scene, TTL, assert_done_by, assert_ran};
use crate::log::Log;

/// Starts work of blue that has ended when all nodes stop answering.
fn ends_while_nodes_hang(scene: &Scene, nodes: usize) -> Task<Ended> {
    let (frozen, runs) = (scene.nodes.clone(), scene.runs.clone());
    let work = scene.clock.spawn(scene.at_blue.once(KEY).run(move |_| async move {
        frozen.freeze(0..nodes);
        Ok::<_, Infallible>(runs.run())
    }));
    scene.clock.settle();
    work
}

fn spawn(scene: &Scene, redlock: &Redlock) -> Task<Ended> {
    let runs = scene.runs.clone();
    scene.clock.spawn(redlock.once(KEY).run(|_| async move { Ok::<_, Infallible>(runs.run()) }))
}

mod hang {
    use super::*;

    /// Of one server, of three, and of two of three.
    #[test]
    fn work_runs_once_beside_any_hang() {
        for (nodes, hanging) in [(1, 1), (3, 3), (3, 2), (5, 5)] {
            for hang in [100, 300, 700, 1_000, 3_000, 9_000].map(|ms| MS * ms) {
                let scene = Scene::new(nodes);
                let mut work = ends_while_nodes_hang(&scene, hanging);
                scene.clock.advance(hang);
                let mut here = spawn(&scene, &scene.at_blue);
                let mut elsewhere = spawn(&scene, &scene.at_green);
                scene.clock.settle();

                scene.nodes.thaw(0..hanging);
                scene.clock.advance(2 * SECOND);

                let ended = work.take().expect("its caller is not kept waiting");
                let is_output = matches!(ended, Ok(Once::Ran(1) | Once::RanUnrecorded(1, _)));
                assert!(is_output, "{hang:?}: {ended:?}");
                assert_done_by(&here.take().expect("it is answered"), "blue");
                drop(elsewhere.take());
                for ended in [scene.blue_does(), scene.green_does()] {
                    assert_done_by(&ended, "blue");
                }
                assert_eq!(scene.runs.count(), 1, "{nodes} nodes, {hang:?}");
                assert_eq!(scene.nodes.key_counts(), vec![0; nodes], "the lock is released");
            }
        }
    }

    #[test]
    fn owed_record_is_listed_until_it_is_stored() {
        let scene = Scene::new(1);
        let mut work = ends_while_nodes_hang(&scene, 1);
        assert_eq!(scene.at_blue.snapshot().owed, []);

        scene.clock.advance(600 * MS);
        let ended = work.take().expect("it is answered after ten node timeouts");
        let Ok(Once::RanUnrecorded(1, LockError::NoQuorum { .. })) = ended else {
            panic!("{ended:?}")
        };
        let owed = scene.at_blue.snapshot().owed;
        assert_eq!(owed.len(), 1, "{owed:?}");
        assert_eq!((owed[0].kind, &*owed[0].name), (OwedKind::Record, "once:order:7"));
        assert!(owed[0].is_protected && owed[0].age >= 600 * MS, "{owed:?}");

        scene.nodes.thaw([0]);
        scene.clock.advance(SECOND);
        assert_eq!(scene.at_blue.snapshot().owed, []);
        assert_eq!(scene.at_blue.counts().unrecorded, 0);
    }
}

mod lock_ended {
    use super::*;

    /// Blue is cut off for longer than its TTL: another client may run the work, and that is said once.
    #[tokio::test]
    async fn unprotected_record_is_reported_once() {
        let (scene, log) = (Scene::new(3), Log::new());
        let mut events = scene.at_blue.events();
        log.during(async {
            let (blue, runs) = (scene.blue.clone(), scene.runs.clone());
            let mut work = scene.clock.spawn(scene.at_blue.once(KEY).run(move |_| async move {
                blue.partition(0..3);
                Ok::<_, Infallible>(runs.run())
            }));
            scene.clock.advance(2 * TTL);
            drop(work.take().expect("it is answered"));
        })
        .await;

        assert_eq!(scene.at_blue.counts().unrecorded, 1);
        assert_eq!(scene.at_blue.counts().lost, 0, "the work had ended");
        let owed = scene.at_blue.snapshot().owed;
        assert!(owed.len() == 1 && !owed[0].is_protected, "{owed:?}");
        assert_eq!(log.count("WARN"), 1, "{}", log.text());
        let mut kinds = Vec::new();
        while let Ok(event) = events.try_recv() {
            kinds.push(event.kind);
        }
        let reported = |kind: &&LockEventKind| matches!(kind, LockEventKind::Unrecorded { .. });
        assert_eq!(kinds.iter().filter(reported).count(), 1, "{kinds:?}");

        // It is stored after all.
        scene.blue.heal(0..3);
        scene.clock.advance(2 * SECOND);
        assert_eq!(scene.at_blue.snapshot().owed, []);
        assert_done_by(&scene.green_does(), "blue");
        assert_eq!(scene.at_blue.counts().unrecorded, 1);
    }

    #[test]
    fn own_process_answers_from_what_it_owes() {
        let scene = Scene::new(3);
        let (blue, runs) = (scene.blue.clone(), scene.runs.clone());
        let _work = scene.clock.spawn(scene.at_blue.once(KEY).run(move |_| async move {
            blue.partition(0..3);
            Ok::<_, Infallible>(runs.run())
        }));
        scene.clock.advance(6 * TTL);

        assert_done_by(&scene.blue_does(), "blue");

        scene.clock.advance(96 * HOUR);
        assert_eq!(scene.at_blue.snapshot().owed, [], "no client asks for it any more");
    }
}

mod shutdown {
    use super::*;

    #[test]
    fn shutdown_waits_for_owed_records() {
        let scene = Scene::new(1);
        let mut work = ends_while_nodes_hang(&scene, 1);
        scene.clock.advance(700 * MS);
        drop(work.take());
        let at_blue = scene.at_blue.clone();
        let mut shutdown = scene.clock.spawn(async move { at_blue.shutdown().await });
        scene.clock.advance(2 * SECOND);
        assert!(!shutdown.is_finished(), "the record is owed");

        scene.nodes.thaw([0]);
        scene.clock.advance(2 * SECOND);

        shutdown.take().expect("nothing is owed any more");
        assert_done_by(&scene.green_does(), "blue");
        assert_eq!(scene.at_blue.counts().unrecorded, 0);
    }

    #[tokio::test]
    async fn shutdown_reports_what_it_gives_up() {
        let (scene, log) = (Scene::new(1), Log::new());
        log.during(async {
            let mut work = ends_while_nodes_hang(&scene, 1);
            scene.clock.advance(700 * MS);
            drop(work.take());
            let at_blue = scene.at_blue.clone();
            let mut shutdown = scene.clock.spawn(async move { at_blue.shutdown().await });
            scene.clock.advance(70 * SECOND);
            shutdown.take().expect("it does not wait for ever");
        })
        .await;

        assert_eq!(scene.at_blue.counts().unrecorded, 1);
        log.wait_for("WARN", &["work is done", KEY, "may run again"]).await;
        assert_eq!(scene.at_blue.snapshot().owed, []);
    }

    #[tokio::test]
    async fn drop_of_manager_reports_what_it_gives_up() {
        let (scene, log) = (Scene::new(1), Log::new());
        let redlock = scene.nodes.replica("third").redlock();
        log.during(async {
            let (nodes, once) = (scene.nodes.clone(), redlock.once(KEY));
            let mut work = scene.clock.spawn(once.run(|_| async move {
                nodes.freeze([0]);
                Ok::<_, Infallible>(())
            }));
            scene.clock.advance(700 * MS);
            drop((work.take(), work));
            drop(redlock);
        })
        .await;
        log.wait_for("WARN", &["work is done", KEY, "last handle"]).await;
    }
}

mod start {
    use super::*;

    /// The check fails, so the work does not start: the record of its start is removed although no node
    /// answers just then.
    #[test]
    fn start_record_is_removed_behind_a_hang() {
        for hang in [300, 1_000, 3_000].map(|ms| MS * ms) {
            let scene = Scene::new(3);
            let nodes = scene.nodes.clone();
            let request = scene.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR));
            let request = request.unless(move |_| async move {
                nodes.freeze(0..3);
                Err::<bool, _>("unreachable")
            });
            let mut work = scene.clock.spawn(request.run(|_| async { Ok::<(), _>(()) }));
            scene.clock.advance(hang);
            let ended = work.take().expect("it ends");
            assert!(matches!(ended, Err(OnceError::Work("unreachable"))), "{ended:?}");

            scene.nodes.thaw(0..3);
            scene.clock.advance(2 * SECOND);

            assert_ran(&scene.green_does(), 1);
        }
    }
}

#[test]
fn drop_during_recording_stores_it() {
    for hang in [300, 1_000, 3_000].map(|ms| MS * ms) {
        let scene = Scene::new(1);
        let work = ends_while_nodes_hang(&scene, 1);
        drop(work);
        scene.clock.advance(hang);
        scene.nodes.thaw([0]);
        scene.clock.advance(2 * SECOND);
        assert_done_by(&scene.green_does(), "blue");
        assert_eq!(scene.runs.count(), 1);
    }
}
