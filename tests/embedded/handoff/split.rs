//! Votes that were split, and given back.

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tower_redlock::{
    Redlock,
    node::{Answer, GrantedAnswer, HeldAnswer, Node, Op, ReleasedAnswer, Reply},
};

use super::scene::{HandClock, WAIT, granted, waiting};

/// Grants, or says that somebody else has the name. To each release it says that others wait.
#[derive(Debug)]
struct Fickle {
    name: String,
    grants: Arc<AtomicBool>,
    acquires: Arc<AtomicUsize>,
}

impl Node for Fickle {
    fn send(&self, op: Op, reply: Reply) {
        reply.send(Ok(match op {
            Op::Acquire(_) => {
                self.acquires.fetch_add(1, Ordering::SeqCst);
                if self.grants.load(Ordering::SeqCst) {
                    Answer::Granted(GrantedAnswer::new(true, 0))
                } else {
                    Answer::Held(HeldAnswer::new(None, None, 0))
                }
            }
            Op::Release(_) => Answer::Released(ReleasedAnswer::new(true, true)),
            Op::Extend(_) => Answer::Extended,
            other => panic!("{other:?}"),
        }));
    }

    fn name(&self) -> &str {
        &self.name
    }
}

#[test]
fn minority_release_blocks_nobody() {
    let clock = HandClock::new();
    let (one, others) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicBool>::default());
    let acquires = Arc::<AtomicUsize>::default();
    let node = |i: usize| Fickle {
        name: format!("n{i}"),
        grants: Arc::clone(if i == 0 { &one } else { &others }),
        acquires: Arc::clone(&acquires),
    };
    let builder = Redlock::builder().clock(clock.clone());
    let redlock = builder.node(node(0)).node(node(1)).node(node(2)).build().unwrap();

    for _ in 0..4 {
        let refused = super::scene::poll(&mut redlock.lock("x").into_future());
        assert!(matches!(refused, Poll::Ready(Err(_))), "{refused:?}");
        clock.advance(Duration::from_millis(41));
    }
    others.store(true, Ordering::SeqCst);
    let lock = granted(&mut redlock.lock("x").wait(WAIT).into_future());
    let mut second = waiting(redlock.lock("x").wait(WAIT));
    let before = acquires.load(Ordering::SeqCst);
    drop(lock);
    let lock = granted(&mut second);
    assert_eq!(acquires.load(Ordering::SeqCst), before, "handed on");
    drop(lock);
    // Now it has: the next one gives way, once its turn of 20 ms is over.
    let lock = granted(&mut redlock.lock("x").wait(WAIT).into_future());
    clock.advance(Duration::from_millis(20));
    let mut fourth = waiting(redlock.lock("x").wait(WAIT));
    drop(lock);
    assert!(super::scene::poll(&mut fourth).is_pending());
}
