//! The ticks of jobs that were started, and those that were reported as missed.

use std::collections::BTreeMap;

use super::{Oracle, Promise};

#[derive(Debug, Default)]
pub(super) struct Ticks {
    /// The client that started the tick of a job.
    started: BTreeMap<(String, u64), usize>,
    /// The ticks of a job that were reported as missed.
    missed: Vec<MissedTicks>,
}

/// The ticks of a job from the first to the last one that a client reported as missed.
#[derive(Clone, Debug)]
pub struct MissedTicks {
    /// The client.
    pub client: usize,
    /// The job.
    pub job: String,
    /// The first tick, in ms.
    pub first: u64,
    /// The last tick, in ms.
    pub last: u64,
    /// Whether none of them may have been started: it was not interrupted, nor forgotten by the nodes.
    pub is_unstarted: bool,
}

impl MissedTicks {
    fn has(&self, job: &str, tick: u64) -> bool {
        self.job == job && (self.first..=self.last).contains(&tick)
    }
}

impl Oracle {
    /// Records the start of a run of a job's tick.
    pub fn tick_started(&self, client: usize, job: &str, tick: u64) {
        self.event(format!("c{client} runs {job} tick {tick}"));
        self.count("ticks");
        let (before, missed) = {
            let ticks = &mut self.lock().ticks;
            let missed = ticks.missed.iter().find(|missed| missed.has(job, tick)).cloned();
            (ticks.started.insert((job.to_owned(), tick), client), missed)
        };
        if let Some(before) = before {
            self.broken(
                Promise::OneStart,
                format!("c{client} started tick {tick} of {job}, after c{before}"),
            );
        }
        if let Some(missed) = missed {
            let by = missed.client;
            self.broken(
                Promise::OneFate,
                format!("c{client} started tick {tick} of {job}, which c{by} reported as missed"),
            );
        }
    }

    /// Records a report of ticks that did not run, or whose run did not end.
    pub fn ticks_missed(&self, missed: &MissedTicks, why: &str) {
        let MissedTicks { client, job, first, last, is_unstarted } = missed;
        self.event(format!("c{client} reports {job} ticks {first} to {last} as missed: {why}"));
        self.count("ticks missed");
        let (started, again) = {
            let ticks = &mut self.lock().ticks;
            let range = (job.clone(), *first)..=(job.clone(), *last);
            let started = ticks.started.range(range).map(|((_, tick), by)| (*tick, *by)).next();
            let is_again = |other: &&MissedTicks| {
                other.job == *job && other.first <= *last && *first <= other.last
            };
            let again = ticks.missed.iter().find(is_again).cloned();
            ticks.missed.push(missed.clone());
            (started, again)
        };
        if let Some((tick, by)) = started.filter(|_| *is_unstarted) {
            self.broken(
                Promise::OneFate,
                format!("c{client} reported tick {tick} of {job} as missed ({why}), which c{by} had started"),
            );
        }
        if let Some(again) = again {
            self.broken(
                Promise::OneFate,
                format!("c{client} reported ticks of {job} as missed ({why}) again: {again:?}"),
            );
        }
    }

    /// Returns the number of ticks of a job that were started.
    pub fn ticks_of(&self, job: &str) -> usize {
        self.lock().ticks.started.keys().filter(|(of, _)| of == job).count()
    }
}
