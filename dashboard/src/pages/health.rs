//! What is well and what is not: the judgement behind the overview, without I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::Serialize;
use tower_redlock::{
    diagnosis::{Diagnosis, Severity, Verdict},
    lock::Snapshot,
    scheduler::{JobRun, JobState, JobStatus},
};

use super::{
    standing::{is_failure, result},
    words::{counted, number, span},
};
use crate::{
    cache::{FleetSnapshot, LockListing, ShownJob},
    recent::RatesView,
};

/// Age of the oldest waiting request from which it needs attention.
const LONG_WAIT: Duration = Duration::from_secs(60);
/// Time after a tick from which a job that has not begun counts as late.
const OVERDUE: Duration = Duration::from_secs(10);
/// Lateness from which a run counts as late.
const LATE_RUN: Duration = Duration::from_secs(60);
/// Age up to which a late run counts.
const LATE_RUN_AGE: Duration = Duration::from_secs(3_600);
/// Time for which a missed tick counts, from when it was found.
pub(super) const MISSED_TIME: Duration = Duration::from_secs(3_600);
/// Time for which losses are counted.
const LOSS_TIME: Duration = Duration::from_secs(3_600);

/// How much something needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Good,
    /// It was not read so far.
    Unknown,
    Warn,
    Bad,
}

impl Level {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unknown => "unknown",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }

    /// Returns the state of everything in words, for its worst part.
    pub(super) const fn headline(self) -> &'static str {
        match self {
            Self::Good => "All is well",
            Self::Unknown => "The servers are being read",
            Self::Warn => "Something needs attention",
            Self::Bad => "Something is wrong",
        }
    }

    /// Returns the level in a word, for those who do not see its colour.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unknown => "unknown",
            Self::Warn => "attention",
            Self::Bad => "wrong",
        }
    }
}

/// One number of the overview, which leads to the page with the details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Tile {
    pub(super) id: &'static str,
    #[serde(skip)]
    pub(super) page: &'static str,
    pub(super) title: &'static str,
    pub(super) value: String,
    pub(super) note: String,
    pub(super) level: Level,
}

/// A kind of what is wrong with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TroubleKind {
    Failed,
    Late,
    Missed,
    Finding,
    Paused,
}

impl TroubleKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Late => "late",
            Self::Missed => "missed",
            Self::Finding => "finding",
            Self::Paused => "paused",
        }
    }
}

/// A job that is late, failed or paused, that missed a tick, or whose scheduler has found something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct JobTrouble {
    pub(super) name: Arc<str>,
    /// What is wrong, the worst first, with its words.
    pub(super) kinds: Vec<(TroubleKind, String)>,
}

/// What was read of the jobs of the fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct FleetJobs {
    pub(super) jobs: Vec<ShownJob>,
    /// There are others that were not read.
    pub(super) is_partial: bool,
    pub(super) error: Option<String>,
}

/// Returns the jobs that need attention, the worst first.
pub(super) fn troubles(fleet: &[ShownJob], here: &[JobStatus], now: SystemTime) -> Vec<JobTrouble> {
    let mut found = BTreeMap::<Arc<str>, BTreeSet<(TroubleKind, String)>>::new();
    let mut note = |name: &Arc<str>, kind, words| {
        found.entry(Arc::clone(name)).or_default().insert((kind, words));
    };
    for job in fleet {
        if let Some(pause) = &job.control.paused {
            note(&job.name, TroubleKind::Paused, format!("paused by {}", pause.by));
        }
        let Some(last) = &job.last else { continue };
        if is_failure(last.result) {
            note(&job.name, TroubleKind::Failed, failure(last, now));
        }
        if last.lateness >= LATE_RUN && age(last.started, now) < LATE_RUN_AGE {
            let words = format!("its last run began {} late", span(last.lateness));
            note(&job.name, TroubleKind::Late, words);
        }
    }
    for job in here {
        if let Some(missed) = &job.last_missed
            && age(missed.found, now) < MISSED_TIME
        {
            let (ticks, ago) = (counted(missed.count, "tick"), span(age(missed.found, now)));
            let words = format!("missed {ticks}, found {ago} ago: {}", missed.why);
            note(&job.name, TroubleKind::Missed, words);
        }
        if let Some(finding) = &job.finding {
            note(&job.name, TroubleKind::Finding, finding.to_string());
        }
        if let Some(pause) = &job.paused_here {
            note(&job.name, TroubleKind::Paused, format!("paused on this replica by {}", pause.by));
        }
        if let Some(overdue) = overdue(job, now) {
            let words = format!("due {} ago, and not begun", span(overdue));
            note(&job.name, TroubleKind::Late, words);
        }
    }
    let mut troubles: Vec<_> = found
        .into_iter()
        .map(|(name, kinds)| JobTrouble { name, kinds: kinds.into_iter().collect() })
        .collect();
    troubles.sort_by_key(|trouble| trouble.kinds.first().map(|(kind, _)| *kind));
    troubles
}

