//! The limit of attempts in flight.

use super::*;
use crate::time::{Clock, SystemClock};

fn attempts(limit: usize) -> Arc<AttemptLimiter> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let attempts = AttemptLimiter::new(Arc::new(Timers::new(clock)));
    attempts.limit.store(limit, Ordering::Relaxed);
    attempts
}

const NODE_TIMEOUT: Duration = Duration::from_secs(3600);

/// An attempt that was decided after this share of the node timeout.
fn decided(percent: u32) -> AttemptOutcome {
    AttemptOutcome::Decided { took: NODE_TIMEOUT * percent / 100, node_timeout: NODE_TIMEOUT }
}

fn poll(entry: &mut PermitWait) -> Poll<Option<Permit>> {
    entry.poll(&mut Context::from_waker(Waker::noop()))
}

#[track_caller]
fn given(entry: &mut PermitWait) -> Permit {
    match poll(entry) {
        Poll::Ready(Some(permit)) => permit,
        other => panic!("{other:?}"),
    }
}

fn enqueued(attempts: &Arc<AttemptLimiter>, is_first: bool) -> PermitWait {
    let mut entry = attempts.enter(is_first, Timestamp::MAX);
    assert!(poll(&mut entry).is_pending());
    entry
}

#[test]
fn permits_pass_in_order() {
    let attempts = attempts(2);
    let permits = [attempts.try_enter().unwrap(), attempts.try_enter().unwrap()];

    assert!(attempts.try_enter().is_none());
    let [mut a, mut b] = [(), ()].map(|()| enqueued(&attempts, true));
    let [first, second] = permits;
    drop(first);
    assert!(attempts.try_enter().is_none(), "others wait");
    assert!(poll(&mut b).is_pending());
    let a = given(&mut a);
    drop((a, second));
    drop(given(&mut b));

    assert_eq!(attempts.in_flight.load(Ordering::SeqCst), 0);
    assert!(attempts.try_enter().is_some());
}

#[test]
fn first_attempts_and_retries_alternate() {
    let attempts = attempts(1);
    let permit = attempts.try_enter().unwrap();
    let kinds = [false, false, false, true, true];
    let mut waiting: Vec<_> =
        kinds.iter().map(|is_first| (*is_first, enqueued(&attempts, *is_first))).collect();
    let mut served = Vec::new();

    drop(permit);
    while !waiting.is_empty() {
        // Dropping the permit passes it on.
        waiting.retain_mut(|(is_first, entry)| match poll(entry) {
            Poll::Ready(permit) => {
                served.push((*is_first, permit.is_some()));
                false
            }
            Poll::Pending => true,
        });
    }
    let order = [true, false, true, false, false];

    assert_eq!(served, order.map(|is_first| (is_first, true)));
}

#[test]
fn leaving_loses_no_permit() {
    let attempts = attempts(1);
    let permit = attempts.try_enter().unwrap();
    let [a, b] = [(), ()].map(|()| enqueued(&attempts, true));
    let mut c = enqueued(&attempts, true);

    drop(b);
    drop(permit);
    // It received the permit, and never took it.
    drop(a);
    drop(given(&mut c));

    assert_eq!(attempts.in_flight.load(Ordering::SeqCst), 0);
    assert_eq!(attempts.waiting.load(Ordering::SeqCst), 0);
}

#[test]
fn wait_times_out() {
    let attempts = attempts(1);
    let permit = attempts.try_enter().unwrap();
    let mut entry = attempts.enter(true, Timestamp::ZERO);
    assert!(matches!(poll(&mut entry), Poll::Ready(None)));
    assert_eq!(attempts.waiting.load(Ordering::SeqCst), 0);
    drop(permit);
    let mut late = attempts.enter(true, Timestamp::ZERO);
    drop(given(&mut late));
}

#[test]
fn limit_follows_latency() {
    let attempts = attempts(100);
    let end = |pace| attempts.try_enter().unwrap().end(pace);
    let limit = || attempts.limit.load(Ordering::Relaxed);

    end(decided(0));
    assert_eq!(limit(), 100, "no attempt waits");
    let late = AttemptOutcome::TimedOut { node_timeout: NODE_TIMEOUT };
    end(late);
    assert_eq!(limit(), 50);
    end(late);
    assert_eq!(limit(), 50, "the attempt began under the former limit");
    attempts.queue().settled_at = None;
    end(late);
    assert_eq!(limit(), MIN_LIMIT);
    let permits: Vec<_> = (0..MIN_LIMIT).map(|_| attempts.try_enter().unwrap()).collect();
    let _waiting = enqueued(&attempts, true);
    for permit in permits {
        permit.end(decided(0));
    }

    assert_eq!(limit(), MIN_LIMIT + 1, "an attempt waited");
}

#[test]
fn limit_follows_delay_beyond_shortest_decision() {
    let attempts = attempts(100);
    attempts.waiting.store(1, Ordering::SeqCst);
    let limit_after = |percent| {
        attempts.queue().settled_at = None;
        attempts.adapt(decided(percent));
        attempts.limit.load(Ordering::Relaxed)
    };

    assert_eq!(limit_after(60), 101, "distance is no delay");
    assert_eq!(limit_after(80), 102);
    assert_eq!(limit_after(94), 102, "neither prompt nor slow");
    assert_eq!(limit_after(20), 103);
    assert_eq!(limit_after(71), 91, "slow since one was quicker");
    assert_eq!(limit_after(72), 91, "the shortest decision grew by an eighth");
}

#[test]
fn limit_recovers_where_nodes_became_slower() {
    let attempts = attempts(256);
    attempts.waiting.store(1, Ordering::SeqCst);
    for percent in std::iter::once(2).chain(std::iter::repeat_n(60, 600)) {
        attempts.queue().settled_at = None;
        attempts.adapt(decided(percent));
    }
    assert!(attempts.limit.load(Ordering::Relaxed) > 256);
}

#[test]
fn limit_shrinks_once_in_node_timeout() {
    let attempts = attempts(100);
    let limit = || attempts.limit.load(Ordering::Relaxed);

    for percent in [0, 60, 100] {
        attempts.adapt(decided(percent));
    }
    assert_eq!(limit(), 88);
    attempts.limit.store(MIN_LIMIT, Ordering::Relaxed);
    attempts.queue().settled_at = None;
    attempts.adapt(decided(100));

    assert_eq!(limit(), MIN_LIMIT);
}

#[test]
fn threads_lose_no_permit() {
    let attempts = attempts(3);

    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..6)
            .map(|worker| {
                let attempts = &attempts;
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        let permit = attempts.try_enter().unwrap_or_else(|| {
                            let mut entry = attempts.enter(worker % 2 == 0, Timestamp::MAX);
                            let thread = std::thread::current();
                            let waker = Waker::from(Arc::new(WorkerWaker(thread)));
                            let mut cx = Context::from_waker(&waker);
                            loop {
                                match entry.poll(&mut cx) {
                                    Poll::Ready(permit) => break permit.unwrap(),
                                    Poll::Pending => std::thread::park(),
                                }
                            }
                        });
                        drop(permit);
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
    });

    assert_eq!(attempts.in_flight.load(Ordering::SeqCst), 0);
    assert_eq!(attempts.waiting.load(Ordering::SeqCst), 0);
}

struct WorkerWaker(std::thread::Thread);

impl std::task::Wake for WorkerWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
