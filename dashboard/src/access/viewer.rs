//! Viewers, and what they may do.

use std::sync::Arc;

use http::{HeaderValue, request::Parts};

/// What a viewer may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Nothing: every request is answered 403.
    #[default]
    Forbidden,
    /// See every page.
    ReadOnly,
    /// See every page, and these actions.
    Only(Actions),
    /// See every page, and every action.
    All,
}

impl Access {
    /// Returns a viewer with this access. The name is logged with each action.
    pub fn by(self, name: impl Into<Arc<str>>) -> Viewer {
        Viewer { name: Some(name.into()), ..self.into() }
    }

    pub(crate) const fn allows(self, action: Action) -> bool {
        match self {
            Self::Forbidden | Self::ReadOnly => false,
            Self::Only(actions) => actions.contains(action),
            Self::All => true,
        }
    }
}

/// Something that a viewer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Take a lock away from its holder.
    BreakLock,
    /// Request a run of a job.
    TriggerJob,
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
    pub(crate) const EACH: [Self; 6] = [
        Self::BreakLock,
        Self::TriggerJob,
        Self::PauseJob,
        Self::ResumeJob,
        Self::MarkDone,
        Self::ForgetKey,
    ];

    /// Its name in paths and in events.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::BreakLock => "break",
            Self::TriggerJob => "trigger",
            Self::PauseJob => "pause",
            Self::ResumeJob => "resume",
            Self::MarkDone => "done",
            Self::ForgetKey => "forget",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::EACH.into_iter().find(|action| action.name() == name)
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

/// The one who sent a request, with their access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Viewer {
    name: Option<Arc<str>>,
    access: Access,
    challenge: Option<HeaderValue>,
    reason: Option<Arc<str>>,
}

impl Viewer {
    /// A request without valid credentials, which is answered 401 with this `WWW-Authenticate`.
    pub const fn challenged(challenge: HeaderValue) -> Self {
        let challenge = Some(challenge);
        Self { name: None, access: Access::Forbidden, challenge, reason: None }
    }

    /// A viewer without access, to whom the page of status 403 says this.
    pub fn refused(reason: impl Into<Arc<str>>) -> Self {
        Self { reason: Some(reason.into()), ..Self::default() }
    }

    /// Returns the name that was given.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the access.
    pub const fn access(&self) -> Access {
        self.access
    }

    pub(crate) const fn challenge(&self) -> Option<&HeaderValue> {
        self.challenge.as_ref()
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub(crate) const fn may(&self, action: Action) -> bool {
        self.access.allows(action)
    }
}

impl From<Access> for Viewer {
    fn from(access: Access) -> Self {
        Self { access, ..Self::default() }
    }
}

/// Decides who may see and do what. Called once for each request, before anything else.
///
/// Closures that return a [`Viewer`] or an [`Access`] implement it, [`BasicAuth`](crate::BasicAuth), and what
/// [`by_extension`](crate::by_extension) and [`by_address`](crate::by_address) return.
pub trait Authorize: Send + Sync + 'static {
    /// Returns the viewer. It must not block.
    fn viewer(&self, request: &Parts) -> Viewer;
}

impl<F, V> Authorize for F
where
    F: Fn(&Parts) -> V + Send + Sync + 'static,
    V: Into<Viewer>,
{
    fn viewer(&self, request: &Parts) -> Viewer {
        self(request).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_allows_what_it_names() {
        let pause = Access::Only(Actions::from_iter([Action::PauseJob]));
        for action in Action::EACH {
            assert!(Access::All.allows(action));
            assert!(!Access::ReadOnly.allows(action) && !Access::Forbidden.allows(action));
            assert_eq!(pause.allows(action), action == Action::PauseJob);
            assert_eq!(Action::named(action.name()), Some(action));
        }
        assert_eq!(Action::named("locks"), None);
    }

    #[test]
    fn access_is_forbidden_by_default() {
        assert_eq!(Viewer::default().access(), Access::Forbidden);
        assert_eq!(Access::All.by("ann").name(), Some("ann"));
    }
}
