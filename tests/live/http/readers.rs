//! Any number of requests that read a document, or one that writes it, in two processes together.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    routing::any,
};
use http::{Method, StatusCode, header};
use tokio::sync::Semaphore;
use tower::{Layer as _, Service, ServiceExt, service_fn};
use tower_redlock::{
    LockContext, LockError, LockOptions, Redlock, RedlockLayer,
    key::RequestHead,
    layer::http::RedlockHttp,
    testing::{ManualClock, Nodes, Task},
};

use crate::http::{fixture::TTL, live::client::Answer};
use crate::support::LONG;

/// What the handlers of all processes share.
#[derive(Clone)]
struct Desk {
    running: Arc<Mutex<Running>>,
    /// Have a permit for each reader, and for each writer, that may end.
    gates: [Arc<Semaphore>; 2],
}

#[derive(Default)]
struct Running {
    readers: usize,
    writers: usize,
    most_readers: usize,
    /// The methods of the requests, in the order in which their handlers began.
    begun: Vec<Method>,
}

impl Desk {
    fn new() -> Self {
        let gates = [0, 0].map(|permits| Arc::new(Semaphore::new(permits)));
        Self { running: Arc::default(), gates }
    }

    fn enter(&self, method: &Method, lock: &LockContext) -> Inside {
        let mut running = self.running.lock().unwrap();
        running.begun.push(method.clone());
        let is_reader = lock.is_shared();
        assert_eq!(is_reader, method.is_safe(), "{method}");
        if is_reader {
            running.readers += 1;
        } else {
            running.writers += 1;
        }
        assert!(
            running.writers == 0 || (running.writers, running.readers) == (1, 0),
            "beside a writer"
        );
        running.most_readers = running.readers.max(running.most_readers);
        Inside { desk: self.clone(), is_reader }
    }

    /// Numbers of readers and writers that run.
    fn running(&self) -> (usize, usize) {
        let running = self.running.lock().unwrap();
        (running.readers, running.writers)
    }
}

/// A request that runs, until it ends or is dropped.
struct Inside {
    desk: Desk,
    is_reader: bool,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut running = self.desk.running.lock().unwrap();
        if self.is_reader {
            running.readers -= 1;
        } else {
            running.writers -= 1;
        }
    }
}

/// Runs until its gate has a permit. Responds with its token.
async fn handle(State(desk): State<Desk>, lock: LockContext, request: Request) -> String {
    let inside = desk.enter(request.method(), &lock);
    desk.gates[usize::from(!inside.is_reader)].acquire().await.unwrap().forget();
    lock.fencing_token().to_string()
}

type Key = fn(&Request) -> String;
type Layer = RedlockLayer<Key, RedlockHttp>;

fn path(request: &Request) -> String {
    request.uri().path().to_owned()
}

fn is_safe(head: &RequestHead<'_>) -> bool {
    head.method().is_safe()
}

/// Two processes.
struct Site {
    clock: ManualClock,
    desk: Desk,
    apps: [Router; 2],
}

impl Site {
    fn new(around: impl Fn(Layer, Router) -> Router) -> Self {
        Self::of(|redlock, app| around(RedlockLayer::new(redlock, path as Key).http(), app))
    }

    fn of(around: impl Fn(Redlock, Router) -> Router) -> Self {
        let (desk, clock) = (Desk::new(), ManualClock::new());
        let nodes = Nodes::new(3, &clock);
        let apps = ["a", "b"].map(|process| {
            let app = Router::new().fallback(any(handle)).with_state(desk.clone());
            around(nodes.replica(process).redlock(), app)
        });
        Self { clock, desk, apps }
    }

    /// Sends a request, and lets it come as far as it does at once.
    fn send(&self, process: usize, method: Method, path: &str) -> Task<Answer> {
        let request = Request::builder().method(method).uri(path).body(Body::from("x")).unwrap();
        let task = self.clock.spawn(Answer::of(self.apps[process].clone(), request));
        self.clock.settle();
        task
    }

    fn read(&self, process: usize) -> Task<Answer> {
        self.send(process, Method::GET, "/a")
    }

    fn write(&self, process: usize) -> Task<Answer> {
        self.send(process, Method::PUT, "/a")
    }

    /// Lets this number of readers, and of writers, end.
    fn end(&self, readers: usize, writers: usize) {
        self.desk.gates[0].add_permits(readers);
        self.desk.gates[1].add_permits(writers);
        self.clock.advance(Duration::from_millis(100));
    }
}

/// The token of an answer by a handler.
#[track_caller]
fn token(answer: &Answer) -> u64 {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.text.parse().unwrap()
}

