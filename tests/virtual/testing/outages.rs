//! Requests that wait while too few nodes vote.

use std::{convert::Infallible, future::IntoFuture, time::Duration};

use tower::{Layer, ServiceExt, service_fn};
use tower_redlock::{
    LockError, LockOptions, Redlock, RedlockLayer,
    error::{Reason, VoteOutcome},
    layer::GuardError,
    testing::{ManualClock, Nodes, Task},
};

use crate::durations::{MS, SECOND};

/// Time for which the requests may wait.
const WAIT: Duration = Duration::from_secs(5);
/// A blank node has no vote for this time: the default TTL, a hundredth of it, and 2 ms.
const PROBATION: Duration = Duration::from_millis(10_102);

type Outcome = Result<(), LockError>;

struct Fixture {
    clock: ManualClock,
    nodes: Nodes,
    redlock: Redlock,
}

impl Fixture {
    fn new() -> Self {
        Self::over(|clock| Nodes::new(3, clock))
    }

    fn over(nodes: impl FnOnce(&ManualClock) -> Nodes) -> Self {
        let clock = ManualClock::new();
        let nodes = nodes(&clock);
        let redlock = nodes.replica("blue").redlock();
        Self { clock, nodes, redlock }
    }

    /// Sends a request to a service behind a layer, which may wait for the lock.
    fn request(&self, name: &'static str) -> Task<Outcome> {
        self.request_with(name, LockOptions::new())
    }

    fn request_with(&self, name: &'static str, options: LockOptions) -> Task<Outcome> {
        let layer = RedlockLayer::new(self.redlock.clone(), move |(): &()| name.to_owned());
        let layer = layer.wait(WAIT).options(options);
        let service = layer.layer(service_fn(|()| std::future::ready(Ok::<_, Infallible>(()))));
        let request = self.clock.spawn(async move {
            match service.oneshot(()).await {
                Err(GuardError::Lock(error)) => Err(error),
                outcome => {
                    outcome.expect("the service does not fail");
                    Ok(())
                }
            }
        });
        self.clock.settle();
        request
    }

    /// Sends a request, which must end at once.
    fn at_once(&self, name: &'static str) -> Outcome {
        self.request(name).take().expect("the request ends at once")
    }
}

#[track_caller]
fn assert_no_quorum(outcome: Outcome, stopped: usize) {
    let Err(LockError::NoQuorum { votes }) = outcome else { panic!("{outcome:?}") };
    let is_stopped = VoteOutcome::NotCounted(Reason::NotConnected("stopped".into()));
    assert_eq!(votes.iter().filter(|vote| vote.outcome == is_stopped).count(), stopped, "{votes}");
}

#[test]
fn known_outage_refuses_requests_at_once() {
    let fixture = Fixture::new();
    fixture.nodes.stop([0, 1]);
    fixture.clock.advance(SECOND);
    assert_no_quorum(fixture.at_once("a"), 2);
    assert_eq!(fixture.nodes.key_counts(), [0; 3], "the vote of the third node is given back");
    fixture.nodes.start([0]);
    assert_eq!(fixture.at_once("a"), Ok(()), "a quorum votes again");
}

#[test]
fn every_waiting_request_learns_of_an_outage() {
    let fixture = Fixture::new();
    let holder = fixture.nodes.replica("green").redlock();
    let mut held = fixture.clock.spawn(holder.lock("a").into_future());
    fixture.clock.settle();
    let _lock = held.take().expect("the request ends at once").expect("the lock is free");
    let mut requests: Vec<_> = (0..20).map(|_| fixture.request("a")).collect();
    let mut slots = fixture.request_with("b", LockOptions::new().slots(2));
    assert_eq!(slots.take().expect("the request ends at once"), Ok(()));
    fixture.nodes.stop([0, 1]);
    slots = fixture.request_with("b", LockOptions::new().slots(2));
    fixture.clock.advance(MS * 999);
    assert!(requests.iter().all(|request| !request.is_finished()), "the nodes may return");
    assert!(!slots.is_finished());
    // The pause between two attempts is at most as long.
    fixture.clock.advance(SECOND * 3 / 2);
    for request in requests.iter_mut().chain([&mut slots]) {
        assert_no_quorum(request.take().expect("the request is refused during the outage"), 2);
    }
}

