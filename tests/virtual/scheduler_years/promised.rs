//! Runs that were promised.

use tower_redlock::scheduler::{Claim, Missed};

use crate::scheduler_years::{
    history::clock,
    model::{ASKED, AT_ONCE, Fault, HealthyPeriod, Judged, Model, SETTLED},
    plan::{HOUR, MINUTE, Ms, Rules, SECOND, YEAR},
};

impl Model<'_> {
    /// Whether the nodes know the job by a moment: it ran before, or had the time to be made known.
    pub(crate) fn is_known(&self, version: usize, by: Ms) -> bool {
        let base = self.bases[version];
        let same = |other: usize| self.rules(other).has_schedule_of(self.rules(version));
        let ran =
            self.runs.iter().filter(|run| !run.is_on_demand).any(|run| {
                run.began >= base.saturating_sub(1) && run.began < by && same(run.version)
            });
        let makes_up = !matches!(self.rules(version).missed, Missed::Skip);
        let had_time = |stretch: &&HealthyPeriod| {
            stretch.version == version && stretch.from.max(base) + SETTLED < by.min(stretch.until)
        };
        ran || (makes_up && self.stretches.iter().any(|stretch| had_time(&stretch)))
    }

    pub(crate) fn promised_ran(&self, judged: &mut Judged) -> Result<(), Fault> {
        for stretch in self.stretches {
            let rules = self.rules(stretch.version);
            let base = self.bases[stretch.version];
            let from = stretch.from.max(base);
            if from >= stretch.until {
                continue;
            }
            self.pending_ran(stretch, from, rules, judged)?;
            let mut tick = rules.tick_after(from.saturating_sub(rules.period).max(base));
            loop {
                let start = rules.start(self.job, tick);
                if start + SETTLED >= stretch.until {
                    break;
                }
                if start >= from {
                    self.tick_ran(stretch, (tick, start), rules, judged)?;
                }
                tick = rules.tick_after(tick);
            }
        }
        Ok(())
    }

    fn tick_ran(
        &self,
        stretch: &HealthyPeriod,
        (tick, start): (Ms, Ms),
        rules: &Rules,
        judged: &mut Judged,
    ) -> Result<(), Fault> {
        let is_known = || self.is_known(stretch.version, tick) || tick > stretch.from + SECOND;
        // A replica may take an interrupted run for a current one until its lock is over.
        let is_after_break = self.is_after_break(start);
        let is_quiet = !is_after_break
            && !self.is_disturbed(start.saturating_sub(SETTLED), start + AT_ONCE)
            && stretch.from + SETTLED < start;
        let deadline = start + if is_quiet { AT_ONCE } else { SETTLED };
        let may_be_lost = rules.claim == Claim::AtStart && self.is_disturbed(start, deadline)
            || is_after_break && rules.start_within <= ASKED;
        // What was interrupted, and is to be repeated, comes first.
        let is_blocked =
            self.is_disturbed(start.saturating_sub(SETTLED), deadline + SECOND) && !is_quiet;
        let is_demanded = self.is_demanded(start, deadline);
        if may_be_lost || is_blocked || is_demanded || !is_known() || self.is_busy(start, start + 1)
        {
            return Ok(());
        }
        judged.prompt += 1;
        if self.ran_by(tick, deadline) {
            return Ok(());
        }
        self.fault(deadline, &format!("tick {} does not run: {rules:?}", clock(tick)))
    }

    /// Whether the last run before a moment was interrupted, or its end may not have been stored.
    fn is_after_break(&self, at: Ms) -> bool {
        let later = self.runs.partition_point(|run| run.began < at);
        self.runs[..later].last().is_some_and(|run| {
            let ended = run.ended.unwrap_or(YEAR);
            !run.finished || self.is_disturbed(run.began, ended + SETTLED)
        })
    }

    /// Ticks that were due before the period, while no process was available.
    fn pending_ran(
        &self,
        stretch: &HealthyPeriod,
        from: Ms,
        rules: &Rules,
        judged: &mut Judged,
    ) -> Result<(), Fault> {
        let behind = rules.at_most() * (rules.takes + SECOND);
        let deadline = from + SETTLED + behind;
        let Some(mut tick) = rules.tick_until(from) else { return Ok(()) };
        if rules.start(self.job, tick) > from {
            let Some(before) = rules.tick_until(tick.saturating_sub(1)) else { return Ok(()) };
            tick = before;
        }
        let next = rules.start(self.job, rules.tick_after(tick));
        if deadline >= stretch.until || next <= deadline {
            return Ok(());
        }
        let before = self.runs.iter().filter(|run| run.began < from && !run.is_on_demand);
        let newest_run = before.map(|run| run.tick).max();
        for nth in 0..rules.at_most() {
            let start = rules.start(self.job, tick);
            let is_on_time = nth == 0 && from + ASKED <= start + rules.start_within;
            let is_made_up = !matches!(rules.missed, Missed::Skip)
                && from + ASKED + behind <= start + rules.catch_up;
            let is_lost = self.is_disturbed(start, deadline);
            let is_past = newest_run.is_some_and(|newest| tick <= newest)
                || tick <= self.bases[stretch.version];
            if !(is_on_time || is_made_up)
                || is_lost
                || is_past
                || !self.is_known(stretch.version, tick)
                || self.is_busy(start, from)
                || self.is_demanded(start, deadline)
            {
                return Ok(());
            }
            judged.made_up += 1;
            if !self.ran_by(tick, deadline) {
                let (tick, from) = (clock(tick), clock(from));
                let what = format!("tick {tick} is not made up for from {from} on: {rules:?}");
                return self.fault(deadline, &what);
            }
            let Some(before) = rules.tick_until(tick.saturating_sub(1)) else { return Ok(()) };
            tick = before;
        }
        Ok(())
    }

    pub(crate) fn is_never_silent(&self) -> Result<(), Fault> {
        let began = self.runs.iter().filter(|run| !run.is_on_demand).map(|run| run.began);
        let mut last = self.bases[0];
        for began in began.chain([YEAR]) {
            self.gap_is_allowed(last, began)?;
            last = last.max(began);
        }
        Ok(())
    }

    fn gap_is_allowed(&self, from: Ms, until: Ms) -> Result<(), Fault> {
        let versions = (0..self.history.versions.len()).filter(|version| {
            let since = self.history.first_boots[*version].unwrap_or(YEAR);
            let next = self.history.first_boots.get(version + 1).copied().flatten().unwrap_or(YEAR);
            *version == 0 || (since < until && next + HOUR > from)
        });
        let (mut longest, mut deploys, mut skips) = (0, 0, false);
        for version in versions {
            let rules = self.rules(version);
            longest = longest.max(rules.period + rules.jitter);
            let since = self.history.first_boots[version].unwrap_or(YEAR);
            deploys += u64::from(version > 0 && since + HOUR > from && since < until);
            skips |= matches!(rules.missed, Missed::Skip)
                || rules.claim == Claim::AtStart
                || rules.catch_up < 2 * rules.period;
        }
        if until - from <= longest + MINUTE {
            return Ok(());
        }
        let (mut unfit, mut interruptions, mut at) = (0, 0, from);
        for stretch in self.stretches {
            // Nothing is promised until all disturbances are over.
            let begins = stretch.from + SETTLED;
            if stretch.until <= at || begins >= stretch.until {
                continue;
            }
            if begins > at {
                unfit += begins.min(until) - at;
                interruptions += 1;
            }
            at = stretch.until.min(until);
            if at >= until {
                break;
            }
        }
        unfit += until - at;
        interruptions +=
            self.history.breaks.iter().filter(|at| (from..until).contains(*at)).count() as u64;
        let on_demand = self.runs.iter().filter(|run| run.is_on_demand);
        interruptions += on_demand.filter(|run| (from..until).contains(&run.began)).count() as u64;
        let excused = deploys + if skips { interruptions } else { 0 };
        if until - from > longest * (1 + excused) + unfit + MINUTE {
            let (silent, outage) = ((until - from) / MINUTE, unfit / MINUTE);
            let what = format!(
                "silent for {silent} min until {}, with {outage} min of outage",
                clock(until)
            );
            return self.fault(from, &what);
        }
        Ok(())
    }
}