#[track_caller]
fn assert_refused(answer: &Answer) {
    assert_eq!(answer.problem(), (409, "held".into(), "not-run".into()));
    assert!(answer.headers.contains_key(header::RETRY_AFTER));
}

#[track_caller]
fn answer(mut task: Task<Answer>) -> Answer {
    task.take().expect("an answer")
}

#[test]
fn readers_run_side_by_side_and_writers_alone() {
    let site = Site::new(|layer, app| app.layer(layer.shared_for(is_safe)));
    let readers = [site.read(0), site.read(1), site.send(0, Method::HEAD, "/a"), site.read(1)];
    assert_eq!(site.desk.running(), (4, 0));

    for process in [0, 1] {
        assert_refused(&answer(site.write(process)));
    }
    site.end(4, 0);
    assert!(readers.map(answer).iter().all(|answer| answer.status == StatusCode::OK));
    let writer = site.write(1);
    assert_eq!(site.desk.running(), (0, 1));
    for process in [0, 1] {
        assert_refused(&answer(site.read(process)));
        assert_refused(&answer(site.write(process)));
    }
    site.end(0, 1);
    token(&answer(writer));
}

#[test]
fn waiting_writer_runs_before_later_readers() {
    let site = Site::new(|layer, app| app.layer(layer.wait(LONG).shared_for(is_safe)));
    let early = [site.read(0), site.read(0)];
    let writer = site.write(1);
    site.clock.advance(2 * TTL);
    let late = [site.read(0), site.read(1)];
    site.clock.advance(2 * TTL);
    assert_eq!(site.desk.running(), (2, 0), "the later readers wait for the writer");

    site.end(1, 0);
    assert_eq!(site.desk.running(), (1, 0), "the writer waits for both");
    site.end(1, 0);
    assert_eq!(site.desk.running(), (0, 1));
    site.end(2, 1);

    let [early, late] = [early, late].map(|tasks| tasks.map(|task| token(&answer(task))));
    let written = token(&answer(writer));
    assert!(early.iter().all(|token| *token < written), "{early:?} {written}");
    assert!(late.iter().all(|token| *token >= written), "{written} {late:?}");
    let begun = &site.desk.running.lock().unwrap().begun;
    assert_eq!(*begun, [Method::GET, Method::GET, Method::PUT, Method::GET, Method::GET]);
}

#[test]
fn reader_is_refused_while_a_writer_waits() {
    let site = Site::new(|layer, app| {
        // Only writers wait.
        let (reads, writes) = (layer.clone().shared(), layer.wait(LONG));
        let (reads, writes) = (app.clone().layer(reads), app.layer(writes));
        Router::new().fallback(move |request: Request| {
            let app = if request.method().is_safe() { reads.clone() } else { writes.clone() };
            app.oneshot(request)
        })
    });
    let running = site.read(0);
    let writer = site.write(1);
    assert_eq!(site.desk.running(), (1, 0));

    for process in [0, 1] {
        assert_refused(&answer(site.read(process)));
    }

    site.end(1, 1);
    assert!(token(&answer(running)) < token(&answer(writer)));
}

#[test]
fn crowd_of_readers_and_writers_never_overlaps() {
    let site = Site::new(|layer, app| app.layer(layer.wait(LONG).shared_for(is_safe)));
    let tasks: Vec<_> =
        (0..60).map(|i| if i % 4 == 0 { site.write(i % 2) } else { site.read(i % 2) }).collect();

    for _ in &tasks {
        let (readers, writers) = site.desk.running();
        site.end(readers, writers);
    }

    assert!(tasks.into_iter().all(|task| token(&answer(task)) > 0));
    assert!(site.desk.running.lock().unwrap().most_readers > 2);
}

#[test]
fn body_read_first_decides_alike() {
    let site = Site::new(|layer, app| app.layer(layer.shared_for(is_safe).read_body_first(100)));
    let readers = [site.read(0), site.read(1)];
    assert_eq!(site.desk.running(), (2, 0));
    assert_refused(&answer(site.write(0)));

    site.end(2, 0);

    assert!(readers.map(answer).iter().all(|answer| answer.status == StatusCode::OK));
    let _writer = site.write(0);
    assert_refused(&answer(site.read(1)));
}

#[test]
fn closure_over_the_whole_request_decides_alike() {
    let site = Site::of(|redlock, app| {
        let layer = RedlockLayer::new(redlock, path);
        app.layer(layer.shared_for(|request: &Request<_>| request.method().is_safe()).http())
    });
    let _readers = [site.read(0), site.read(1)];

    assert_eq!(site.desk.running(), (2, 0));
    assert_refused(&answer(site.write(0)));
}

