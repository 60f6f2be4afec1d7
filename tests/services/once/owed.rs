//! Ends of work that the nodes do not store at once: they are owed until a quorum has them.

use std::convert::Infallible;

use tower_redlock::{
    LockError, Redlock,
    lock::{LockEventKind, OwedKind},
    once::{Once, OnceError, UnknownOutcome},
    testing::Task,
};

use super::fixture::{Ended, Fixture, HOUR, KEY, MS, SECOND, TTL, assert_done_by, assert_ran};
use crate::log::Log;

/// Starts work of blue that has ended when all nodes stop answering.
fn ends_while_nodes_hang(fixture: &Fixture, nodes: usize) -> Task<Ended> {
    let (frozen, runs) = (fixture.nodes.clone(), fixture.runs.clone());
    let work = fixture.clock.spawn(fixture.at_blue.once(KEY).run(move |_| async move {
        frozen.freeze(0..nodes);
        Ok::<_, Infallible>(runs.run())
    }));
    fixture.clock.settle();
    work
}

fn spawn(fixture: &Fixture, redlock: &Redlock) -> Task<Ended> {
    let runs = fixture.runs.clone();
    fixture.clock.spawn(redlock.once(KEY).run(|_| async move { Ok::<_, Infallible>(runs.run()) }))
}

mod hang {
    use super::*;

    /// Of one server, of three, and of two of three.
    #[test]
    fn work_runs_once_beside_any_hang() {
        for (nodes, hanging) in [(1, 1), (3, 3), (3, 2), (5, 5)] {
            for hang in [100, 300, 700, 1_000, 3_000, 9_000].map(|ms| MS * ms) {
                let fixture = Fixture::new(nodes);
                let mut work = ends_while_nodes_hang(&fixture, hanging);
                fixture.clock.advance(hang);
                let mut here = spawn(&fixture, &fixture.at_blue);
                let mut elsewhere = spawn(&fixture, &fixture.at_green);
                fixture.clock.settle();

                fixture.nodes.thaw(0..hanging);
                fixture.clock.advance(2 * SECOND);

                let ended = work.take().expect("its caller is not kept waiting");
                let is_output = matches!(ended, Ok(Once::Ran(1) | Once::RanUnrecorded(1, _)));
                assert!(is_output, "{hang:?}: {ended:?}");
                assert_done_by(&here.take().expect("it is answered"), "blue");
                drop(elsewhere.take());
                for ended in [fixture.blue_does(), fixture.green_does()] {
                    assert_done_by(&ended, "blue");
                }
                assert_eq!(fixture.runs.count(), 1, "{nodes} nodes, {hang:?}");
                assert_eq!(fixture.nodes.key_counts(), vec![0; nodes], "the lock is released");
            }
        }
    }

    #[test]
    fn owed_record_is_listed_until_it_is_stored() {
        let fixture = Fixture::new(1);
        let mut work = ends_while_nodes_hang(&fixture, 1);
        assert_eq!(fixture.at_blue.snapshot().owed, []);

        fixture.clock.advance(600 * MS);
        let ended = work.take().expect("it is answered after ten node timeouts");
        let Ok(Once::RanUnrecorded(1, LockError::NoQuorum { .. })) = ended else {
            panic!("{ended:?}")
        };
        let owed = fixture.at_blue.snapshot().owed;
        assert_eq!(owed.len(), 1, "{owed:?}");
        assert_eq!((owed[0].kind, &*owed[0].name), (OwedKind::Record, "once:order:7"));
        assert!(owed[0].is_protected && owed[0].age >= 600 * MS, "{owed:?}");

        fixture.nodes.thaw([0]);
        fixture.clock.advance(SECOND);
        assert_eq!(fixture.at_blue.snapshot().owed, []);
        assert_eq!(fixture.at_blue.counts().unrecorded, 0);
    }
}

mod lock_ended {
    use super::*;

    /// Blue is cut off for longer than its TTL: another client may run the work, and that is said once.
    #[tokio::test]
    async fn unprotected_record_is_reported_once() {
        let (fixture, log) = (Fixture::new(3), Log::new());
        let mut events = fixture.at_blue.events();
        log.during(async {
            let (blue, runs) = (fixture.blue.clone(), fixture.runs.clone());
            let mut work =
                fixture.clock.spawn(fixture.at_blue.once(KEY).run(move |_| async move {
                    blue.partition(0..3);
                    Ok::<_, Infallible>(runs.run())
                }));
            fixture.clock.advance(2 * TTL);
            drop(work.take().expect("it is answered"));
        })
        .await;

        assert_eq!(fixture.at_blue.counts().unrecorded, 1);
        assert_eq!(fixture.at_blue.counts().lost, 0, "the work had ended");
        let owed = fixture.at_blue.snapshot().owed;
        assert!(owed.len() == 1 && !owed[0].is_protected, "{owed:?}");
        assert_eq!(log.count("WARN"), 1, "{}", log.text());
        let mut kinds = Vec::new();
        while let Ok(event) = events.try_recv() {
            kinds.push(event.kind);
        }
        let reported = |kind: &&LockEventKind| matches!(kind, LockEventKind::Unrecorded { .. });
        assert_eq!(kinds.iter().filter(reported).count(), 1, "{kinds:?}");

        // It is stored after all.
        fixture.blue.heal(0..3);
        fixture.clock.advance(2 * SECOND);
        assert_eq!(fixture.at_blue.snapshot().owed, []);
        assert_done_by(&fixture.green_does(), "blue");
        assert_eq!(fixture.at_blue.counts().unrecorded, 1);
    }

