//! The fates of ticks: a tick runs, or is reported once as missed or given up, with its true reason.

use std::collections::BTreeMap;

use tower_redlock::scheduler::MissReason;

use crate::scheduler_years::{
    history::{ReportedMissed, clock},
    model::{Fault, Judged, Model, SETTLED},
    plan::{Event, MINUTE, Ms, Rules, SECOND, YEAR},
};

/// Maximum number of ticks of one report that are looked at.
const MAX_TICKS: usize = 5_000;

impl Model<'_> {
    /// Whether a wall clock is wrong at some time of the year: then stored times may lie in the future.
    fn has_jumps(&self) -> bool {
        self.history.events.iter().any(|(_, event)| matches!(event, Event::Jump { .. }))
    }

    fn ticks(rules: &Rules, first: Ms, until: Ms) -> impl Iterator<Item = Ms> {
        let rules = *rules;
        let next = move |tick: &Ms| Some(rules.tick_after(*tick));
        std::iter::successors(Some(first), next)
            .take_while(move |tick| *tick <= until)
            .take(MAX_TICKS)
    }

    pub(crate) fn fates_are_single(&self, judged: &mut Judged) -> Result<(), Fault> {
        if self.has_jumps() {
            return Ok(());
        }
        let reports = self.history.missed.iter().filter(|report| report.job == self.job);
        let mut fates: BTreeMap<Ms, &ReportedMissed> = BTreeMap::new();
        for report in reports {
            let rules = self.rules(report.version);
            for tick in Self::ticks(rules, report.first, report.last) {
                judged.reported += 1;
                if fates.insert(tick, report).is_some() {
                    return self
                        .fault(report.at, &format!("tick {} is reported twice", clock(tick)));
                }
                if self.runs_of(tick).any(|run| run.began > report.at) {
                    let what = format!("tick {} runs after it was reported", clock(tick));
                    return self.fault(report.at, &what);
                }
                self.reason_is_true(report, rules, tick)?;
            }
        }
        self.no_tick_is_lost(&fates)
    }

    fn reason_is_true(
        &self,
        report: &ReportedMissed,
        rules: &Rules,
        tick: Ms,
    ) -> Result<(), Fault> {
        let start = rules.start(self.job, tick);
        let latest = start + rules.start_within;
        let is_true = match &report.why {
            None => self.runs_of(tick).next().is_some() || self.is_disturbed(start, report.at),
            Some(MissReason::Late) => !self.stretches.iter().any(|stretch| {
                let is_of_schedule = rules.has_schedule_of(self.rules(stretch.version));
                is_of_schedule
                    && stretch.from.max(self.bases[stretch.version]) + SETTLED < start
                    && stretch.until > latest + SETTLED
            }),
            Some(MissReason::Overlap) => self.runs.iter().any(|run| {
                run.began <= latest && run.ended.is_none_or(|end| end + SECOND >= start)
            }),
            Some(MissReason::Interrupted { .. }) => {
                self.runs_of(tick).next().is_some() || self.is_disturbed(start, report.at)
            }
            Some(MissReason::Paused { .. }) => {
                let paused = self.history.standings.windows(2).any(|pair| {
                    pair[0].is_paused(self.job) && pair[0].at <= latest && pair[1].at >= start
                });
                paused || self.history.standings.last().is_some_and(|it| it.is_paused(self.job))
            }
            Some(MissReason::MinHold) => false,
            Some(MissReason::Repeated) => self.runs.iter().any(|run| run.attempt > 1),
            Some(_) => true,
        };
        if is_true {
            return Ok(());
        }
        let (tick, why) = (clock(tick), &report.why);
        self.fault(report.at, &format!("tick {tick} is reported for a wrong reason: {why:?}"))
    }

    /// Whether each tick of a schedule that the nodes know runs, or is reported.
    fn no_tick_is_lost(&self, fates: &BTreeMap<Ms, &ReportedMissed>) -> Result<(), Fault> {
        for (version, base) in self.bases.iter().enumerate() {
            let rules = self.rules(version);
            let next = version + 1;
            let until = if next < self.bases.len() {
                self.history.first_boots[next].unwrap_or(YEAR)
            } else {
                YEAR
            };
            // Reported by a process that was there for long enough after it.
            let reporting = |tick: &Ms| {
                let after = rules.start(self.job, *tick) + rules.start_within;
                self.stretches.iter().find(|stretch| {
                    let from = stretch.from.max(after) + MINUTE;
                    rules.has_schedule_of(self.rules(stretch.version)) && from < stretch.until
                })
            };
            for tick in Self::ticks(rules, rules.tick_after(*base), until) {
                if tick >= until || fates.contains_key(&tick) || self.runs_of(tick).next().is_some()
                {
                    continue;
                }
                let Some(stretch) = reporting(&tick) else { continue };
                if !self.is_known(version, tick) || self.may_be_untold(tick, stretch.from) {
                    continue;
                }
                let what = format!("tick {} has no fate: {rules:?}", clock(tick));
                return self.fault(tick, &what);
            }
        }
        Ok(())
    }

    /// Whether the process that was to report a tick may have ended after it had stored that it reports it.
    fn may_be_untold(&self, tick: Ms, until: Ms) -> bool {
        self.history.breaks.iter().any(|at| (tick..=until + 2 * MINUTE).contains(at))
    }
}
