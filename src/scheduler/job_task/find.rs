//! Finds under the job's lock which ticks do not run, and why.

use super::{
    super::{MissReason, claims::millis, fleet::JobRun, tick_policy::OverlappedRun},
    env::MissedTicks,
    findings::{Findings, InterruptedRun, LostTicks, MAX_COUNTED, UnreportedFindings, count_ticks},
    reports::report_findings,
    task::JobTask,
};
use crate::{
    protocol::{TickFates, TickRun},
    quorum::claims::LatestClaim,
    schedule::WallTime,
};

/// Maximum number of findings that are kept of unconfirmed claims. Beyond it, the older half is dropped.
const MAX_UNREPORTED: usize = 64;

impl JobTask {
    /// Under the job's lock, no run of the job is in progress, unless beside others: one without an end was
    /// interrupted. Gives its tick up if it is not repeated.
    pub(super) fn find_ends(&mut self, now: WallTime) -> Findings {
        let mut findings = Findings { lost: self.lost_ticks(), ..Findings::default() };
        if let Some(tick) = self.env.given_up(&self.fleet.record, now) {
            self.fleet.record.unfinished = false;
            findings.given_up = Some((tick, self.fleet.record.attempt));
        }
        if self.fleet.record.unfinished || findings.given_up.is_some() {
            return findings;
        }
        // Its end is stored late.
        let is_ended_here = |run: &TickRun| {
            let owed = self.fleet.owed_end.as_ref();
            owed.is_some_and(|(end, _)| (TickRun { ended: None, ..end.run }) == *run)
        };
        let Some(latest) = self.fleet.latest.as_ref().filter(|latest| latest.is_open()) else {
            return findings;
        };
        if is_ended_here(&latest.run) || self.is_in_lane(latest) {
            return findings;
        }
        let tick = WallTime::since_epoch(latest.run.tick);
        let is_ours = self.fleet.own_tick == Some(tick);
        let is_lost = findings
            .lost
            .as_ref()
            .is_some_and(|lost| (lost.ticks.first..=lost.ticks.last).contains(&tick));
        let is_reported = is_ours || is_lost || self.fleet.was_told(tick) || self.lanes.is_some();
        let owner = latest.owner.clone();
        findings.interrupted = Some(InterruptedRun { tick, owner, is_reported });
        findings
    }

    /// Whether the latest run of a parallel job is in progress beside others.
    fn is_in_lane(&self, latest: &LatestClaim) -> bool {
        let Some((lanes, owner)) = self.lanes.as_ref().zip(latest.owner.clone()) else {
            return false;
        };
        lanes.is_alive(&JobRun::of_tick(&latest.run, owner), self.env.redlock.owner())
    }

    /// Adds missed ticks, each with its reason, without those that are reported as lost.
    pub(super) fn find_missed(&self, findings: &mut Findings, missed: Option<MissedTicks>) {
        let lost = findings.lost.as_ref().map(|lost| &lost.ticks);
        let groups = missed.map(|missed| self.with_reasons(missed, lost));
        findings.missed = groups.unwrap_or_default();
    }

    /// The ticks that no replica could claim, without those that are reported.
    pub(super) fn lost_ticks(&self) -> Option<LostTicks> {
        let time = WallTime::since_epoch;
        let (told, lost_until) = (time(self.fleet.fates.told), time(self.fleet.fates.lost_until));
        let lost = self.reports.lost.as_ref().filter(|lost| lost.until > lost_until)?;
        let before = WallTime::from_millis(lost.ticks.first.as_millis().saturating_sub(1));
        let ticks = count_ticks(&self.env.schedule, before.max(told), lost.ticks.last)?;
        Some(LostTicks { ticks, ..lost.clone() })
    }

    /// Splits missed ticks by the reason why they did not run. The servers may show only now that they had
    /// lost claims, so that ticks amid the missed ones are `lost`.
    fn with_reasons(
        &self,
        missed: MissedTicks,
        lost: Option<&MissedTicks>,
    ) -> Vec<(MissedTicks, MissReason)> {
        let MissedTicks { count, first, last, .. } = missed;
        let is_lost =
            |tick: WallTime| lost.is_some_and(|lost| (lost.first..=lost.last).contains(&tick));
        let (mut skipped, mut is_apart) = (0, false);
        let mut groups: Vec<(MissedTicks, MissReason)> = Vec::new();
        let before = WallTime::from_millis(first.as_millis().saturating_sub(1));
        for tick in self.env.schedule.ticks(before, last).take(MAX_COUNTED) {
            if is_lost(tick) {
                (skipped, is_apart) = (skipped + 1, true);
                continue;
            }
            let why = self.why_missed(tick);
            let is_next = !std::mem::take(&mut is_apart);
            match groups.last_mut() {
                Some((group, known)) if is_next && *known == why => {
                    group.count += 1;
                    group.last = tick;
                }
                _ => {
                    let group = MissedTicks { count: 1, at_least: false, first: tick, last: tick };
                    groups.push((group, why));
                }
            }
        }
        if let Some((group, _)) = groups.last_mut().filter(|_| !is_lost(last)) {
            group.last = last;
        }
        let kept = groups.iter().map(|(group, _)| group.count).sum::<u64>();
        debug_assert_eq!(kept + skipped, count);
        groups
    }

