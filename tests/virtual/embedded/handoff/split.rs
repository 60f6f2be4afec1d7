//! Votes that were split between clients, and released.

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
    node::{Answer, ExtendedAnswer, GrantedAnswer, HeldAnswer, Op, ReleasedAnswer},
};

use super::fixture::{WAIT, granted, waiting};
use crate::support::{hand_clock::HandClock, mock_node::MockNode};

#[test]
fn minority_release_blocks_no_client() {
    let clock = HandClock::new();
    let (one, others) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicBool>::default());
    let acquires = Arc::<AtomicUsize>::default();
    // Grants or refuses, and answers each release with waiters.
    let node = |i: usize| {
        let grants = Arc::clone(if i == 0 { &one } else { &others });
        let acquires = Arc::clone(&acquires);
        MockNode::answering(format!("n{i}"), move |op| match op {
            Op::Acquire(_) => {
                acquires.fetch_add(1, Ordering::SeqCst);
                let grants = grants.load(Ordering::SeqCst);
                let granted = Answer::Granted(GrantedAnswer::new(true, 0));
                Ok(if grants { granted } else { Answer::Held(HeldAnswer::new(None, None, 0)) })
            }
            Op::Release(_) => Ok(Answer::Released(ReleasedAnswer::new(true, true))),
            Op::Extend(_) => Ok(Answer::Extended(ExtendedAnswer::UNAWAITED)),
            other => panic!("{other:?}"),
        })
    };
    let builder = Redlock::builder().clock(clock.clone());
    let redlock = builder.node(node(0)).node(node(1)).node(node(2)).build().unwrap();

    for _ in 0..4 {
        let refused = super::fixture::poll(&mut redlock.lock("x").into_future());
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
    // The next one yields after its turn of 20 ms.
    let lock = granted(&mut redlock.lock("x").wait(WAIT).into_future());
    clock.advance(Duration::from_millis(20));
    let mut fourth = waiting(redlock.lock("x").wait(WAIT));
    drop(lock);
    assert!(super::fixture::poll(&mut fourth).is_pending());
}
