//! A subscriber that records events, spans and all their fields.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tower_redlock::lock::{Spawner, ThreadSpawner};
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use crate::support::eventually_async;

/// The log of one test, also while others run in parallel.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<Mutex<Vec<Span>>>,
    dispatch: Dispatch,
    _spare: Dispatch,
}

/// A span, with the fields recorded so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) fields: Values,
}

impl Log {
    pub(crate) fn new() -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let spans = Arc::<Mutex<Vec<Span>>>::default();
        let recorder = || Recorder { lines: lines.clone(), spans: spans.clone() };
        // With a single subscriber, tracing asks no other one about a new callsite:
        // a callsite that a test without a log reaches first would be disabled for all.
        let spare = Dispatch::new(recorder());
        let dispatch = Dispatch::new(recorder());
        tracing::callsite::rebuild_interest_cache();
        Self { lines, spans, dispatch, _spare: spare }
    }

    /// Runs `test` with this log as the subscriber.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        work.with_subscriber(self.dispatch.clone()).await
    }

    pub(crate) fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// All spans, in the order in which they were made.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap().clone()
    }

    /// Panics if one of the secrets was logged, or text that may be a nonce.
    #[track_caller]
    pub(crate) fn assert_keeps(&self, secrets: &[&str]) {
        let text = self.text();
        assert!(!secrets.iter().any(|secret| text.contains(secret)), "{text}");
        let words = text.split(|c: char| !c.is_ascii_hexdigit());
        assert!(words.map(str::len).max() < Some(32), "{text}");
    }

    pub(crate) fn count(&self, level: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|line| line.starts_with(level)).count()
    }

    /// Waits for a line of that level with all of these parts.
    pub(crate) async fn wait_for(&self, level: &str, parts: &[&str]) {
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
    /// A span's id is its index plus one.
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Recorder {
    fn note(&self, start: String, record: impl FnOnce(&mut Fields)) -> Values {
        let mut fields = Fields { line: start, values: BTreeMap::new() };
        record(&mut fields);
        println!("logged: {}", fields.line);
        self.lines.lock().unwrap().push(fields.line);
        fields.values
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tower_redlock") || metadata.target().starts_with("redis")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let (name, level) = (span.metadata().name(), *span.metadata().level());
        let fields = self.note(format!("span {name}"), |fields| span.record(fields));
        let mut spans = self.spans.lock().unwrap();
        spans.push(Span { name, level, fields });
        Id::from_u64(u64::try_from(spans.len()).expect("a small number"))
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let fields = self.note("span".into(), |fields| values.record(fields));
        let place = usize::try_from(id.into_u64() - 1).expect("a small number");
        self.spans.lock().unwrap()[place].fields.extend(fields);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note(event.metadata().level().to_string(), |fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

type Values = BTreeMap<&'static str, String>;

struct Fields {
    line: String,
    values: Values,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        write!(self.line, " {}={value}", field.name()).expect("a string takes everything");
        self.values.insert(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// A spawner for the manager's thread, with a log as the subscriber.
#[derive(Debug)]
pub(crate) struct LoggedSpawner {
    inner: ThreadSpawner,
    log: Log,
}

impl LoggedSpawner {
    pub(crate) fn start(log: &Log) -> Self {
        Self { inner: ThreadSpawner::start().expect("a thread"), log: log.clone() }
    }
}

impl Spawner for LoggedSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(Box::pin(task.with_subscriber(self.log.dispatch.clone())));
    }
}
