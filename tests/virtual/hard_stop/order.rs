//! Work is dropped before its keys are released.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, atomic::Ordering},
    task::Poll,
};

use tower_redlock::node::Op;

use crate::{
    hard_stop::fixture::{Flag, Scene, VALIDITY, is_expired, poll},
    support::mock_node::MockNode,
};

#[derive(Clone, Copy, Debug)]
enum End {
    Dropped,
    Lost,
    Panic,
    Ready,
}

#[test]
fn work_is_dropped_before_the_release() {
    for end in [End::Dropped, End::Lost, End::Panic, End::Ready] {
        let (flag, is_dropped) = Flag::new();
        let releases = Arc::<Mutex<Vec<bool>>>::default();
        let watched = |inner| {
            let (is_dropped, releases) = (Arc::clone(&is_dropped), Arc::clone(&releases));
            MockNode::observing(&inner, move |op| {
                if matches!(op, Op::Release(_)) {
                    releases.lock().unwrap().push(is_dropped.load(Ordering::SeqCst));
                }
            })
        };
        let fixture = Scene::without_timers(3).over(|builder| builder, watched);
        let Scene { clock, redlock, nodes } = fixture;
        let mut polls = 0;
        let work = poll_fn(move |_| {
            let _owned = &flag;
            polls += 1;
            match (end, polls) {
                (_, 1) | (End::Dropped | End::Lost, _) => Poll::Pending,
                (End::Panic, _) => panic!("on purpose"),
                (End::Ready, _) => Poll::Ready(()),
            }
        });
        let mut run = Box::pin(redlock.lock("x").run(|_| work));
        assert!(poll(run.as_mut()).is_pending());
        assert!(releases.lock().unwrap().is_empty());
        match end {
            End::Dropped => {}
            End::Lost => {
                clock.advance(VALIDITY);
                assert!(is_expired(&poll(run.as_mut())));
            }
            End::Panic => {
                catch_unwind(AssertUnwindSafe(|| poll(run.as_mut()))).unwrap_err();
            }
            End::Ready => assert_eq!(poll(run.as_mut()), Poll::Ready(Ok(()))),
        }
        drop(run);
        assert_eq!(*releases.lock().unwrap(), [true; 3], "{end:?}");
        assert_eq!(nodes.key_counts(), [0; 3], "{end:?}");
    }
}
