//! Conflicts between what replicas know of a job: their schedules, time zone databases and job lists.

use std::{fmt, sync::Arc, time::Duration};

use crate::{error::ServerText, time::Timestamp};

/// A difference between what this replica knows of a job and what another one has stored. Expected while a
/// new version is rolled out; otherwise a fault in how the replicas are set up.
///
/// A conflict is reported at its first sight, and when it is seen an hour later or more: at WARN, as a
/// [`JobEventKind::Conflict`](super::JobEventKind::Conflict), in [`JobStatus::finding`](super::JobStatus::finding) and in the metric
/// `redlock_job_conflicts_total`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobConflict {
    /// Two schedules are in use under one name, and keep ticks from each other.
    #[non_exhaustive]
    Schedule {
        /// The owner that uses the other one.
        by: Arc<str>,
        /// The other one, where it is known, in the form in which the servers keep it.
        other: Option<Arc<str>>,
    },
    /// Two programs run under one name, with the same schedule, and keep ticks from each other: see
    /// [`TickRequest::work_id`](super::TickRequest::work_id).
    #[non_exhaustive]
    Work {
        /// The owner that runs the other one.
        by: Arc<str>,
    },
    /// Programs with two versions of the time zone database run the job: around a change of law they compute
    /// different ticks, and a tick may run twice, or not at all.
    #[non_exhaustive]
    ZoneDatabase {
        /// The owner that uses the other one.
        by: Arc<str>,
        /// The version of this program.
        own: Arc<str>,
        /// The other version.
        other: Arc<str>,
    },
    /// The scheduler that leads under the name given to [`leader_only`](super::Scheduler::leader_only) does
    /// not have this job: the job runs nowhere while that scheduler leads.
    #[non_exhaustive]
    NotLed {
        /// The leader's owner name.
        by: Arc<str>,
        /// The name under which the schedulers campaign.
        leader: Arc<str>,
    },
}

/// Interval between reports of a conflict that lasts.
const REPORT_INTERVAL: Duration = Duration::from_secs(3_600);
/// Time after its last sight for which a conflict is shown: replicas see each other's claims at the ticks.
const SHOWN: Duration = Duration::from_secs(25 * 3_600);

/// The conflicts about a job that were reported.
#[derive(Debug, Default)]
pub(super) struct ConflictLog(Vec<ReportedConflict>);

#[derive(Debug)]
struct ReportedConflict {
    conflict: JobConflict,
    reported: Timestamp,
    seen: Timestamp,
}

impl ReportedConflict {
    fn is_recent(&self, now: Timestamp) -> bool {
        now.saturating_duration_since(self.seen) < SHOWN
    }
}

impl ConflictLog {
    /// A conflict that was seen lately.
    pub(super) fn recent(&self, now: Timestamp) -> Option<&JobConflict> {
        let mut known = self.0.iter();
        known.find(|known| known.is_recent(now)).map(|known| &known.conflict)
    }

    /// Records that a conflict was seen. Returns whether to report it.
    pub(super) fn note(&mut self, conflict: &JobConflict, now: Timestamp) -> bool {
        self.0.retain(|known| known.is_recent(now));
        let Some(known) = self.0.iter_mut().find(|known| known.conflict.is_same(conflict)) else {
            let conflict = conflict.clone();
            self.0.push(ReportedConflict { conflict, reported: now, seen: now });
            return true;
        };
        debug_assert!(known.reported <= known.seen, "a conflict is reported when it is seen");
        known.seen = now;
        let is_due = now.saturating_duration_since(known.reported) >= REPORT_INTERVAL;
        if is_due {
            known.reported = now;
        }
        is_due
    }

    /// The job runs here, or on the leader.
    pub(super) fn end_not_led(&mut self) {
        self.0.retain(|known| !matches!(known.conflict, JobConflict::NotLed { .. }));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl JobConflict {
    /// Returns the name of the kind: `schedule`, `work`, `zone_database`, `not_led`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Schedule { .. } => "schedule",
            Self::Work { .. } => "work",
            Self::ZoneDatabase { .. } => "zone_database",
            Self::NotLed { .. } => "not_led",
        }
    }

    /// Returns the owner name of the other replica.
    pub fn by(&self) -> &str {
        let (Self::Schedule { by, .. }
        | Self::Work { by }
        | Self::ZoneDatabase { by, .. }
        | Self::NotLed { by, .. }) = self;
        by
    }

    /// Whether it is the same conflict, seen with any replica.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Schedule { other, .. }, Self::Schedule { other: known, .. }) => other == known,
            (Self::ZoneDatabase { other, .. }, Self::ZoneDatabase { other: known, .. }) => {
                other == known
            }
            (Self::NotLed { .. }, Self::NotLed { .. }) | (Self::Work { .. }, Self::Work { .. }) => {
                true
            }
            _ => false,
        }
    }
}

impl fmt::Display for JobConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schedule { by, other } => {
                let by = ServerText(by);
                write!(
                    f,
                    "two schedules are in use under one job name, and keep ticks from each other: \
                     the other one is that of {by}"
                )?;
                if let Some(other) = other {
                    write!(f, " ({})", ServerText(other))?;
                }
                f.write_str(
                    "; expected while a new version is rolled out; otherwise give one of the jobs \
                     another name",
                )
            }
            Self::Work { by } => write!(
                f,
                "two programs run under one job name, and keep ticks from each other: the other one is \
                 that of {}; expected while a new version is rolled out; otherwise give one of the jobs \
                 another name",
                ServerText(by)
            ),
            Self::ZoneDatabase { by, own, other } => write!(
                f,
                "two versions of the time zone database are in use, {own} here and {} by {}: around a \
                 change of law a tick may run twice, or not at all; expected while a new version is \
                 rolled out; otherwise build all programs that run the job with the same version",
                ServerText(other),
                ServerText(by)
            ),
            Self::NotLed { by, leader } => write!(
                f,
                "the job runs nowhere: {} leads under the name {leader:?} and does not have this job; \
                 expected while a new version is rolled out; otherwise give leader_only of each service \
                 a name of its own",
                ServerText(by)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    fn other(text: &str, by: &str) -> JobConflict {
        JobConflict::Schedule { by: by.into(), other: Some(text.into()) }
    }

    #[test]
    fn conflict_is_reported_hourly() {
        let mut known = ConflictLog::default();
        let mut sees = |seconds, conflict: &JobConflict| known.note(conflict, at(seconds));

        assert!(sees(0, &other("a", "x")));
        assert!(!sees(60, &other("a", "y")), "the same one, by another replica");
        assert!(sees(60, &other("b", "x")), "another one");
        assert!(!sees(3_599, &other("a", "x")));
        assert!(sees(3_600, &other("a", "x")));
    }

    #[test]
    fn conflict_is_forgotten_unseen() {
        let mut known = ConflictLog::default();

        assert!(known.note(&other("a", "x"), at(0)));
        assert!(known.recent(at(89_999)).is_some() && known.recent(at(90_000)).is_none());
        assert!(known.note(&other("b", "x"), at(90_000)));
        assert_eq!(known.0.len(), 1);
    }
}
