//! A subscriber for log lines of a test whose thread moves the clock.

use std::{
    collections::BTreeMap,
    fmt::{Debug, Write},
    sync::{Arc, Mutex},
};

use tracing::{
    Dispatch, Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// Lines as `LEVEL field=value … text`, and the fields of spans named `job`.
#[derive(Clone, Default)]
pub(crate) struct Lines {
    lines: Arc<Mutex<Vec<(&'static str, String)>>>,
    spans: Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>,
}

impl Lines {
    /// Runs a test with its own log.
    pub(crate) fn during(test: impl FnOnce(&Self)) {
        let lines = Self::default();
        // With a single subscriber, callsites that another test's thread reaches first would be
        // disabled for all.
        let _spare = Dispatch::new(lines.clone());
        let dispatch = Dispatch::new(lines.clone());
        tracing::callsite::rebuild_interest_cache();
        tracing::dispatcher::with_default(&dispatch, || test(&lines));
    }

    /// Returns the lines of schedulers and leaders of a level since the last call.
    pub(crate) fn take(&self, level: &str) -> Vec<String> {
        let lines = std::mem::take(&mut *self.lines.lock().unwrap());
        let lines = lines.into_iter().filter(|(target, _)| is_of_scheduler(target));
        lines.map(|(_, line)| line).filter(|line| line.starts_with(level)).collect()
    }

    /// Number of lines of a level, of any part of the library, with all of these parts since the last call.
    pub(crate) fn count(&self, level: &str, parts: &[&str]) -> usize {
        let lines = std::mem::take(&mut *self.lines.lock().unwrap());
        lines.iter().filter(|(_, line)| line.starts_with(level) && has(line, parts)).count()
    }

    pub(crate) fn spans(&self) -> Vec<BTreeMap<&'static str, String>> {
        self.spans.lock().unwrap().clone()
    }
}

fn is_of_scheduler(target: &str) -> bool {
    ["tower_redlock::scheduler", "tower_redlock::leader"].iter().any(|it| target.starts_with(it))
}

/// Whether a line has all of these parts.
pub(crate) fn has(line: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| line.contains(part))
}

struct Fields<'a> {
    line: String,
    values: Option<&'a mut BTreeMap<&'static str, String>>,
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.line, " {}={value:?}", field.name()).unwrap();
        if let Some(values) = &mut self.values {
            values.insert(field.name(), format!("{value:?}"));
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        if metadata.is_span() {
            is_of_scheduler(target)
        } else {
            target.starts_with("tower_redlock")
        }
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut values = BTreeMap::new();
        span.record(&mut Fields { line: String::new(), values: Some(&mut values) });
        let mut spans = self.spans.lock().unwrap();
        spans.push(values);
        Id::from_u64(spans.len().try_into().unwrap())
    }

    fn record(&self, id: &Id, recorded: &Record<'_>) {
        let place = usize::try_from(id.into_u64() - 1).unwrap();
        let values = &mut self.spans.lock().unwrap()[place];
        recorded.record(&mut Fields { line: String::new(), values: Some(values) });
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields { line: event.metadata().level().to_string(), values: None };
        event.record(&mut fields);
        self.lines.lock().unwrap().push((event.metadata().target(), fields.line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
