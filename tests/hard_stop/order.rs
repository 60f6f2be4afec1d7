//! First the work goes, then the keys.

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
    RedlockBuilder,
    node::{EmbeddedNodes, Node, NodeHealth, Op, Reply},
};

use crate::tools::{Flag, HandClock, VALIDITY, builder, is_expired, poll};

/// Writes down releases in the order in which they are sent, and whether the work was gone by then.
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
fn the_work_is_dropped_before_the_release_is_sent_however_it_ends() {
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
