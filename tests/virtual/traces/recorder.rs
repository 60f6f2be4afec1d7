//! A subscriber that records spans and events with the names of their fields.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Debug, Write},
    sync::{Arc, Mutex},
};

use tracing::{
    Dispatch, Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// What the thread of a test sent while it ran.
#[derive(Clone, Default)]
pub(crate) struct Recorder {
    spans: Arc<Mutex<Vec<Sent>>>,
    events: Arc<Mutex<Vec<Sent>>>,
}

/// A span or an event.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) level: String,
    pub(crate) target: &'static str,
    /// The name of a span; the message of an event.
    pub(crate) name: String,
    /// The fields that it may have.
    pub(crate) fields: BTreeSet<String>,
    /// The fields that were recorded.
    pub(crate) values: BTreeMap<&'static str, String>,
    /// The level, and what was recorded, in its order.
    pub(crate) line: String,
}

impl Recorder {
    /// Runs a test whose thread moves the clock.
    pub(crate) fn during(test: impl FnOnce(&Self)) {
        let recorder = Self::default();
        // With a single subscriber, callsites that another test's thread reaches first would be
        // disabled for all.
        let _spare = Dispatch::new(recorder.clone());
        let dispatch = Dispatch::new(recorder.clone());
        tracing::callsite::rebuild_interest_cache();
        tracing::dispatcher::with_default(&dispatch, || test(&recorder));
    }

    /// Returns the spans since the last call.
    pub(crate) fn take_spans(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.spans.lock().unwrap())
    }

    pub(crate) fn spans(&self) -> Vec<Sent> {
        self.spans.lock().unwrap().clone()
    }

    /// Returns the events since the last call.
    pub(crate) fn take_events(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }

    pub(crate) fn events(&self) -> Vec<Sent> {
        self.events.lock().unwrap().clone()
    }
}

impl Sent {
    fn new(metadata: &Metadata<'static>) -> Self {
        let fields = metadata.fields().iter().map(|field| field.name());
        let fields = fields.filter(|name| *name != "message").map(ToOwned::to_owned).collect();
        let (level, name) = (metadata.level().to_string(), metadata.name().to_owned());
        let line = level.clone();
        Self { level, target: metadata.target(), name, fields, values: BTreeMap::new(), line }
    }

    fn add(&mut self, field: &Field, value: &dyn Debug, text: String) {
        write!(self.line, " {}={value:?}", field.name()).unwrap();
        if field.name() == "message" {
            self.name = text;
        } else {
            self.values.insert(field.name(), text);
        }
    }
}

impl Visit for Sent {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, value, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, &value, value.to_owned());
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tower_redlock")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut sent = Sent::new(span.metadata());
        span.record(&mut sent);
        let mut spans = self.spans.lock().unwrap();
        spans.push(sent);
        Id::from_u64(spans.len().try_into().unwrap())
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let place = usize::try_from(id.into_u64() - 1).unwrap();
        values.record(&mut self.spans.lock().unwrap()[place]);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut sent = Sent::new(event.metadata());
        event.record(&mut sent);
        self.events.lock().unwrap().push(sent);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