fn age(at: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(at).unwrap_or_default()
}

fn failure(run: &JobRun, now: SystemTime) -> String {
    let words = format!("{} {} ago", result(run.result), span(age(run.started, now)));
    match &run.error {
        Some(error) => format!("{words}: {error}"),
        None => words,
    }
}

/// Returns for how long a tick has been due that no replica is known to have begun.
fn overdue(job: &JobStatus, now: SystemTime) -> Option<Duration> {
    let is_expected = matches!(
        job.state,
        JobState::Starting
            | JobState::WaitingForTick { .. }
            | JobState::WaitingForSlot
            | JobState::WaitingForNodes { .. }
            | JobState::BackingOff { .. }
    );
    let overdue = age(job.next_tick?, now);
    (is_expected && overdue >= OVERDUE).then_some(overdue)
}

pub(super) fn votes(nodes: Option<&Diagnosis>) -> Tile {
    let (value, note, level) = match nodes {
        None => ("–".into(), "they are being read".into(), Level::Unknown),
        Some(nodes) => {
            let value = format!("{} of {}", nodes.voting(), nodes.nodes.len());
            let is_one = nodes.sets().len() == 1;
            let (note, level) = match nodes.verdict() {
                Verdict::Healthy => ("locks work".into(), Level::Good),
                Verdict::Degraded => (problems(nodes), Level::Warn),
                _ if is_one => (format!("no quorum: {} are needed", nodes.quorum()), Level::Bad),
                _ => (without_quorum(nodes), Level::Bad),
            };
            (value, note, level)
        }
    };
    Tile { id: "votes", page: "nodes", title: "servers vote", value, note, level }
}

/// Returns the number of sets without a quorum, of several.
fn without_quorum(nodes: &Diagnosis) -> String {
    let sets = nodes.sets();
    let down = sets.iter().filter(|set| set.verdict() == Verdict::NoQuorum).count();
    format!("no quorum in {down} of {}", counted(sets.len() as u64, "set"))
}

fn problems(nodes: &Diagnosis) -> String {
    let without = nodes.nodes.len() - nodes.voting();
    let problems = nodes.advice.iter().filter(|advice| advice.severity == Severity::Problem);
    match without {
        0 => format!("locks work, with {}", counted(problems.count() as u64, "problem")),
        _ => format!("locks work without {}", counted(without as u64, "server")),
    }
}

pub(super) fn held(locks: Option<&FleetSnapshot<LockListing>>) -> Tile {
    let (mut value, mut note, mut level) =
        ("–".to_owned(), "they are being read".to_owned(), Level::Unknown);
    if let Some(snapshot) = locks {
        let LockListing { locks, more, error } = &snapshot.value;
        value = number(locks.iter().filter(|lock| lock.is_quorum).count() as u64);
        (note, level) = match error {
            Some(_) => ("some may be missing here".into(), Level::Warn),
            None => ("by the whole fleet".into(), Level::Good),
        };
        if snapshot.is_partial || *more {
            value = format!("over {value}");
        }
    }
    Tile { id: "held", page: "locks", title: "locks held", value, note, level }
}

pub(super) fn waiting(snapshot: &Snapshot) -> Tile {
    let requests: usize = snapshot.waiting.iter().map(|waiting| waiting.requests).sum();
    let oldest = snapshot.waiting.iter().map(|waiting| waiting.oldest).max();
    let is_long = oldest.is_some_and(|oldest| oldest >= LONG_WAIT);
    Tile {
        id: "waiting",
        page: "locks#waiting",
        title: if requests == 1 { "request waits" } else { "requests wait" },
        value: number(requests as u64),
        note: oldest.map_or("in this process".into(), |oldest| {
            format!("in this process, the oldest for {}", span(oldest))
        }),
        level: if is_long { Level::Warn } else { Level::Good },
    }
}