#[test]
fn every_request_of_a_shared_layer_is_a_reader() {
    let options: LockOptions = toml::from_str("shared = true").unwrap();
    for options in [options, LockOptions::new().shared(true)] {
        let site = Site::new(|layer, app| app.layer(layer.options(options)));

        let _readers = [site.read(0), site.read(1)];

        assert_eq!(site.desk.running(), (2, 0));
    }
}

#[test]
fn lock_that_lingers_by_default_lets_readers_in() {
    let (desk, clock) = (Desk::new(), ManualClock::new());
    let nodes = Nodes::new(3, &clock);
    let apps = ["a", "b"].map(|process| {
        let built = nodes.replica(process).builder().linger(LONG).build().unwrap();
        let layer = RedlockLayer::new(built, path).wait(LONG).http().shared_for(is_safe);
        Router::new().fallback(any(handle)).with_state(desk.clone()).layer(layer)
    });
    let site = Site { clock, desk, apps };
    site.end(6, 2);

    for process in [0, 1] {
        let written = site.write(process);
        let read = [site.read(0), site.read(1), site.read(0)];
        site.end(0, 0);

        let written = token(&answer(written));
        assert!(read.map(answer).iter().all(|read| token(read) >= written));
    }
}

/// The text of an error of the settings.
#[track_caller]
fn refusal<T>(built: Result<T, LockError>) -> String {
    match built.map(|_| ()).unwrap_err() {
        LockError::InvalidRequest(text) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn options_of_exclusive_locks_are_refused() {
    let layer = || RedlockLayer::new(Redlock::embedded(), path as Key).shared_for(path_is_a);
    let second = Duration::from_secs(1);
    for (options, name) in [
        (LockOptions::new().slots(2), "slots"),
        (LockOptions::new().linger(second), "linger"),
        (LockOptions::new().stall_limit(second), "stall_limit"),
        (LockOptions::new().heartbeat_within(second), "heartbeat_within"),
        (LockOptions::new().auto_extend(false), "auto_extend(false)"),
    ] {
        for refused in [
            refusal(layer().options(options).build()),
            refusal(layer().http().options(options).build()),
            refusal(RedlockLayer::new(Redlock::embedded(), path).shared().options(options).build()),
        ] {
            assert!(refused.starts_with(&format!("{name} does not apply")), "{refused}");
        }
    }
    assert!(layer().build().is_ok() && layer().http().shared_for(is_safe).build().is_ok());
}

fn path_is_a(request: &Request) -> bool {
    request.uri().path() == "/a"
}

#[test]
fn reader_of_a_set_of_names_is_misconfigured() {
    let site = Site::of(|redlock, app| {
        let layer = RedlockLayer::new(redlock, |_: &Request| ["a", "b"]);
        app.layer(layer.http().shared_for(is_safe))
    });

    let refused = answer(site.read(0));

    assert_eq!(refused.problem(), (500, "bad-settings".into(), "not-run".into()));
    let _writer = site.write(0);
    assert_eq!(site.desk.running(), (0, 1), "a writer may lock a set");
}

#[test]
fn closure_is_not_called_without_a_key() {
    let site = Site::of(|redlock, app| {
        let layer = RedlockLayer::new(redlock, |_: &Request| None::<String>).http();
        app.layer(layer.shared_for(|_| panic!("there is no key")))
    });

    let refused = answer(site.read(0));

    assert_eq!(refused.status, StatusCode::INTERNAL_SERVER_ERROR, "the handler needs a lock");
}

#[test]
fn panic_of_the_closure_leaves_no_lock() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let redlock = nodes.replica("a").redlock();
    let layer = RedlockLayer::new(redlock.clone(), |_: &Request<()>| "x").http();
    let layer = layer.shared_for(|head| match head.method() {
        &Method::GET => true,
        _ => panic!("on purpose"),
    });
    let answers = async |_: Request<()>| Ok::<_, LockError>(http::Response::new(String::new()));
    let mut service = layer.layer(service_fn(answers));

    let write = || service.call(Request::put("/").body(()).unwrap());
    assert!(catch_unwind(AssertUnwindSafe(write)).is_err());

    assert_eq!(nodes.key_counts(), [0, 0, 0]);
    assert_eq!(redlock.snapshot().waiting.len(), 0);
    let mut read = clock.spawn(service.call(Request::get("/").body(()).unwrap()));
    clock.settle();
    assert_eq!(read.take().expect("an answer").unwrap().status(), StatusCode::OK);
}
