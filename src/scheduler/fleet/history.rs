//! The latest runs of a job, and their text on the nodes.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::super::{JobConflict, Outcome};
use crate::{
    error::LockError,
    lock::{Redlock, documents},
    protocol::{JobDocument, TickRun},
    quorum::claims::LatestClaim,
    schedule::WallTime,
};

/// A run of a job on any replica of the fleet, as the servers keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JobRun {
    /// Its tick; for a run that was triggered, the time at which that began.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub tick: SystemTime,
    /// The number of the request, if it was triggered: see [`JobEvent::trigger`](crate::scheduler::JobEvent).
    pub trigger: Option<u64>,
    /// Its start, by the clock of the replica that ran it: when it claimed the tick.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub started: SystemTime,
    /// Its end, by the same clock; `None` if that is not known.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub ended: Option<SystemTime>,
    /// How it ended.
    pub result: JobRunResult,
    /// The [`owner`](crate::RedlockBuilder::owner) that ran it.
    pub owner: Arc<str>,
    /// The number of its last attempt at the tick, from 1.
    pub attempt: u32,
    /// Time from the scheduled start to its start.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub lateness: Duration,
    /// The first line of the error, the panic's message, or the cause of the loss: at most 120 bytes. It
    /// may be missing in old runs, as all runs of a job share 4 KiB.
    pub error: Option<Arc<str>>,
}

/// How a run of a fleet's job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "config", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum JobRunResult {
    /// The work succeeded.
    Finished,
    /// The work failed, retries included.
    Failed,
    /// The work panicked.
    Panicked,
    /// The lock was lost.
    Lost,
    /// It took longer than [`max_run`](crate::Job::max_run).
    TimedOut,
    /// It was stopped, or stopped on request.
    Stopped,
    /// The work was [not done](crate::scheduler::NotDone), and is run again.
    NotDone,
    /// It did not end: its replica crashed, or could not store the end. Found by the replica that reports it.
    Interrupted,
    /// It did not run: another program has run its tick under the job's name. See
    /// [`TickOutcome::Conflict`](crate::scheduler::TickOutcome).
    Conflict,
    /// A run that was triggered, or of a [parallel](crate::Job::parallel) job, has begun. It is in progress,
    /// or was interrupted and no replica has found it yet.
    Open,
}

/// Each result as nodes store it.
const RESULTS: [(JobRunResult, &str); 10] = [
    (JobRunResult::Finished, "f"),
    (JobRunResult::Failed, "e"),
    (JobRunResult::Panicked, "p"),
    (JobRunResult::Lost, "l"),
    (JobRunResult::TimedOut, "t"),
    (JobRunResult::Stopped, "s"),
    (JobRunResult::NotDone, "n"),
    (JobRunResult::Interrupted, "b"),
    (JobRunResult::Open, "o"),
    (JobRunResult::Conflict, "c"),
];

impl JobRun {
    /// Maximum length of an error, in bytes.
    const MAX_ERROR_BYTES: usize = 120;

    /// The run of a tick, from its claim to its end.
    pub(in super::super) fn of_tick(run: &TickRun, owner: Arc<str>) -> Self {
        Self {
            tick: WallTime::since_epoch(run.tick).into(),
            trigger: None,
            started: WallTime::since_epoch(run.since).into(),
            ended: None,
            result: JobRunResult::Interrupted,
            owner,
            attempt: run.attempt,
            lateness: run.since.saturating_sub(run.tick),
            error: None,
        }
    }

    /// A tick that did not run, as another program has run it.
    pub(in super::super) fn conflict(
        tick: WallTime,
        now: WallTime,
        owner: Arc<str>,
        conflict: &JobConflict,
    ) -> Self {
        let error = first_line(&conflict.to_string());
        let since = |time: WallTime| Duration::from_millis(time.as_millis());
        let run = TickRun::new(since(tick), 1, since(now));
        let (ended, result) = (Some(now.into()), JobRunResult::Conflict);
        Self { ended, result, error, ..Self::of_tick(&run, owner) }
    }

