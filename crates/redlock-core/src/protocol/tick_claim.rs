//! The claim of a job's tick.

use std::{sync::Arc, time::Duration};

use crate::token::TOKEN_LEAD;

/// The claim of a job's tick by the replica that starts it. Nodes store the latest claim of each
/// job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TickClaim {
    /// The fencing token of the job's lock under which it was claimed. Of two claims, the one with
    /// the greater token is the later one.
    pub token: u64,
    /// The sequence number among the claims with its token, from 0. The end of the run, or the
    /// restored previous claim, has a greater number than the claim itself.
    pub number: u32,
    /// The run.
    pub run: TickRun,
    /// The owner that claimed it.
    pub owner: Arc<str>,
    /// What counted before this claim, and counts again if the claim does not reach a majority.
    pub before: Option<FormerClaim>,
    /// The schedule of the job; `None` in a claim of an earlier version.
    pub schedule: Option<ScheduleMark>,
    /// What the replicas have reported of the job's ticks, and its latest run on demand.
    pub fates: TickFates,
    /// A document that is stored with the claim, not empty: see [`JobDocument`]. `None` in the
    /// claim of a tick; a claim with a document has no schedule.
    pub note: Option<Arc<str>>,
}

/// A document about a job, or about the jobs of a leader, which nodes store beside the claims: as
/// the [note](TickClaim::note) of a claim of its own, under a name that no job can have. So it is
/// stored on a majority, ordered by fencing tokens, and learnt by nodes that forgot, as claims are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobDocument {
    /// Whether the job is paused, and the requested runs.
    Control,
    /// The latest runs.
    History,
    /// The jobs of the scheduler that leads under a name.
    LeaderJobs,
}

impl JobDocument {
    /// Maximum length of a document, in bytes.
    pub const MAX_BYTES: usize = 4_096;

    /// Returns the name under which nodes store the document of a job, or of a leader. Control
    /// characters occur in no job's name.
    pub fn register(self, name: &str) -> Arc<str> {
        [self.prefix(), name].concat().into()
    }

    /// Returns the job whose document is stored under a name.
    #[doc(hidden)]
    pub fn job_of(register: &str) -> Option<&str> {
        let of_job = [Self::Control, Self::History];
        of_job.iter().find_map(|document| register.strip_prefix(document.prefix()))
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Control => "\u{1}control:",
            Self::History => "\u{1}history:",
            Self::LeaderJobs => "\u{1}leader:",
        }
    }
}

/// The run of a tick. Times are wall-clock times since the Unix epoch, in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TickRun {
    /// The tick; zero for a run on demand before the first tick.
    pub tick: Duration,
    /// The number of the attempt at the tick, from 1.
    pub attempt: u32,
    /// The time of the claim, by the clock of the replica that claimed it.
    pub since: Duration,
    /// Its end, by the same clock; `None` while it runs, and after a crash.
    pub ended: Option<Duration>,
}

/// What is known of a job beside its latest run. Each claim takes it over from the claim before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TickFates {
    /// The newest tick that was reported as missed, given up or interrupted; zero if there is none.
    /// Ticks up to this one do not run any more, and are not reported again.
    pub told: Duration,
    /// Time up to which the nodes had lost claims when a replica reported the ticks that were lost
    /// by that; zero if none did.
    pub lost_until: Duration,
    /// The token of the latest claim whose author reports ticks, once a majority stores it.
    pub told_under: u64,
    /// The latest run on demand.
    pub on_demand: Option<OnDemandRun>,
}

/// A run on demand. Its times count as in a [`TickRun`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OnDemandRun {
    /// Its start.
    pub since: Duration,
    /// Its end; `None` while it runs, and after a crash.
    pub ended: Option<Duration>,
}

/// The previous claim of a job, as a part of the claim that replaced it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FormerClaim {
    /// The run.
    pub run: TickRun,
    /// The owner that claimed it; `None` if that is not known.
    pub owner: Option<Arc<str>>,
    /// The schedule of the job; `None` if that is not known.
    pub schedule: Option<ScheduleMark>,
    /// What was reported of the job's ticks then.
    pub fates: TickFates,
}

impl From<TickRun> for FormerClaim {
    /// A claim of which only the run is known.
    fn from(run: TickRun) -> Self {
        Self { run, owner: None, schedule: None, fates: TickFates::default() }
    }
}

/// The schedule of a job, as stored by nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScheduleMark {
    /// A hash of the schedule, and of what runs at its ticks where the program says that. Above zero,
    /// equal in all processes and versions.
    pub fingerprint: u64,
    /// Time from which the job has it, in whole milliseconds since the Unix epoch. Earlier ticks do
    /// not belong to the job.
    pub since: Duration,
    /// The owner that gave it to the job.
    pub owner: Arc<str>,
    /// The text of the schedule; `None` in a claim of an earlier version, and if it is longer than [`MAX_TEXT_BYTES`](Self::MAX_TEXT_BYTES).
    pub text: Option<Arc<str>>,
    /// Version of the time zone database by which the author of the claim computes ticks; `None` if
    /// the ticks depend on no time zone.
    pub zones: Option<Arc<str>>,
}

impl TickClaim {
    /// Creates a claim, the first with its token.
    pub const fn new(
        token: u64,
        run: TickRun,
        owner: Arc<str>,
        before: Option<FormerClaim>,
    ) -> Self {
        let (told, lost_until) = (Duration::ZERO, Duration::ZERO);
        let fates = TickFates { told, lost_until, told_under: 0, on_demand: None };
        Self { token, number: 0, run, owner, before, schedule: None, fates, note: None }
    }

