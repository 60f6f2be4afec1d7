//! What is logged, in full: events, spans and all their fields.

use std::fmt::{Debug, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tower_redlock::lock::{Spawner, ThreadSpawner};
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

use crate::support::eventually_async;

/// A log of its own for one test, however many run beside it.
#[derive(Clone, Debug)]
pub(super) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    dispatch: Dispatch,
    _spare: Dispatch,
}

impl Log {
    pub(super) fn new() -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let recorder = || Recorder { lines: lines.clone(), spans: AtomicU64::new(1) };
        // While there is one subscriber only, tracing asks nobody else about a new event's place:
        // one that a test without a log comes to first would be switched off for all.
        let spare = Dispatch::new(recorder());
        let dispatch = Dispatch::new(recorder());
        tracing::callsite::rebuild_interest_cache();
        Self { lines, dispatch, _spare: spare }
    }

    /// Runs the test's own part under this log.
    pub(super) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        work.with_subscriber(self.dispatch.clone()).await
    }

    pub(super) fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    pub(super) fn count(&self, level: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|line| line.starts_with(level)).count()
    }

    /// Waits for a line of that level with all of these parts.
    pub(super) async fn wait_for(&self, level: &str, parts: &[&str]) {
        let matches =
            |line: &String| line.starts_with(level) && parts.iter().all(|part| line.contains(part));
        eventually_async(&format!("{level} {parts:?} is logged"), async || {
            self.lines.lock().unwrap().iter().any(matches)
        })
        .await;
    }
}

struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
    spans: AtomicU64,
}

impl Recorder {
    fn note(&self, start: String, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields(start);
        record(&mut fields);
        self.lines.lock().unwrap().push(fields.0);
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tower_redlock") || metadata.target().starts_with("redis")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note(format!("span {}", span.metadata().name()), |fields| span.record(fields));
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.note("span".into(), |fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note(event.metadata().level().to_string(), |fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("a string takes everything");
    }
}

/// The manager's own thread, writing to a log.
#[derive(Debug)]
pub(super) struct LoggedSpawner {
    inner: ThreadSpawner,
    log: Log,
}

impl LoggedSpawner {
    pub(super) fn start(log: &Log) -> Self {
        Self { inner: ThreadSpawner::start().expect("a thread"), log: log.clone() }
    }
}

impl Spawner for LoggedSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(Box::pin(task.with_subscriber(self.log.dispatch.clone())));
    }
}