    /// Sets the end of the run.
    pub(in super::super) fn end(&mut self, outcome: &Outcome, at: WallTime, error: Option<&str>) {
        let cause;
        let (result, error) = match outcome {
            Outcome::Finished => (JobRunResult::Finished, None),
            Outcome::Failed { error } => (JobRunResult::Failed, Some(&**error)),
            Outcome::Panicked { message } => (JobRunResult::Panicked, Some(&**message)),
            Outcome::Lost { cause: lost } => {
                cause = lost.to_string();
                (JobRunResult::Lost, Some(&*cause))
            }
            Outcome::TimedOut { error } => (JobRunResult::TimedOut, error.as_deref()),
            Outcome::Stopped => (JobRunResult::Stopped, error),
            Outcome::NotDone { reason } => (JobRunResult::NotDone, Some(&**reason)),
        };
        debug_assert!(self.ended.is_none(), "a run ends once");
        (self.ended, self.result) = (Some(at.into()), result);
        self.error = error.and_then(first_line);
    }

    pub(in super::super) fn is_same(&self, other: &Self) -> bool {
        // Two hosts may begin attempts at one tick in one millisecond.
        (self.tick, self.started, self.trigger, &self.owner)
            == (other.tick, other.started, other.trigger, &other.owner)
    }

    const fn is_ended(&self) -> bool {
        !matches!(self.result, JobRunResult::Interrupted | JobRunResult::Open)
    }
}

/// The first line that is not empty, without control characters, cut at the maximum length.
fn first_line(error: &str) -> Option<Arc<str>> {
    let line = error.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line = line.replace(char::is_control, " ");
    let end =
        (0..=JobRun::MAX_ERROR_BYTES.min(line.len())).rev().find(|at| line.is_char_boundary(*at));
    Some(line[..end.unwrap_or(0)].into())
}

/// The latest runs of a job, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct JobRuns(Vec<JobRun>);

impl JobRuns {
    /// Maximum number of runs.
    pub(in super::super) const MAX: usize = 50;

    /// Reads them under the job's lock. From then on, no earlier token can store any.
    pub(in super::super) async fn read(
        redlock: &Redlock,
        job: &str,
        token: u64,
    ) -> Result<Self, LockError> {
        let text = documents::prepare(redlock, JobDocument::History, job, token).await?;
        Ok(Self::from_text(&text))
    }

    /// Stores them on a majority, under the token of the job's lock. `number`: of the store under it.
    pub(in super::super) async fn store(
        &self,
        redlock: &Redlock,
        job: &str,
        token: u64,
        number: u32,
    ) -> Result<(), LockError> {
        documents::store(redlock, JobDocument::History, job, token, number, self.to_text()).await
    }

    /// Adds a run, unless it is known already. An end replaces what was known of the run.
    pub(in super::super) fn add(&mut self, run: JobRun) {
        // Attempts may follow each other within a millisecond.
        let is_same_run = |known: &&mut JobRun| {
            known.is_same(&run) && (known.attempt == run.attempt || !known.is_ended())
        };
        match self.0.iter_mut().find(is_same_run) {
            Some(known) if run.is_ended() || known.result == JobRunResult::Open => *known = run,
            Some(_) => {}
            None => {
                let at = self.0.partition_point(|known| known.started <= run.started);
                self.0.insert(at, run);
                let over = self.0.len().saturating_sub(Self::MAX);
                self.0.drain(..over);
                debug_assert!(self.0.len() <= Self::MAX, "{} runs", self.0.len());
            }
        }
    }

    /// Returns whether a conflict about a tick is entered.
    pub(in super::super) fn has_conflict(&self, tick: WallTime) -> bool {
        let tick = SystemTime::from(tick);
        self.0.iter().any(|run| run.result == JobRunResult::Conflict && run.tick == tick)
    }

    /// Adds the latest run if it has not ended. Under the job's lock: it is not in progress. Returns what it
    /// has added.
    pub(in super::super) fn add_interrupted(
        &mut self,
        latest: Option<&LatestClaim>,
    ) -> Option<JobRun> {
        let LatestClaim { run, owner, .. } = latest.filter(|latest| latest.run.is_open())?;
        let at = |time| SystemTime::from(WallTime::since_epoch(time));
        let (tick, started) = (at(run.tick), at(run.since));
        let is_known = self.0.iter().any(|known| {
            let is_by = owner.as_ref().is_none_or(|owner| known.owner == *owner);
            (known.tick, known.started, known.trigger) == (tick, started, None) && is_by
        });
        if is_known {
            return None;
        }
        let owner = owner.clone().unwrap_or_else(|| "unknown".into());
        let added = JobRun::of_tick(run, owner);
        self.add(added.clone());
        Some(added)
    }