    /// Sets the [`number`](Self::number).
    #[must_use]
    pub fn numbered(self, number: u32) -> Self {
        Self { number, ..self }
    }

    /// Sets the schedule.
    #[must_use]
    pub fn by_schedule(self, schedule: ScheduleMark) -> Self {
        Self { schedule: Some(schedule), ..self }
    }

    /// Sets what was reported of the job's ticks.
    #[must_use]
    pub fn with_fates(self, fates: TickFates) -> Self {
        Self { fates, ..self }
    }

    /// Creates a claim that stores a document, which is not empty.
    pub fn of_document(token: u64, number: u32, owner: Arc<str>, document: Arc<str>) -> Self {
        let run = TickRun::new(Duration::ZERO, 1, Duration::ZERO);
        Self { note: Some(document), ..Self::new(token, run, owner, None).numbered(number) }
    }

    /// Returns whether this claim is later than `other` under the same token, so that a node that
    /// stores it refuses `other`.
    pub const fn supersedes(&self, other: &Self) -> bool {
        self.token == other.token && self.number > other.number
    }

    /// Returns the time up to which ticks count as started, as a majority of nodes lost its claims.
    /// `floor` is the floor of such a node for its fences, 60 s ahead of its clock at that time;
    /// zero stays zero.
    ///
    /// Nothing was claimed in the `max_ttl` before, the node's probation. So the result is right
    /// while clients' wall clocks are ahead of the nodes' by less than that.
    pub const fn assumed_run_before(floor: u64) -> Duration {
        Duration::from_millis(floor.saturating_sub(TOKEN_LEAD) / 1_000)
    }
}

impl TickRun {
    /// Creates a run that has not ended.
    pub const fn new(tick: Duration, attempt: u32, since: Duration) -> Self {
        Self { tick, attempt, since, ended: None }
    }

    /// Sets the end of the run.
    #[must_use]
    pub const fn ended(self, at: Duration) -> Self {
        Self { ended: Some(at), ..self }
    }

    /// Returns whether it is the run of a tick that has not ended.
    pub const fn is_open(&self) -> bool {
        !self.tick.is_zero() && self.ended.is_none()
    }
}

impl ScheduleMark {
    /// Adopts the start and the owner of the same schedule, if `stored` is not later.
    #[doc(hidden)]
    pub fn adopt(&mut self, stored: &Self) {
        if stored.since <= self.since {
            self.since = stored.since;
            self.owner = Arc::clone(&stored.owner);
        }
    }

    /// Returns whether both are the same schedule, whatever runs at its ticks.
    pub fn has_same_ticks(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint || (self.text.is_some() && self.text == other.text)
    }

    /// Creates the description of a schedule that a job has since `since`.
    pub const fn new(fingerprint: u64, since: Duration, owner: Arc<str>) -> Self {
        Self { fingerprint, since, owner, text: None, zones: None }
    }

    /// Maximum length of a stored text, in bytes.
    pub const MAX_TEXT_BYTES: usize = 512;

    /// Sets the [`text`](Self::text), unless it is too long or has line breaks, and the
    /// [`zones`](Self::zones).
    #[must_use]
    pub fn described(self, text: &str, zones: Option<&str>) -> Self {
        let fits = text.len() <= Self::MAX_TEXT_BYTES && !text.contains('\n');
        let text = fits.then(|| text.into());
        Self { text, zones: zones.map(Into::into), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(token: u64, number: u32) -> TickClaim {
        let run = TickRun::new(Duration::from_secs(1), 1, Duration::from_secs(2));
        TickClaim::new(token, run, "owner".into(), None).numbered(number)
    }

    #[test]
    fn greater_number_supersedes_under_token() {
        assert!(claim(7, 1).supersedes(&claim(7, 0)));
        assert!(!claim(7, 0).supersedes(&claim(7, 0)));
        assert!(!claim(7, 0).supersedes(&claim(7, 1)));
        assert!(!claim(8, 1).supersedes(&claim(7, 0)));
    }

    #[test]
    fn no_job_has_name_of_register() {
        let documents = [JobDocument::Control, JobDocument::History, JobDocument::LeaderJobs];

        for document in documents {
            let register = document.register("job");
            assert!(crate::resource::Resource::of_job(&register).is_err(), "{register:?}");
        }
        let mut registers = documents.map(|it| it.register("job")).to_vec();
        registers.sort_unstable();
        registers.dedup();

        assert_eq!(registers.len(), documents.len());
    }

    #[test]
    fn lost_claims_end_before_floor() {
        let at = Duration::from_secs(1_000);
        let micros = u64::try_from(at.as_micros()).unwrap();
        assert_eq!(TickClaim::assumed_run_before(micros + TOKEN_LEAD), at);
        assert_eq!(TickClaim::assumed_run_before(0), Duration::ZERO);
    }

    #[test]
    fn ended_or_tickless_run_is_closed() {
        let run = |tick| TickRun::new(Duration::from_secs(tick), 1, Duration::from_secs(2));
        assert!(run(1).is_open());
        assert!(!run(0).is_open() && !run(0).ended(Duration::from_secs(3)).is_open());
        assert!(!run(1).ended(Duration::from_secs(3)).is_open());
    }
}