pub(super) fn jobs(fleet: Option<&FleetJobs>, count: usize, troubles: &[JobTrouble]) -> Tile {
    let of = |kind| {
        let has = |trouble: &&JobTrouble| trouble.kinds.iter().any(|(other, _)| *other == kind);
        troubles.iter().filter(has).count()
    };
    let (failed, late, missed, findings, paused) = (
        of(TroubleKind::Failed),
        of(TroubleKind::Late),
        of(TroubleKind::Missed),
        of(TroubleKind::Finding),
        of(TroubleKind::Paused),
    );
    let is_well = failed + late + missed + findings == 0;
    let mut level = if is_well { Level::Good } else { Level::Warn };
    let mut note = format!("{failed} failed, {late} late, {paused} paused");
    if missed > 0 {
        note = format!("{note}, {missed} missed a tick in the last hour");
    }
    if findings > 0 {
        note = format!("{note}, {findings} with a finding");
    }
    let mut value = number(count as u64);
    match fleet {
        None => level = level.max(Level::Unknown),
        Some(FleetJobs { error: Some(_), .. }) => {
            level = level.max(Level::Warn);
            note = format!("{note}; some may be missing here");
        }
        Some(fleet) if fleet.is_partial => value = format!("over {value}"),
        Some(_) => {}
    }
    let title = if count == 1 { "job" } else { "jobs" };
    Tile { id: "jobs", page: "jobs", title, value, note, level }
}

pub(super) fn losses(rates: &RatesView, recorded: Duration) -> Tile {
    let lost = rates.harm.lost;
    let time = if recorded < LOSS_TIME { span(recorded) } else { "hour".into() };
    Tile {
        id: "losses",
        page: "events",
        title: if lost == 1 { "lock lost" } else { "locks lost" },
        value: number(lost),
        note: format!("by this process in the last {time}"),
        level: if lost > 0 { Level::Bad } else { Level::Good },
    }
}

