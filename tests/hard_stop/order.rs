//! Work is dropped before its keys are released.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use tower_redlock::{
    EmbeddedNodes, NodeHealth, RedlockBuilder,
    node::{Node, Op, Reply},
};

use crate::tools::{Flag, HandClock, VALIDITY, builder, is_expired, poll};

/// Records, for each release that is sent, whether the work was dropped before.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn Node>,
    is_dropped: Arc<AtomicBool>,
    releases: Arc<Mutex<Vec<bool>>>,
}

impl Node for Watched {
    fn send(&self, op: Op, reply: Reply) {
        if matches!(op, Op::Release(_)) {
            self.releases.lock().unwrap().push(self.is_dropped.load(Ordering::SeqCst));
        }
        self.inner.send(op, reply);
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn health(&self) -> NodeHealth {
        self.inner.health()
    }
}

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
        let clock = HandClock::unwatched();
        let (flag, is_dropped) = Flag::new();
        let releases = Arc::<Mutex<Vec<bool>>>::default();
        let watched = |inner| Watched {
            inner,
            is_dropped: Arc::clone(&is_dropped),
            releases: Arc::clone(&releases),
        };
        let nodes = EmbeddedNodes::with_clock(3, clock.clone());
        let redlock =
            nodes.nodes("redlock").map(watched).fold(builder(&clock), RedlockBuilder::node);
        let redlock = redlock.build().unwrap();
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
