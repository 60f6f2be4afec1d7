//! Log lines about requests that layers reject.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::{pending, ready},
    time::Duration,
};

use http::{Request, Response};
use tokio::runtime;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_redlock::{FencingLayer, OnceLayer, RedlockLayer, key, testing::Task};

use super::{
    fixture,
    recorder::{Recorder, Sent},
};
use crate::{durations::SECOND, fixture::Fixture};

const REQUESTS: usize = 900;
/// Number of requests that lose their locks.
const LOST: usize = 100;
/// Number of lines of an outcome that are logged in a row.
const BURST: usize = 20;
/// Interval between the lines that follow.
const INTERVAL: Duration = Duration::from_secs(60);

type Empty = http_body_util::Empty<bytes::Bytes>;

/// The events of a level with a message.
fn events(sent: &Recorder, level: &str, message: &str) -> Vec<Sent> {
    let is_asked = |event: &Sent| event.level == level && event.name == message;
    sent.events().into_iter().filter(is_asked).collect()
}

/// Sends requests with keys of their own at once, and waits for the answers.
fn send<S, B>(fixture: &Fixture<2>, service: &S, requests: usize)
where
    S: Service<Request<Empty>, Response = Response<B>, Error = Infallible, Future: Send>,
    S: Clone + Send + 'static,
    B: Send + 'static,
{
    let calls: Vec<_> = (0..requests)
        .map(|i| {
            let request = Request::post("/").header("x-key", i).header("fencing-token", 1);
            let request = request.body(Empty::new()).unwrap();
            fixture.clock.spawn(service.clone().oneshot(request))
        })
        .collect();
    fixture.clock.advance(60 * SECOND);
    assert!(calls.iter().all(Task::is_finished), "each request is answered");
}

/// Runs a test whose log has a clock of its own.
fn during(test: impl FnOnce(&Recorder, &dyn Fn(Duration))) {
    let paused =
        runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    Recorder::during(|sent| {
        let pass = |time| paused.block_on(tokio::time::advance(time));
        let _entered = paused.enter();
        test(sent, &pass);
    });
}

#[test]
fn outage_is_logged_a_few_times_by_each_layer() {
    during(|sent, pass| {
        let fixture = fixture();
        let answer = service_fn(|_| ready(Ok::<_, Infallible>(Response::new(Empty::new()))));
        let redlock = &fixture.processes[0];
        let locked = RedlockLayer::new(redlock.clone(), key::header("x-key")).http();
        let once = OnceLayer::new(redlock.clone(), "hook", key::header("x-key")).http();
        fixture.nodes.stop(0..3);
        send(&fixture, &locked.layer(answer), REQUESTS / 2);
        // axum calls the layer once for each route.
        send(&fixture, &locked.layer(answer), REQUESTS / 2);
        let warned = events(sent, "WARN", "request rejected");
        assert_eq!(warned.len(), BURST, "of {REQUESTS} requests");
        assert!(warned.iter().all(|event| event.values["outcome"] == "no-quorum"), "{warned:?}");
        assert_eq!(events(sent, "DEBUG", "request rejected").len(), REQUESTS - BURST);
        let excess =
            "many requests are rejected: from now on most of these lines are logged at DEBUG";
        assert_eq!(events(sent, "WARN", excess).len(), 1);
        send(&fixture, &once.layer(answer), 1);
        assert_eq!(events(sent, "WARN", "request rejected").len(), BURST + 1, "another layer");
        pass(INTERVAL);
        send(&fixture, &locked.layer(answer), 1);
        let last = events(sent, "WARN", "request rejected").pop().expect("a line was logged");
        assert_eq!(last.values["suppressed"], (REQUESTS - BURST).to_string());
    });
}

#[test]
fn stale_tokens_are_logged_a_few_times() {
    during(|sent, _| {
        let fixture = fixture();
        let answer = service_fn(|_| ready(Ok::<_, Infallible>(Response::new(Empty::new()))));
        let one_key = |_: &Request<Empty>| "account:1";
        let fenced = FencingLayer::new(one_key).http().layer(answer);
        let newer = Request::post("/").header("fencing-token", 2).body(Empty::new()).unwrap();
        drop(fixture.clock.spawn(fenced.clone().oneshot(newer)));
        fixture.clock.settle();

        send(&fixture, &fenced, REQUESTS);

        assert_eq!(events(sent, "WARN", "fenced off").len(), BURST);
        assert_eq!(events(sent, "DEBUG", "fenced off").len(), REQUESTS - BURST);
    });
}

#[test]
fn every_lost_lock_is_logged() {
    during(|sent, _| {
        let fixture = fixture();
        let answer = service_fn(|_| pending::<Result<Response<Empty>, Infallible>>());
        let redlock = &fixture.processes[0];
        let locked = RedlockLayer::new(redlock.clone(), key::header("x-key"));
        let locked = locked.max_hold(SECOND).http();

        send(&fixture, &locked.layer(answer), LOST);

        let stops = events(sent, "WARN", "hard stop: guarded work was dropped");
        let resources: BTreeSet<_> = stops.iter().map(|event| &event.values["resource"]).collect();
        assert_eq!(resources.len(), LOST, "each names its resource");
    });
}
