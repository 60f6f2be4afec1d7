//! The local lines.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use super::*;
use crate::{
    error::LockError,
    lock::{
        Overrun,
        settings::{LineBounds, Plan},
    },
    resource::Resource,
    sync::Mutex,
};

fn queue() -> Arc<Queue> {
    Arc::new(Queue::new("me".into(), LineBounds { per_name: 10, total: 12 }))
}

fn names<const N: usize>(names: [&str; N]) -> Resource {
    Resource::try_from(names).unwrap()
}

/// Makes a single attempt, or waits.
fn plan(is_one_shot: bool) -> Arc<Plan> {
    let second = Duration::from_secs(1);
    Arc::new(Plan {
        ttl: second * 10,
        wait: if is_one_shot { Duration::ZERO } else { second },
        max_hold: second * 60,
        linger: Duration::ZERO,
        on_outage: crate::lock::settings::OnOutage::Wait,
        max_attempts: None,
        auto_extend: true,
        overrun: Overrun::default(),
        stall_limit: None,
        heartbeat_within: None,
        polled_within: None,
        keeps_records: false,
        mode: crate::lock::settings::Mode::Exclusive,
        awaits_release: false,
        validity: second * 9,
        node_timeout: second / 20,
        stop_margin: second,
        lead_node: None,
        max_retry_after: Duration::ZERO,
        slack: second,
    })
}

type Request = (QueueWait, Arc<Plan>);

fn enter(queue: &Arc<Queue>, resource: &Resource, is_one_shot: bool) -> Request {
    (queue.enter(resource, Timestamp::ZERO), plan(is_one_shot))
}

fn poll((queueing, plan): &mut Request) -> Poll<Result<Admission, LockError>> {
    queueing.poll(plan, &mut Context::from_waker(Waker::noop()))
}

#[track_caller]
fn turn(request: &mut Request) -> Ticket {
    match poll(request) {
        Poll::Ready(Ok(Admission::Ask(ticket))) => ticket,
        other => panic!("no turn: {other:?}"),
    }
}

#[test]
fn turns_pass_in_order() {
    let queue = queue();
    let a = names(["a"]);
    let first = turn(&mut enter(&queue, &a, false));
    let mut waiting: Vec<_> = (0..4).map(|_| enter(&queue, &a, false)).collect();

    assert!(waiting.iter_mut().all(|w| poll(w).is_pending()));
    drop(waiting.remove(1));
    drop(first);
    for mut next in waiting {
        let ticket = turn(&mut next);
        drop(ticket);
    }

    assert!(queue.lines().names.is_empty(), "an idle name keeps no memory");
}

#[test]
fn dropped_turn_passes_on() {
    let queue = queue();
    let a = names(["a"]);
    let first = turn(&mut enter(&queue, &a, false));
    let mut second = enter(&queue, &a, false);
    let mut third = enter(&queue, &a, false);

    assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
    drop(first);
    drop(second);
    drop(turn(&mut third));

    assert!(queue.lines().names.is_empty());
}

#[test]
fn single_attempt_gets_heads_verdict() {
    let queue = queue();
    let a = names(["a"]);
    let head = turn(&mut enter(&queue, &a, false));
    let mut early = enter(&queue, &a, true);

    assert!(poll(&mut early).is_pending(), "the head has no verdict yet");
    let error = queue.held_here(None);
    head.report(&error);
    assert!(matches!(poll(&mut early), Poll::Ready(Err(found)) if found == error));
    let mut late = enter(&queue, &a, true);

    assert!(matches!(poll(&mut late), Poll::Ready(Err(found)) if found == error));
}

#[test]
fn overlapping_sets_do_not_deadlock() {
    let queue = queue();
    let b = turn(&mut enter(&queue, &names(["b"]), false));
    let mut both = enter(&queue, &names(["b", "a"]), false);

    assert!(poll(&mut both).is_pending(), "has a, waits for b");
    let mut one_shot = enter(&queue, &names(["a"]), true);
    assert!(matches!(poll(&mut one_shot), Poll::Ready(Err(LockError::Held { .. }))));
    let mut other_order = enter(&queue, &names(["a", "b"]), false);
    assert!(poll(&mut other_order).is_pending());
    drop(b);
    drop(turn(&mut both));
    drop(turn(&mut other_order));

    assert!(queue.lines().names.is_empty());
}

/// A task that is dropped with its last waker, and leaves a line then.
struct QueueTask {
    _waits: Mutex<Option<Request>>,
}

impl Wake for QueueTask {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn waker_drop_may_leave_a_line() {
    let queue = queue();
    let a = names(["a"]);
    let first = turn(&mut enter(&queue, &a, false));
    let mut second = enter(&queue, &a, false);
    let mut third = enter(&queue, &a, false);

    assert!(poll(&mut second).is_pending());
    let task = Waker::from(Arc::new(QueueTask { _waits: Mutex::new(Some(second)) }));
    assert!(third.0.poll(&third.1, &mut Context::from_waker(&task)).is_pending());
    drop(task);
    assert!(poll(&mut third).is_pending(), "with another waker");
    drop(first);
    drop(turn(&mut third));

    assert!(queue.lines().names.is_empty());
    assert_eq!(queue.lines().waiting, 0);
}
