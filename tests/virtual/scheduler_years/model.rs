//! A model of the documented policies, which judges a year after its end.
//!
//! * No tick starts twice, but one whose run was interrupted where the job claims at the end.
//! * No tick starts before its time, later than the policy allows, or in place of a newer one that was
//!   due. No two runs of a job go at once, and tokens grow.
//! * No tick of before a changed schedule runs, and none that ran is reported as missed.
//! * A run that was interrupted is repeated, where it is, within half a minute of when a process could.
//! * A tick that comes while a process is there and reaches a quorum runs at once. One that came while
//!   none did is made up for as the policy says, within half a minute of the end of the outage.
//! * No job is silent for longer than its period, the outages in between, and a minute.
//! * Each tick has one fate, which is reported once if the tick does not run: see `fates`.

use crate::scheduler_years::{
    history::History,
    log::Run,
    plan::{MACHINES, Ms, Rules, SECOND, YEAR, name},
};

/// The end of all disturbances.
pub(crate) const SETTLED: Ms = 30 * SECOND;
/// Maximum lateness of a tick without disturbances.
pub(crate) const AT_ONCE: Ms = 3 * SECOND / 2;
/// For how long an answer may be under way.
const IN_FLIGHT: Ms = 50;
/// Time within which a process has read the nodes after an outage.
pub(crate) const ASKED: Ms = 14 * SECOND;

/// What was judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judged {
    pub(crate) runs: u64,
    /// Ticks that had to run at once.
    pub(crate) prompt: u64,
    /// Ticks that had to be made up for.
    pub(crate) made_up: u64,
    /// Runs that had to be repeated, or may have been.
    pub(crate) again: u64,
    /// Ticks that were reported as missed or given up.
    pub(crate) reported: u64,
}

pub(crate) struct Fault {
    pub(crate) at: Ms,
    pub(crate) what: String,
}

/// A time in which a process is there, reaches a quorum, and nothing gets lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HealthyPeriod {
    pub(crate) from: Ms,
    pub(crate) until: Ms,
    pub(crate) version: usize,
}

pub(crate) struct Model<'a> {
    pub(crate) history: &'a History,
    pub(crate) job: usize,
    /// Of the job, in the order of their beginnings.
    pub(crate) runs: Vec<&'a Run>,
    pub(crate) stretches: &'a [HealthyPeriod],
    /// Since when ticks of each version count.
    pub(crate) bases: Vec<Ms>,
}

/// The first fault of each kind, in the order of time.
pub(crate) fn judge(history: &History) -> (Judged, Vec<Fault>) {
    let (mut judged, mut faults) = (Judged::default(), Vec::new());
    for job in 0..history.versions[0].len() {
        let stretches = stretches(history, job);
        let runs: Vec<_> = history.runs.iter().filter(|run| run.job == job).collect();
        let bases = bases(history, job);
        let model = Model { history, job, runs, stretches: &stretches, bases };
        judged.runs += model.runs.len() as u64;
        faults.extend(model.runs_are_allowed(&mut judged).err());
        faults.extend(model.repeats_are_prompt().err());
        faults.extend(model.missed_are_true().err());
        faults.extend(model.fates_are_single(&mut judged).err());
        faults.extend(model.promised_ran(&mut judged).err());
        faults.extend(model.is_never_silent().err());
    }
    faults.sort_by_key(|fault| fault.at);
    (judged, faults)
}

fn stretches(history: &History, job: usize) -> Vec<HealthyPeriod> {
    let mut stretches = Vec::new();
    for machine in 0..MACHINES {
        let mut open: Option<(Ms, usize)> = None;
        for standing in &history.standings {
            let fit = standing.fit[machine].filter(|_| {
                !standing.is_lossy && !standing.is_deploying && !standing.is_paused(job)
            });
            if open.map(|(_, version)| version) == fit {
                continue;
            }
            if let Some((from, version)) = open {
                stretches.push(HealthyPeriod { from, until: standing.at, version });
            }
            open = fit.map(|version| (standing.at, version));
        }
        if let Some((from, version)) = open {
            stretches.push(HealthyPeriod { from, until: YEAR, version });
        }
    }
    stretches.retain(|stretch| stretch.until > stretch.from);
    stretches.sort_by_key(|stretch| stretch.from);
    stretches
}

/// Since when ticks of each version count, at the latest.
fn bases(history: &History, job: usize) -> Vec<Ms> {
    let mut bases: Vec<Ms> = Vec::new();
    for (version, jobs) in history.versions.iter().enumerate() {
        let same = version > 0 && jobs[job].has_schedule_of(&history.versions[version - 1][job]);
        let deployed = || {
            // While it is rolled out, both schedules are in force.
            let mut standings = history.standings.iter().skip_while(|standing| {
                history.first_boots[version].is_none_or(|at| standing.at < at)
            });
            let done = standings.find(|standing| !standing.is_deploying);
            done.map_or(YEAR, |standing| standing.at + 1)
        };
        bases.push(if same { bases[version - 1] } else { deployed() });
    }
    bases
}

impl Model<'_> {
    pub(crate) fn fault<T>(&self, at: Ms, what: &str) -> Result<T, Fault> {
        Err(Fault { at, what: format!("{}: {what}", name(self.job)) })
    }

    pub(crate) fn rules(&self, version: usize) -> &Rules {
        &self.history.versions[version][self.job]
    }

    /// Whether something may have been lost in this time.
    pub(crate) fn is_disturbed(&self, from: Ms, until: Ms) -> bool {
        let breaks = &self.history.breaks;
        let next = breaks.partition_point(|at| *at < from);
        breaks.get(next).is_some_and(|at| *at <= until) || self.is_lossy(from, until)
    }

    /// Whether the end of a run may not have been stored. A run may begin by answers that were under way
    /// when its machine was cut off.
    pub(crate) fn is_end_disturbed(&self, began: Ms, ended: Ms) -> bool {
        self.is_disturbed(began.saturating_sub(IN_FLIGHT), ended + SETTLED)
    }

    pub(crate) fn is_lossy(&self, from: Ms, until: Ms) -> bool {
        let standings = &self.history.standings;
        let first = standings.partition_point(|standing| standing.at <= from).saturating_sub(1);
        let mut during = standings[first..].iter().take_while(|standing| standing.at <= until);
        during.any(|standing| standing.is_lossy || standing.is_deploying)
    }

    /// Whether a run on demand was going in a time.
    pub(crate) fn is_demanded(&self, from: Ms, until: Ms) -> bool {
        let mut on_demand = self.runs.iter().filter(|run| run.is_on_demand);
        on_demand.any(|run| run.began <= until && run.ended.is_none_or(|end| end >= from))
    }

    pub(crate) fn runs_of(&self, tick: Ms) -> impl Iterator<Item = &Run> {
        self.runs.iter().copied().filter(move |run| run.tick == tick && !run.is_on_demand)
    }

    pub(crate) fn ran_by(&self, tick: Ms, deadline: Ms) -> bool {
        self.runs_of(tick).any(|run| run.began <= deadline)
    }

    /// Whether a run was going at a moment, or had just ended.
    pub(crate) fn is_busy(&self, from: Ms, until: Ms) -> bool {
        let later = self.runs.partition_point(|run| run.began < until);
        let near = self.runs[..later].iter().rev().take(12);
        near.into_iter().any(|run| run.ended.is_none_or(|end| end >= from))
    }
}
