//! Which ticks of a job were started.

use std::collections::BTreeMap;

use super::{Oracle, Promise};

#[derive(Debug, Default)]
pub(super) struct Ticks {
    /// The client that started the tick of a job.
    started: BTreeMap<(String, u64), usize>,
}

impl Oracle {
    /// A run of a job's tick starts.
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

    /// How many ticks of a job were started.
    pub fn ticks_of(&self, job: &str) -> usize {
        self.lock().ticks.started.keys().filter(|(of, _)| of == job).count()
    }
}