    /// Marks the open runs that are not in progress as interrupted, and returns them. Under the job's lock.
    pub(in super::super) fn break_off_open(
        &mut self,
        is_alive: impl Fn(&JobRun) -> bool,
    ) -> Vec<JobRun> {
        let is_broken_off = |run: &&mut JobRun| run.result == JobRunResult::Open && !is_alive(run);
        let open = self.0.iter_mut().filter(is_broken_off);
        open.map(|run| {
            run.result = JobRunResult::Interrupted;
            run.clone()
        })
        .collect()
    }

    pub(super) fn into_runs(self) -> Vec<JobRun> {
        self.0
    }

    /// Writes them as nodes store them, in at most [`JobDocument::MAX_BYTES`]: without errors of the oldest
    /// runs, and at last without the oldest runs, if they are longer.
    pub(super) fn to_text(&self) -> Arc<str> {
        let mut runs = self.0.clone();
        loop {
            let text = write(&runs);
            if text.len() <= JobDocument::MAX_BYTES {
                return text.into();
            }
            match runs.iter_mut().find(|run| run.error.is_some()) {
                Some(run) => run.error = None,
                None => drop(runs.remove(0)),
            }
        }
    }

    /// Reads what nodes store. Lines that a later version added, or that are damaged, are ignored.
    pub(in super::super) fn from_text(text: &str) -> Self {
        let mut owners = Vec::<Arc<str>>::new();
        let mut runs = Vec::new();
        for line in text.split('\n') {
            match line.split_once(' ') {
                Some(("o", owner)) => owners.push(owner.into()),
                Some(("r", run)) => runs.extend(read_line(run, &owners)),
                _ => {}
            }
        }
        Self(runs)
    }
}

/// Writes a line for each owner, and then for each run: tick and start (ms since the epoch), duration (ms;
/// `-`: no end), result, attempt, lateness (ms), number of the trigger (0: none), index of the owner, error.
fn write(runs: &[JobRun]) -> String {
    let mut owners: Vec<&Arc<str>> = runs.iter().map(|run| &run.owner).collect();
    owners.sort_unstable();
    owners.dedup();
    let mut text = String::from("1\n");
    // Writing into memory does not fail.
    for owner in &owners {
        let _ = writeln!(text, "o {owner}");
    }
    let millis = |time| WallTime::from(time).as_millis();
    for run in runs {
        let (tick, started) = (millis(run.tick), millis(run.started));
        let _ = write!(text, "r {tick} {started} ");
        let _ = match run.ended.map(millis) {
            Some(ended) => write!(text, "{} ", ended.saturating_sub(started)),
            None => write!(text, "- "),
        };
        let result = RESULTS.iter().find(|(result, _)| *result == run.result);
        let owner = owners.binary_search(&&run.owner).unwrap_or(0);
        let _ = writeln!(
            text,
            "{} {} {} {} {owner} {}",
            result.map_or("?", |(_, letter)| letter),
            run.attempt,
            run.lateness.as_millis(),
            run.trigger.unwrap_or(0),
            run.error.as_deref().unwrap_or_default(),
        );
    }
    text
}

