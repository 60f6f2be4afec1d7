//! At most two requests for a key run at a time, in two processes together.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    routing::any,
};
use http::{StatusCode, header};
use tokio::sync::Semaphore;
use tower_redlock::{
    LockContext, RedlockLayer, Resource,
    layer::http::RedlockHttp,
    reject::Rejection,
    testing::{ManualClock, Nodes, Task},
};

use crate::http::{fixture::TTL, live::client::Answer};
use crate::support::LONG;

/// What the handlers of all processes share.
#[derive(Clone)]
struct Desk {
    /// The slots whose requests run now.
    inside: Arc<Mutex<Vec<Resource>>>,
    /// Has a permit for each handler that may end.
    gate: Arc<Semaphore>,
}

impl Desk {
    fn new() -> Self {
        Self { inside: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }

    fn enter(&self, slot: &Resource) -> Inside {
        let mut inside = self.inside.lock().unwrap();
        assert!(!inside.contains(slot), "two requests in {slot}");
        inside.push(slot.clone());
        Inside { desk: self.clone(), slot: slot.clone() }
    }

    fn inside(&self) -> Vec<String> {
        let mut inside: Vec<_> =
            self.inside.lock().unwrap().iter().map(Resource::to_string).collect();
        inside.sort_unstable();
        inside
    }
}

/// A request that runs, until it ends or is dropped.
struct Inside {
    desk: Desk,
    slot: Resource,
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.desk.inside.lock().unwrap().retain(|other| *other != self.slot);
    }
}

/// Responds with the number of its slot.
async fn export(State(desk): State<Desk>, lock: LockContext) -> String {
    let _inside = desk.enter(lock.resource());
    desk.gate.acquire().await.unwrap().forget();
    lock.slot().expect("a slot").to_string()
}

type Key = fn(&Request) -> &'static str;
type Layer = RedlockLayer<Key, RedlockHttp>;

/// Two processes.
struct Site {
    clock: ManualClock,
    desk: Desk,
    apps: [Router; 2],
}

impl Site {
    /// All requests are for one key.
    fn new(around: impl Fn(Layer, Router) -> Router) -> Self {
        let (desk, clock) = (Desk::new(), ManualClock::new());
        let nodes = Nodes::new(3, &clock);
        let apps = ["a", "b"].map(|process| {
            let redlock = nodes.replica(process).redlock();
            let key: Key = |_| "export:x";
            let layer = RedlockLayer::new(redlock, key).slots(2).http();
            around(layer, Router::new().fallback(any(export)).with_state(desk.clone()))
        });
        Self { clock, desk, apps }
    }

    /// Sends a request, and lets it come as far as it does at once.
    fn send(&self, process: usize) -> Task<Answer> {
        let request = Request::post("/").body(Body::empty()).unwrap();
        let task = self.clock.spawn(Answer::of(self.apps[process].clone(), request));
        self.clock.settle();
        task
    }

    /// Lets this number of handlers end.
    fn end(&self, handlers: usize) {
        self.desk.gate.add_permits(handlers);
        self.clock.advance(Duration::from_secs(1));
    }
}

fn retry_after(answer: &Answer) -> u64 {
    answer.headers[header::RETRY_AFTER].to_str().unwrap().parse().unwrap()
}

#[track_caller]
fn answer(mut task: Task<Answer>) -> Answer {
    task.take().expect("an answer")
}

#[test]
fn request_beyond_the_slots_gets_503() {
    let site = Site::new(|layer, app| app.layer(layer));
    let running = [site.send(0), site.send(1)];
    assert_eq!(site.desk.inside(), ["slot:0:export:x", "slot:1:export:x"]);

    for process in [0, 1] {
        let refused = answer(site.send(process));

        assert_eq!(refused.problem(), (503, "full".into(), "not-run".into()));
        assert!((1..=2).contains(&retry_after(&refused)), "{refused:?}");
        let text = "as many requests as are allowed at a time";
        assert!(refused.text.contains(text), "{}", refused.text);
    }

    site.end(3);
    let mut slots = running.map(|task| answer(task).text);
    slots.sort_unstable();
    assert_eq!(slots, ["0", "1"]);
    assert_eq!(answer(site.send(0)).status, StatusCode::OK, "a slot is free");
}

#[test]
fn on_reject_may_answer_429() {
    let site = Site::new(|layer, app| {
        app.layer(layer.on_reject(|rejection: Rejection<'_>| {
            let mut response = rejection.response();
            if rejection.code() == "full" {
                *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            }
            response
        }))
    });
    let _running = [site.send(0), site.send(0)];

    let refused = answer(site.send(1));

    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(retry_after(&refused) >= 1);
}

#[test]
fn waiting_request_gets_the_released_slot() {
    let site = Site::new(|layer, app| app.layer(layer.wait(LONG)));
    let [first, second] = [site.send(0), site.send(0)];
    let waiting = site.send(1);
    site.clock.advance(2 * TTL);
    assert_eq!(site.desk.inside().len(), 2, "the third waits");

    site.end(1);

    assert_eq!(answer(first).status, StatusCode::OK);
    assert_eq!(site.desk.inside().len(), 2, "the third runs");
    site.end(2);
    for task in [second, waiting] {
        assert_eq!(answer(task).status, StatusCode::OK);
    }
}