    /// Why a missed tick did not run: as the record of the fleet shows it, or else as this replica saw it.
    fn why_missed(&self, tick: WallTime) -> MissReason {
        let seen = || self.reports.obstacle.clone().unwrap_or(MissReason::Late);
        if self.lanes.is_some() || matches!(self.reports.obstacle, Some(MissReason::Paused { .. }))
        {
            return seen();
        }
        let (record, policy) = (&self.fleet.record, &self.env.options.policy);
        let start = self.env.schedule.start(&self.env.job.name, tick);
        let latest = self.fleet.latest.as_ref().map(|latest| latest.run);
        match record.overlap_of(start) {
            Some(OverlappedRun::OfTick) => {
                let is_before = |run: &TickRun| start < WallTime::since_epoch(run.since);
                match latest.filter(is_before) {
                    None => return MissReason::Overlap,
                    Some(TickRun { attempt: 2.., .. }) => return MissReason::Repeated,
                    // An earlier tick was made up for.
                    Some(_) => {}
                }
            }
            Some(OverlappedRun::OnDemand) => return MissReason::Overlap,
            None => {}
        }
        // A run on demand that began while the tick was pending, and lasted until it was late.
        let outlasts = record.on_demand.is_some_and(|run| {
            let latest = policy.latest(start);
            run.since <= latest && run.ended > Some(latest)
        });
        if outlasts {
            return MissReason::Overlap;
        }
        let of_tick = latest.map(|run| WallTime::since_epoch(run.since)).zip(record.last_end);
        let on_demand = record.on_demand.and_then(|run| Some((run.since, run.ended?)));
        let is_kept = |(since, ended): (WallTime, WallTime)| {
            let until = millis(since).saturating_add(self.env.options.min_hold);
            let until = WallTime::since_epoch(until);
            (ended..=until).contains(&start)
        };
        if [of_tick, on_demand].into_iter().flatten().any(is_kept) {
            return MissReason::MinHold;
        }
        seen()
    }

    /// Reports what was found: a majority stores that this replica does.
    pub(super) fn report(&mut self, findings: Findings) {
        self.fleet.note_told(findings.add_to(TickFates::default(), 0));
        report_findings(&self.env, findings);
    }

    /// Keeps what was found under a claim that too few nodes confirmed: it may count nevertheless. If it does, what
    /// `counted` when it was made does as well, as it says so too.
    pub(super) fn keep_unreported(
        &mut self,
        token: u64,
        findings: Findings,
        counted: Vec<UnreportedFindings>,
    ) {
        for mut earlier in counted {
            earlier.under.push(token);
            self.unreported.push(earlier);
        }
        if !findings.is_empty() {
            self.unreported.push(UnreportedFindings { under: vec![token], findings });
        }
        if self.unreported.len() <= MAX_UNREPORTED {
            return;
        }
        let dropped = self.unreported.drain(..MAX_UNREPORTED / 2);
        let mut dropped = dropped.map(|it| (it.under, it.findings.until()));
        let (first, last) = (dropped.next(), dropped.next_back());
        crate::log::warn!(
            job = %self.env.job.name, ?first, ?last,
            "too few nodes confirm the job's claims: if one of these counts nevertheless, ticks that were found not to run \
             are not reported"
        );
    }

    /// Takes out what was found under a claim that too few nodes confirmed and that counts, as the latest claim
    /// shows: other replicas take the ticks as reported. The rest may count until a majority stores a later claim.
    pub(super) fn take_counted(&mut self) -> Vec<UnreportedFindings> {
        let Some(latest) = &self.fleet.latest else { return Vec::new() };
        let former = latest.before.as_ref().map(|before| before.fates.told_under);
        let counts = [Some(latest.fates.told_under), former];
        let counts = |it: &mut UnreportedFindings| {
            it.under.iter().any(|token| counts.contains(&Some(*token)))
        };
        self.unreported.extract_if(.., counts).collect()
    }

    /// Reports what was found under a claim that too few nodes confirmed, once a majority stores that.
    pub(super) fn tell_counted(&mut self) {
        if self.fleet.latest.as_ref().is_some_and(|latest| latest.is_replicated) {
            for counted in self.take_counted() {
                self.report(counted.findings);
            }
        }
    }
}