#[test]
fn short_outage_refuses_no_request() {
    let fixture = Fixture::new();
    for (away, name) in [(20, "a"), (500, "b"), (990, "c")] {
        fixture.nodes.stop(0..3);
        let mut request = fixture.request(name);
        fixture.clock.advance(MS * away);
        assert!(!request.is_finished(), "after {away} ms");
        fixture.nodes.start(0..3);
        fixture.clock.advance(SECOND);
        assert_eq!(
            request.take().expect("the request is granted within a second"),
            Ok(()),
            "after {away} ms"
        );
    }
}

#[test]
fn minority_that_is_down_is_no_outage() {
    let fixture = Fixture::new();
    let holder = fixture.nodes.replica("green").redlock();
    let mut held = fixture.clock.spawn(holder.lock("a").into_future());
    fixture.clock.settle();
    let lock = held.take().expect("the request ends at once").expect("the lock is free");
    fixture.nodes.stop([0]);
    fixture.clock.advance(SECOND * 60);
    let mut request = fixture.request("a");
    fixture.clock.advance(SECOND * 4);
    assert!(!request.is_finished(), "it waits for the holder");
    drop(lock);
    fixture.clock.advance(SECOND / 2);
    assert_eq!(request.take().expect("the lock was released"), Ok(()));
}

#[test]
fn probation_is_waited_for_if_it_ends_in_time() {
    let fixture = Fixture::over(|clock| Nodes::fresh(3, clock));
    fixture.clock.advance(SECOND * 2);
    let refused = fixture.at_once("a");
    let Err(LockError::NoQuorum { votes }) = refused else { panic!("{refused:?}") };
    assert!(votes.to_string().contains("probation"), "{votes}");
    fixture.clock.advance(PROBATION.saturating_sub(SECOND * 2 + WAIT) + MS);
    let mut request = fixture.request("a");
    fixture.clock.advance(WAIT);
    assert_eq!(request.take().expect("the probation is over"), Ok(()));
}

#[test]
fn request_may_wait_for_a_quorum() {
    let fixture = Fixture::new();
    fixture.nodes.stop([0, 1]);
    fixture.clock.advance(SECOND * 2);
    let mut by_layer = fixture.request_with("a", LockOptions::new().wait_without_quorum(true));
    let mut by_hand = fixture.clock.spawn(fixture.redlock.lock("b").wait(WAIT).into_future());
    fixture.clock.advance(SECOND * 3);
    assert!(!by_layer.is_finished() && !by_hand.is_finished());
    fixture.nodes.start([0]);
    fixture.clock.advance(SECOND);
    assert_eq!(by_layer.take().expect("the request is granted once a quorum votes"), Ok(()));
    assert_eq!(
        by_hand.take().expect("the request is granted once a quorum votes").map(drop),
        Ok(())
    );
}

#[test]
fn option_of_the_request_comes_before_the_managers() {
    let Fixture { clock, nodes, .. } = Fixture::new();
    nodes.stop([0, 1]);
    let manager = |waits| {
        let options = LockOptions::new().wait(WAIT).wait_without_quorum(waits);
        nodes.replica("blue").builder().options(options).build().expect("valid settings")
    };
    let (waiting, failing) = (manager(true), manager(false));
    clock.advance(SECOND * 2);
    let ends = |request: tower_redlock::LockRequest| {
        let request = clock.spawn(request.into_future());
        clock.settle();
        request.is_finished()
    };
    assert!(ends(failing.lock("a")));
    assert!(!ends(failing.lock("b").wait_without_quorum(true)));
    assert!(!ends(waiting.lock("c")));
    assert!(ends(waiting.lock("d").wait_without_quorum(false)));
    let layer = RedlockLayer::new(waiting, |(): &()| "e".to_owned());
    let service = layer.layer(service_fn(|()| std::future::ready(Ok::<_, Infallible>(()))));
    let by_layer = clock.spawn(service.oneshot(()));
    clock.settle();
    assert!(!by_layer.is_finished(), "the manager's option applies to layers");
}
