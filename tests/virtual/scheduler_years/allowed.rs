//! Runs that are allowed, and ticks that were reported as missed.

use tower_redlock::scheduler::{Claim, Missed, Overlap};

use crate::scheduler_years::{
    history::clock,
    log::Run,
    model::{Fault, HealthyPeriod, Judged, Model, SETTLED},
    plan::{MINUTE, Ms, Rules, SECOND, YEAR},
};

impl Model<'_> {
    pub(crate) fn runs_are_allowed(&self, judged: &mut Judged) -> Result<(), Fault> {
        for (index, run) in self.runs.iter().enumerate() {
            let rules = self.rules(run.version);
            let (tick, began) = (run.tick, run.began);
            let start = rules.start(self.job, tick);
            let is_again = run.attempt > 1;
            judged.again += u64::from(is_again);
            if began < start && !run.is_on_demand {
                return self.fault(began, &format!("tick {} runs before its start", clock(tick)));
            }
            if index > 0 {
                let before = self.runs[index - 1];
                if before.ended.is_none_or(|end| end > began) {
                    return self
                        .fault(began, &format!("tick {} runs during another run", clock(tick)));
                }
                if before.token >= run.token {
                    return self
                        .fault(began, &format!("token {} after {}", run.token, before.token));
                }
            }
            if run.is_on_demand {
                continue;
            }
            if !is_again && tick < self.base_of_schedule(run.version) {
                let tick = clock(tick);
                return self.fault(began, &format!("tick {tick} is of before the schedule"));
            }
            let same = |first: &&&Run| first.tick == tick && !first.is_on_demand;
            let first = self.runs[..index].iter().rev().find(same);
            if let Some(first) = first {
                // Its end may not have been stored.
                let ended = first.ended.unwrap_or(YEAR);
                let unstored = self.is_end_disturbed(first.began, ended);
                if rules.claim == Claim::AtStart || (first.finished && !unstored) {
                    return self.fault(began, &format!("tick {} runs twice", clock(tick)));
                }
                continue;
            }
            if is_again && rules.claim == Claim::AtStart {
                return self.fault(began, &format!("tick {} begins with attempt 2", clock(tick)));
            }
            if is_again {
                continue;
            }
            self.is_in_time(run, rules, start)?;
        }
        Ok(())
    }

    /// Since when the ticks of a version's schedule may count: the last tick of the former one that was claimed
    /// or reported before the first boot of the version.
    pub(crate) fn base_of_schedule(&self, version: usize) -> Ms {
        let boot = self.first_boot_of_schedule(version);
        let ran = self.runs.iter().filter(|run| run.began < boot && !run.is_on_demand);
        let reported = self.history.missed.iter();
        let reported = reported.filter(|report| report.job == self.job && report.at < boot);
        let settled = ran.map(|run| run.tick).chain(reported.map(|report| report.last));
        settled.filter(|tick| *tick < boot).max().unwrap_or(0)
    }

    /// When the schedule of a version came to be, whatever else was changed since.
    pub(crate) fn first_boot_of_schedule(&self, version: usize) -> Ms {
        let mut first = version;
        while first > 0 && self.rules(first).has_schedule_of(self.rules(first - 1)) {
            first -= 1;
        }
        if first == 0 { 0 } else { self.history.first_boots[first].unwrap_or(0) }
    }

    fn is_in_time(&self, run: &Run, rules: &Rules, start: Ms) -> Result<(), Fault> {
        let makes_up = !matches!(rules.missed, Missed::Skip);
        let backlog = rules.at_most() * (rules.takes + SECOND);
        // A tick that came before the end of a run waited for it, also where that began late.
        let before = self.runs.iter().filter(|before| before.began < run.began);
        let ended = before.filter_map(|before| before.ended).max();
        let start = match (rules.overlap, ended) {
            (Overlap::Queue | Overlap::Stop, Some(ended)) => start.max(ended),
            _ => start,
        };
        let window =
            if makes_up { rules.start_within.max(rules.catch_up) } else { rules.start_within };
        if run.began > start + window + backlog + SECOND {
            return self.fault(run.began, &format!("tick {} runs too late", clock(run.tick)));
        }
        // Those that were due when it was chosen.
        let chosen = run.began.saturating_sub(SECOND);
        let mut newer = 0;
        let mut next = rules.tick_after(run.tick);
        while rules.start(self.job, next) <= chosen && newer <= rules.at_most() {
            newer += 1;
            next = rules.tick_after(next);
        }
        if newer > rules.at_most() - 1 {
            let tick = clock(run.tick);
            return self
                .fault(run.began, &format!("tick {tick} runs in place of {newer} newer ones"));
        }
        Ok(())
    }

    /// Whether what was interrupted was repeated as soon as a process could.
    pub(crate) fn repeats_are_prompt(&self) -> Result<(), Fault> {
        for (index, again) in self.runs.iter().enumerate() {
            let same = |run: &&&Run| run.tick == again.tick && !run.is_on_demand;
            let Some(first) = self.runs[..index].iter().rev().find(same) else { continue };
            let interrupted = first.ended.unwrap_or(YEAR);
            let might_earlier = |stretch: &&HealthyPeriod| {
                let since = stretch.from.max(interrupted) + SETTLED;
                let is_able =
                    self.rules(stretch.version).claim == Claim::AtEnd && since <= stretch.until;
                is_able && since < again.began && !self.is_demanded(interrupted, again.began)
            };
            if let Some(stretch) = self.stretches.iter().find(might_earlier) {
                let (tick, since) = (clock(again.tick), clock(stretch.from.max(interrupted)));
                let what = format!("tick {tick} is repeated late: it could be from {since} on");
                return self.fault(again.began, &what);
            }
        }
        Ok(())
    }

    pub(crate) fn missed_are_true(&self) -> Result<(), Fault> {
        for report in self.history.missed.iter().filter(|report| report.job == self.job) {
            // An interrupted run is reported as well.
            let ended = |run: &Run| {
                let ended = run.ended.unwrap_or(YEAR);
                run.finished && !self.is_end_disturbed(run.began, ended)
            };
            let of = |run: &&&Run| {
                ended(run)
                    && !run.is_on_demand
                    && (report.first..=report.last).contains(&run.tick)
                    && run.version == report.version
            };
            if let Some(run) = self.runs.iter().find(of) {
                let (tick, machine) = (clock(run.tick), report.machine);
                let what = format!("tick {tick} is reported as missed by {machine}, and ran");
                return self.fault(report.at, &what);
            }
            let base = self.base_of_schedule(report.version);
            // A run of before may have been interrupted, or a claim, where something got lost.
            let is_interrupted = report.first == report.last
                && (self.runs_of(report.first).next().is_some()
                    || self.is_disturbed(report.first, report.first + 6 * MINUTE));
            if report.first < base && !is_interrupted {
                let (first, base) = (clock(report.first), clock(base));
                let what =
                    format!("tick {first} is reported as missed, before the schedule, {base}");
                return self.fault(report.at, &what);
            }
        }
        Ok(())
    }
}