/// Returns the ends of work that the nodes have not stored; `None` if there are none.
pub(super) fn owed(snapshot: &Snapshot, rates: &RatesView) -> Option<Tile> {
    let (owed, unrecorded) = (snapshot.owed.len(), rates.harm.unrecorded);
    if owed == 0 && unrecorded == 0 {
        return None;
    }
    let (level, note) = match unrecorded {
        0 => (Level::Warn, "too few servers have stored that this work has ended".into()),
        _ => (Level::Bad, format!("{unrecorded} may have run twice in the last hour")),
    };
    let title = if owed == 1 { "record owed" } else { "records owed" };
    Some(Tile { id: "owed", page: "locks", title, value: number(owed as u64), note, level })
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::UNIX_EPOCH};

    use serde_json::json;
    use tower_redlock::{
        Job, Redlock, Schedule, Scheduler,
        lock::{LockCounts, WaitingName},
        scheduler::{JobControl, JobRunResult},
    };

    use super::*;
    use crate::{pages::standing::sample_run, recent::Rates};

    fn rates(lost: u64) -> RatesView {
        harmed(lost, 0)
    }

    fn harmed(lost: u64, unrecorded: u64) -> RatesView {
        let mut counts = LockCounts::default();
        (counts.lost, counts.unrecorded) = (lost, unrecorded);
        let mut rates = Rates::new(LockCounts::default());
        rates.sample(Duration::ZERO, counts);
        rates.view(Duration::ZERO)
    }

    #[test]
    fn worst_part_is_the_headline() {
        let levels = [Level::Good, Level::Unknown, Level::Warn, Level::Bad];
        assert!(levels.is_sorted());
        assert_eq!(levels.map(Level::name), ["good", "unknown", "warn", "bad"]);
        assert_eq!(Level::Good.headline(), "All is well");
    }

    #[test]
    fn losses_are_wrong() {
        let none = losses(&rates(0), Duration::from_secs(90));
        assert_eq!((none.level, &*none.note), (Level::Good, "by this process in the last 1m 30s"));
        let one = losses(&rates(1), LOSS_TIME);
        assert_eq!((one.level, one.title, &*one.value), (Level::Bad, "lock lost", "1"));
        assert_eq!(one.note, "by this process in the last hour");
    }

    #[test]
    fn unrecorded_work_is_wrong() {
        let snapshot = Redlock::embedded().snapshot();
        assert_eq!(owed(&snapshot, &harmed(0, 0)), None);

        let tile = owed(&snapshot, &harmed(0, 2)).expect("it is shown");

        assert_eq!((tile.level, &*tile.value), (Level::Bad, "0"));
        assert_eq!(tile.note, "2 may have run twice in the last hour");
    }

    #[tokio::test]
    async fn long_waits_need_attention() {
        let redlock = Redlock::embedded();
        let mut snapshot = redlock.snapshot();
        assert_eq!(waiting(&snapshot).level, Level::Good);
        let _held = redlock.lock("a").await.unwrap();
        let waits = redlock.lock("a").wait(Duration::from_secs(600));
        let task = tokio::spawn(async move { drop(waits.await) });
        while snapshot.waiting.is_empty() {
            tokio::task::yield_now().await;
            snapshot = redlock.snapshot();
        }
        task.abort();

        for (seconds, level) in [(59, Level::Good), (60, Level::Warn)] {
            let WaitingName { oldest, .. } = &mut snapshot.waiting[0];
            *oldest = Duration::from_secs(seconds);
            let tile = waiting(&snapshot);
            assert_eq!((tile.level, &*tile.value, tile.title), (level, "1", "request waits"));
        }
        assert_eq!(waiting(&snapshot).note, "in this process, the oldest for 1m");
    }

    fn job(run: &JobRun, name: &str, result: JobRunResult, lateness: u64, age: u64) -> ShownJob {
        let (started, lateness) =
            (UNIX_EPOCH + Duration::from_secs(100_000 - age), Duration::from_secs(lateness));
        let mut run = run.clone();
        (run.started, run.lateness, run.result) = (started, lateness, result);
        ShownJob {
            name: name.into(),
            running: None,
            running_beside: Vec::new(),
            control: JobControl::default(),
            last: Some(run),
        }
    }

    #[tokio::test]
    async fn failed_and_late_jobs_are_found() {
        let now = UNIX_EPOCH + Duration::from_secs(100_000);
        let run = sample_run().await;
        let fleet = [
            job(&run, "well", JobRunResult::Finished, 59, 10),
            job(&run, "late", JobRunResult::Finished, 60, 10),
            job(&run, "long ago", JobRunResult::Finished, 60, 3_600),
            job(&run, "failed", JobRunResult::TimedOut, 0, 7_200),
            job(&run, "begun", JobRunResult::Open, 0, 10),
        ];

        let troubles = troubles(&fleet, &[], now);

        let expected = json!([
            { "name": "failed", "kinds": [["failed", "timed out 2h ago"]] },
            { "name": "late", "kinds": [["late", "its last run began 1m late"]] },
        ]);
        assert_eq!(serde_json::to_value(&troubles).unwrap(), expected);
        let tile = jobs(Some(&FleetJobs::default()), 5, &troubles);
        assert_eq!((tile.level, &*tile.note), (Level::Warn, "1 failed, 1 late, 0 paused"));
    }

    /// A tick that is due and not begun, in each state of the job.
    #[tokio::test]
    async fn overdue_ticks_are_late() {
        let redlock = Redlock::embedded();
        let work = |_| async { Ok::<_, Infallible>(()) };
        let job = Job::new("report", Schedule::every(Duration::from_secs(3_600)), work);
        let scheduler = Scheduler::new(redlock).job(job).start().unwrap();
        let mut status = scheduler.jobs().remove(0);
        scheduler.shutdown(Duration::ZERO).await;
        let tick = UNIX_EPOCH + Duration::from_secs(100_000);
        (status.next_tick, status.state) = (Some(tick), JobState::WaitingForTick { at: tick });

        let late = |status: &JobStatus, seconds| {
            troubles(&[], std::slice::from_ref(status), tick + Duration::from_secs(seconds))
        };

        assert_eq!(late(&status, 9), []);
        let words = "due 10s ago, and not begun".to_owned();
        assert_eq!(late(&status, 10)[0].kinds, [(TroubleKind::Late, words)]);
        status.state = JobState::HeldBy { owner: None };
        assert_eq!(late(&status, 10), [], "another process runs it");
        status.finding = Some("it has two schedules".into());
        assert_eq!(late(&status, 10)[0].kinds[0].0, TroubleKind::Finding);
    }

    /// By a scheduler whose run lasts until a tick after it has passed.
    #[tokio::test]
    async fn missed_ticks_need_attention_for_an_hour() {
        let work = |_| async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            Ok::<_, Infallible>(())
        };
        let job = Job::new("report", Schedule::every(Duration::from_millis(20)), work);
        let scheduler = Scheduler::new(Redlock::embedded()).job(job).start().unwrap();
        let mut events = scheduler.events();
        while scheduler.jobs()[0].last_missed.is_none() {
            events.recv().await.unwrap();
        }
        let mut status = scheduler.jobs().remove(0);
        scheduler.shutdown(Duration::ZERO).await;
        status.next_tick = None;
        let tick = status.last_missed.clone().unwrap();
        let after = |seconds| {
            troubles(&[], std::slice::from_ref(&status), tick.found + Duration::from_secs(seconds))
        };

        let missed = after(3_599);

        let (kind, words) = &missed[0].kinds[0];
        assert_eq!((*kind, missed[0].kinds.len()), (TroubleKind::Missed, 1));
        // A busy machine can also start the work late.
        let why = format!("found 59m 59s ago: {}", tick.why);
        assert!(words.starts_with("missed ") && words.ends_with(&why), "{words}");
        let tile = jobs(Some(&FleetJobs::default()), 1, &missed);
        let note = "0 failed, 0 late, 0 paused, 1 missed a tick in the last hour";
        assert_eq!((tile.level, &*tile.note), (Level::Warn, note));
        assert_eq!(after(3_600), []);
    }
}