    #[test]
    fn own_process_answers_from_what_it_owes() {
        let fixture = Fixture::new(3);
        let (blue, runs) = (fixture.blue.clone(), fixture.runs.clone());
        let _work =
            fixture.clock.spawn(fixture.at_blue.once(KEY).retain(HOUR).run(move |_| async move {
                blue.partition(0..3);
                Ok::<_, Infallible>(runs.run())
            }));
        fixture.clock.advance(6 * TTL);

        assert_done_by(&fixture.blue_does(), "blue");

        fixture.clock.advance(HOUR);
        assert_eq!(fixture.at_blue.snapshot().owed, [], "no client asks for it any more");
    }
}

mod shutdown {
    use super::*;

    #[test]
    fn shutdown_waits_for_owed_records() {
        let fixture = Fixture::new(1);
        let mut work = ends_while_nodes_hang(&fixture, 1);
        fixture.clock.advance(700 * MS);
        drop(work.take());
        let at_blue = fixture.at_blue.clone();
        let mut shutdown = fixture.clock.spawn(async move { at_blue.shutdown().await });
        fixture.clock.advance(2 * SECOND);
        assert!(!shutdown.is_finished(), "the record is owed");

        fixture.nodes.thaw([0]);
        fixture.clock.advance(2 * SECOND);

        shutdown.take().expect("nothing is owed any more");
        assert_done_by(&fixture.green_does(), "blue");
        assert_eq!(fixture.at_blue.counts().unrecorded, 0);
    }

    #[tokio::test]
    async fn shutdown_reports_what_it_gives_up() {
        let (fixture, log) = (Fixture::new(1), Log::new());
        log.during(async {
            let mut work = ends_while_nodes_hang(&fixture, 1);
            fixture.clock.advance(700 * MS);
            drop(work.take());
            let at_blue = fixture.at_blue.clone();
            let mut shutdown = fixture.clock.spawn(async move { at_blue.shutdown().await });
            fixture.clock.advance(70 * SECOND);
            shutdown.take().expect("it does not wait for ever");
        })
        .await;

        assert_eq!(fixture.at_blue.counts().unrecorded, 1);
        log.wait_for("WARN", &["work is done", KEY, "may run again"]).await;
        assert_eq!(fixture.at_blue.snapshot().owed, []);
    }

    #[tokio::test]
    async fn drop_of_manager_reports_what_it_gives_up() {
        let (fixture, log) = (Fixture::new(1), Log::new());
        let redlock = fixture.nodes.replica("third").redlock();
        log.during(async {
            let (nodes, once) = (fixture.nodes.clone(), redlock.once(KEY));
            let mut work = fixture.clock.spawn(once.run(|_| async move {
                nodes.freeze([0]);
                Ok::<_, Infallible>(())
            }));
            fixture.clock.advance(700 * MS);
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
            let fixture = Fixture::new(3);
            let nodes = fixture.nodes.clone();
            let request = fixture.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR));
            let request = request.unless(move |_| async move {
                nodes.freeze(0..3);
                Err::<bool, _>("unreachable")
            });
            let mut work = fixture.clock.spawn(request.run(|_| async { Ok::<(), _>(()) }));
            fixture.clock.advance(hang);
            let ended = work.take().expect("it ends");
            assert!(matches!(ended, Err(OnceError::Work("unreachable"))), "{ended:?}");

            fixture.nodes.thaw(0..3);
            fixture.clock.advance(2 * SECOND);

            assert_ran(&fixture.green_does(), 1);
        }
    }
}

#[test]
fn drop_during_recording_stores_it() {
    for hang in [300, 1_000, 3_000].map(|ms| MS * ms) {
        let fixture = Fixture::new(1);
        let work = ends_while_nodes_hang(&fixture, 1);
        drop(work);
        fixture.clock.advance(hang);
        fixture.nodes.thaw([0]);
        fixture.clock.advance(2 * SECOND);
        assert_eq!(fixture.nodes.key_counts(), [0], "the lock is released");
        assert_done_by(&fixture.green_does(), "blue");
        assert_eq!(fixture.runs.count(), 1);
    }
}