fn read_line(line: &str, owners: &[Arc<str>]) -> Option<JobRun> {
    let mut parts = line.splitn(9, ' ');
    let mut part = || parts.next();
    let tick = WallTime::from_millis(part()?.parse().ok()?);
    let started: u64 = part()?.parse().ok()?;
    let took: Option<u64> =
        Some(part()?).filter(|took| *took != "-").map(str::parse).transpose().ok()?;
    let letter = part()?;
    let result = RESULTS.iter().find(|(_, known)| *known == letter)?.0;
    let attempt = part()?.parse().ok()?;
    let lateness = Duration::from_millis(part()?.parse().ok()?);
    let trigger: u64 = part()?.parse().ok()?;
    let owner: usize = part()?.parse().ok()?;
    let error = part()?;
    Some(JobRun {
        tick: tick.into(),
        trigger: (trigger > 0).then_some(trigger),
        started: WallTime::from_millis(started).into(),
        ended: took.map(|took| WallTime::from_millis(started.saturating_add(took)).into()),
        result,
        owner: Arc::clone(owners.get(owner)?),
        attempt,
        lateness,
        error: (!error.is_empty()).then(|| error.into()),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> SystemTime {
        WallTime::from_millis(ms).into()
    }

    fn run(tick: u64, result: JobRunResult) -> JobRun {
        JobRun {
            tick: at(tick),
            trigger: None,
            started: at(tick + 3),
            ended: (!matches!(result, JobRunResult::Open | JobRunResult::Interrupted))
                .then(|| at(tick + 8)),
            result,
            owner: "svc 1".into(),
            attempt: 1,
            lateness: Duration::from_millis(3),
            error: None,
        }
    }

    fn runs() -> impl Strategy<Value = JobRun> {
        let times = (1..1_u64 << 40, 1..1_u64 << 40, proptest::option::of(0..1_u64 << 40));
        let error = proptest::option::of("(.|\\n){1,150}");
        (
            times,
            0..RESULTS.len(),
            "[a-c ]{1,9}",
            0..u32::MAX,
            proptest::option::of(1..u64::MAX),
            error,
        )
            .prop_map(|((tick, started, took), result, owner, attempt, trigger, error)| {
                JobRun {
                    tick: at(tick),
                    trigger,
                    started: at(started),
                    ended: took.map(|took| at(started + took)),
                    result: RESULTS[result].0,
                    owner: owner.into(),
                    attempt,
                    lateness: Duration::from_millis(tick),
                    error: error.as_deref().and_then(first_line),
                }
            })
    }

    proptest! {
        #[test]
        fn runs_survive_a_round_trip(runs in proptest::collection::vec(runs(), 0..15)) {
            let runs = JobRuns(runs);
            prop_assert_eq!(JobRuns::from_text(&runs.to_text()), runs);
        }
    }

    /// Stored text outlives the program that wrote it.
    #[test]
    fn text_form_is_stable() {
        let failed = JobRun { error: Some("no disk".into()), ..run(60_000, JobRunResult::Failed) };
        let open =
            JobRun { trigger: Some(9), owner: "b".into(), ..run(70_000, JobRunResult::Open) };
        let runs = JobRuns(vec![failed, open]);
        let text =
            "1\no b\no svc 1\nr 60000 60003 5 e 1 3 0 1 no disk\nr 70000 70003 - o 1 3 9 0 \n";
        assert_eq!((&*runs.to_text(), JobRuns::from_text(text)), (text, runs.clone()));
        assert_eq!(JobRuns::from_text(&format!("{text}x 1\nr 1 2\nr 1 1 1 ? 1 1 1 0 \n")), runs);
    }

    #[test]
    fn latest_fifty_are_kept() {
        let mut runs = JobRuns::default();
        for tick in 0..60 {
            runs.add(run(tick * 1_000, JobRunResult::Finished));
        }
        assert_eq!(runs.0.len(), JobRuns::MAX);
        assert_eq!((runs.0[0].tick, runs.0[49].tick), (at(10_000), at(59_000)));
        assert_eq!(JobRuns::from_text(&runs.to_text()), runs, "they fit");
    }

    #[test]
    fn longest_history_is_cut() {
        let mut runs = JobRuns::default();
        for tick in 0..50_u64 {
            let owner = format!("{tick:0>128}").into();
            let error = Some("x".repeat(JobRun::MAX_ERROR_BYTES).into());
            runs.add(JobRun { owner, error, ..run(tick * 1_000, JobRunResult::Failed) });
        }
        let text = runs.to_text();
        assert!(text.len() <= JobDocument::MAX_BYTES);
        let kept = JobRuns::from_text(&text);
        assert!(kept.0.len() > 15 && kept.0.last().unwrap().tick == at(49_000), "{}", kept.0.len());
    }

    #[test]
    fn errors_of_latest_runs_stay() {
        let mut runs = JobRuns::default();
        for tick in 0..50 {
            let error = first_line(&"e".repeat(500));
            runs.add(JobRun { error, ..run(tick * 1_000, JobRunResult::Failed) });
        }
        let kept = JobRuns::from_text(&runs.to_text());
        let with_error = kept.0.iter().filter(|run| run.error.is_some()).count();
        assert_eq!(kept.0.len(), 50);
        assert!(with_error >= 8 && kept.0[49].error.is_some(), "{with_error}");
    }

    #[test]
    fn end_replaces_interrupted_run() {
        let mut runs = JobRuns::default();
        runs.add(run(1_000, JobRunResult::Interrupted));
        runs.add(run(1_000, JobRunResult::Finished));
        runs.add(run(1_000, JobRunResult::Interrupted));
        assert_eq!(runs.0, [run(1_000, JobRunResult::Finished)]);
    }

    #[test]
    fn error_is_its_first_line() {
        assert_eq!(first_line("\n  no\tdisk \nat line 7").as_deref(), Some("no disk"));
        assert_eq!(first_line(" \n"), None);
        assert_eq!(first_line(&"ä".repeat(100)).unwrap().len(), JobRun::MAX_ERROR_BYTES);
    }
}
