//! The ticks of jobs that were started.

use std::collections::BTreeMap;

use super::{Oracle, Promise};

#[derive(Debug, Default)]
pub(super) struct Ticks {
    /// The client that started the tick of a job.
    started: BTreeMap<(String, u64), usize>,
}

impl Oracle {
    /// Records the start of a run of a job's tick.
    pub fn tick_started(&self, client: usize, job: &str, tick: u64) {
        self.event(format!("c{client} runs {job} tick {tick}"));
        self.count("ticks");
        let before = self.lock().ticks.started.insert((job.to_owned(), tick), client);
        if let Some(before) = before {
            self.broken(
                Promise::OneStart,
                format!("c{client} started tick {tick} of {job}, after c{before}"),
            );
        }
    }

    /// Returns the number of ticks of a job that were started.
    pub fn ticks_of(&self, job: &str) -> usize {
        self.lock().ticks.started.keys().filter(|(of, _)| of == job).count()
    }
}
