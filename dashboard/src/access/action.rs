//! What viewers may do, and what it is done to.

use std::borrow::Cow;

use tower_redlock::Resource;

/// Something that a viewer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Take a lock away from its holder.
    BreakLock,
    /// Request a run of a job.
    TriggerJob,
    /// Stop the run of a job that is under way.
    StopJob,
    /// Pause a job on the whole fleet.
    PauseJob,
    /// Resume a paused job.
    ResumeJob,
    /// Record a key of once as done.
    MarkDone,
    /// Remove the record of a key of once.
    ForgetKey,
}

impl Action {
    /// Each with its name in paths and events, and what it changes, in the order of the variants.
    pub(super) const EACH: [(Self, &'static str, Subject); 7] = [
        (Self::BreakLock, "break", Subject::Lock),
        (Self::TriggerJob, "trigger", Subject::Job),
        (Self::StopJob, "stop", Subject::Job),
        (Self::PauseJob, "pause", Subject::Job),
        (Self::ResumeJob, "resume", Subject::Job),
        (Self::MarkDone, "done", Subject::Key),
        (Self::ForgetKey, "forget", Subject::Key),
    ];

    pub(crate) const fn name(self) -> &'static str {
        Self::EACH[self as usize].1
    }

    pub(crate) const fn subject(self) -> Subject {
        Self::EACH[self as usize].2
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::EACH.into_iter().find(|(_, other, _)| *other == name).map(|(action, ..)| action)
    }
}

/// The kind of thing that an action changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Lock,
    Job,
    /// A key of once.
    Key,
}

impl Subject {
    /// Returns the parameter that names the subject.
    pub(crate) const fn param(self) -> &'static str {
        match self {
            Self::Lock | Self::Job => "name",
            Self::Key => "key",
        }
    }

    /// Returns the name of a subject as people read it.
    pub(crate) fn display_name(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::Lock => Resource::display_name(name),
            Self::Job | Self::Key => name.into(),
        }
    }

    /// Returns the page of the subject, and the page that the navigation shows as the current one for it.
    pub(crate) const fn page(self) -> (&'static str, &'static str) {
        match self {
            Self::Lock => ("lock", "locks"),
            Self::Job => ("job", "jobs"),
            Self::Key => ("once", "once"),
        }
    }
}

/// A set of actions.
///
/// ```
/// use tower_redlock_dashboard::{Access, Action, Actions};
///
/// let on_call = Access::Only(Actions::from_iter([Action::PauseJob, Action::ResumeJob]));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions(u8);

impl Actions {
    /// Returns whether the action is one of them.
    pub const fn contains(self, action: Action) -> bool {
        self.0 & (1 << action as u8) != 0
    }
}

impl FromIterator<Action> for Actions {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Self {
        Self(actions.into_iter().fold(0, |all, action| all | (1 << action as u8)))
    }
}
