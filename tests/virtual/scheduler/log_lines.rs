//! The log lines of a test whose thread moves the clock.

use std::collections::BTreeMap;

use crate::traces::recorder::{Recorder, Sent};

/// Lines as `LEVEL field=value … text`, and the spans of runs.
pub(crate) struct Lines(Recorder);

impl Lines {
    /// Runs a test with its own log.
    pub(crate) fn during(test: impl FnOnce(&Self)) {
        Recorder::during(|sent| test(&Self(sent.clone())));
    }

    /// Returns the lines of schedulers and leaders of a level since the last call.
    pub(crate) fn take(&self, level: &str) -> Vec<String> {
        let events = self.0.take_events().into_iter().filter(is_of_scheduler);
        events.map(|event| event.line).filter(|line| line.starts_with(level)).collect()
    }

    /// Number of lines of a level, of any part of the library, with all of these parts since the last call.
    pub(crate) fn count(&self, level: &str, parts: &[&str]) -> usize {
        let lines = self.0.take_events().into_iter().map(|event| event.line);
        lines.filter(|line| line.starts_with(level) && has(line, parts)).count()
    }

    /// The fields of the latest span of a run.
    pub(crate) fn last_span(&self) -> BTreeMap<&'static str, String> {
        let spans = self.0.spans();
        spans.into_iter().rfind(|span| span.name == "job").expect("a job has run").values
    }
}

fn is_of_scheduler(event: &Sent) -> bool {
    let modules = ["tower_redlock::scheduler", "tower_redlock::leader"];
    modules.iter().any(|module| event.target.starts_with(module))
}

/// Whether a line has all of these parts.
pub(crate) fn has(line: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| line.contains(part))
}
