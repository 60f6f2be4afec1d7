//! A subscriber, a recorder and wakers that call the library.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    future::Future,
    panic,
    pin::pin,
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Recorder,
    SharedString, Unit,
};
use tower_redlock::{LockContext, Redlock};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// Timeout of a scenario, which detects deadlocks.
const HANG_GUARD: Duration = Duration::from_secs(120);
/// Maximum number of requests from each call site: requests have events themselves.
const MAX_REQUESTS: usize = 20;

type Call = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct World {
    calls: Vec<Call>,
    managers: Vec<Redlock>,
    requests: BTreeMap<String, usize>,
    messages: BTreeSet<String>,
}

static WORLD: Mutex<World> = Mutex::new(World {
    calls: Vec::new(),
    managers: Vec::new(),
    requests: BTreeMap::new(),
    messages: BTreeSet::new(),
});

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Calls `call` at every event of the library from now on.
pub(crate) fn at_every_event(call: impl Fn() + Send + Sync + 'static) {
    WORLD.lock().unwrap().calls.push(Arc::new(call));
}

/// Uses this manager at every event from now on.
pub(crate) fn use_manager(redlock: &Redlock) {
    WORLD.lock().unwrap().managers.push(redlock.clone());
}

/// Reads this context at every event from now on.
pub(crate) fn use_context(context: LockContext) {
    at_every_event(move || {
        let _ = (context.resource().clone(), context.fencing_token(), context.remaining());
        let _ = context.ensure_valid();
        poll_once(context.stopping());
    });
}

/// Panics unless there was an event with each of these messages.
#[track_caller]
pub(crate) fn assert_told(messages: &[&str]) {
    let told = WORLD.lock().unwrap().messages.clone();
    let missing: Vec<_> = messages.iter().filter(|message| !told.contains(**message)).collect();
    assert!(missing.is_empty(), "never told: {missing:?}\ntold: {told:#?}");
}

pub(crate) fn was_told(message: &str) -> bool {
    WORLD.lock().unwrap().messages.contains(message)
}

/// Calls the library, unless this thread is inside such a call.
fn reenter(place: &str) {
    struct Left;
    impl Drop for Left {
        fn drop(&mut self) {
            INSIDE.set(false);
        }
    }
    if INSIDE.replace(true) {
        return;
    }
    let _left = Left;
    let (calls, managers, requests) = {
        let world = &mut *WORLD.lock().unwrap();
        let count = world.requests.entry(place.to_owned()).or_default();
        *count += 1;
        (world.calls.clone(), world.managers.clone(), *count <= MAX_REQUESTS)
    };
    for redlock in managers {
        let health = redlock.health();
        assert_eq!(health.len(), redlock.nodes().len());
        poll_once(redlock.ready());
        if requests {
            poll_once(redlock.inspect("x"));
            poll_once(redlock.lock("reentry").into_future());
            poll_once(redlock.lock("x").wait(Duration::from_secs(1)).into_future());
        }
    }
    for call in calls {
        call();
    }
}

/// Polls the future once, and drops it.
pub(crate) fn poll_once(future: impl Future) {
    let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

/// A waker that calls the library when it is woken, and when its last clone is dropped.
pub(crate) struct Reenters(thread::Thread);

impl Wake for Reenters {
    fn wake(self: Arc<Self>) {
        reenter("wake");
        self.0.unpark();
    }
}

impl Drop for Reenters {
    fn drop(&mut self) {
        reenter("drop of a waker");
    }
}

pub(crate) fn waker() -> Waker {
    Waker::from(Arc::new(Reenters(thread::current())))
}

/// Waits for a future, with another waker at each poll.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        let waker = waker();
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        // A replaced waker is not woken.
        thread::park_timeout(Duration::from_millis(20));
    }
}

/// Set by a panic on a manager's thread, which catches panics of wakers.
static THREAD_PANICKED: AtomicBool = AtomicBool::new(false);

/// Runs a scenario. Panics if it does not end, or if a manager's thread panics.
pub(crate) fn without_deadlock(scenario: impl FnOnce() + Send + 'static) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Tells).expect("it is the first");
        metrics::set_global_recorder(Counts).expect("it is the first");
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if thread::current().name() == Some("tower-redlock") {
                THREAD_PANICKED.store(true, Ordering::Relaxed);
            }
            print(info);
        }));
    });
    let (ended, end) = mpsc::channel();
    let thread = thread::spawn(move || {
        scenario();
        let _ = ended.send(());
    });
    match end.recv_timeout(HANG_GUARD) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("deadlock: the scenario does not end"),
        _ => {
            if let Err(panic) = thread.join() {
                panic::resume_unwind(panic);
            }
        }
    }
    assert!(!THREAD_PANICKED.load(Ordering::Relaxed), "a manager's thread panicked");
}

struct Tells;

impl Subscriber for Tells {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tower_redlock")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        reenter(span.metadata().name());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {
        reenter("record");
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        reenter(&message.0);
        WORLD.lock().unwrap().messages.insert(message.0);
    }

    fn enter(&self, _: &Id) {
        reenter("enter");
    }

    fn exit(&self, _: &Id) {
        reenter("exit");
    }

    fn clone_span(&self, id: &Id) -> Id {
        reenter("clone of a span");
        id.clone()
    }

    fn try_close(&self, _: Id) -> bool {
        reenter("drop of a span");
        false
    }
}

struct Counts;

struct Number(String);

impl CounterFn for Number {
    fn increment(&self, _: u64) {
        reenter(&self.0);
    }

    fn absolute(&self, _: u64) {
        reenter(&self.0);
    }
}

impl GaugeFn for Number {
    fn increment(&self, _: f64) {
        reenter(&self.0);
    }

    fn decrement(&self, _: f64) {
        reenter(&self.0);
    }

    fn set(&self, _: f64) {
        reenter(&self.0);
    }
}

impl HistogramFn for Number {
    fn record(&self, _: f64) {
        reenter(&self.0);
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &metrics::Metadata<'_>) -> Counter {
        Counter::from_arc(number(key))
    }

    fn register_gauge(&self, key: &Key, _: &metrics::Metadata<'_>) -> Gauge {
        Gauge::from_arc(number(key))
    }

    fn register_histogram(&self, key: &Key, _: &metrics::Metadata<'_>) -> Histogram {
        Histogram::from_arc(number(key))
    }
}

fn number(key: &Key) -> Arc<Number> {
    reenter(key.name());
    Arc::new(Number(key.name().to_owned()))
}
