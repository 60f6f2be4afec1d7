//! Viewers and their access.

use std::sync::Arc;

use http::{HeaderValue, request::Parts};

use super::{Action, Actions};
use crate::text::{beginning, visible};

/// The access of a viewer.
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
        Viewer { name: Some(name.into()), admission: Admission::With(self) }
    }

    pub(crate) const fn allows(self, action: Action) -> bool {
        match self {
            Self::Forbidden | Self::ReadOnly => false,
            Self::Only(actions) => actions.contains(action),
            Self::All => true,
        }
    }
}

/// The sender of a request, with its access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Viewer {
    name: Option<Arc<str>>,
    admission: Admission,
}

/// How a request is let in, or why it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    With(Access),
    /// Status 401 with this `WWW-Authenticate`.
    Challenged(HeaderValue),
    /// Status 403 for this reason.
    Refused(Arc<str>),
}

impl Default for Admission {
    fn default() -> Self {
        Self::With(Access::Forbidden)
    }
}

/// The recorded name of a viewer that has none.
const ANONYMOUS: &str = "a viewer of the dashboard";
/// Maximum length of a name that is stored with a pause or a request, in bytes.
const MAX_NAME_BYTES: usize = 128;

impl Viewer {
    /// A request without valid credentials, which is answered 401 with this `WWW-Authenticate`.
    pub const fn challenged(challenge: HeaderValue) -> Self {
        Self { name: None, admission: Admission::Challenged(challenge) }
    }

    /// A viewer without access, to whom the page of status 403 says this.
    pub fn refused(reason: impl Into<Arc<str>>) -> Self {
        Self { name: None, admission: Admission::Refused(reason.into()) }
    }

    /// Returns the name that was given.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the access.
    pub const fn access(&self) -> Access {
        match self.admission {
            Admission::With(access) => access,
            Admission::Challenged(_) | Admission::Refused(_) => Access::Forbidden,
        }
    }

    pub(crate) const fn admission(&self) -> &Admission {
        &self.admission
    }

    pub(crate) const fn may(&self, action: Action) -> bool {
        self.access().allows(action)
    }

    /// Returns the name that is stored and logged with an action.
    pub(crate) fn recorded_name(&self) -> Arc<str> {
        let name = visible(self.name().unwrap_or_default().trim());
        match beginning(&name, MAX_NAME_BYTES) {
            "" => ANONYMOUS.into(),
            name => name.into(),
        }
    }
}

impl From<Access> for Viewer {
    fn from(access: Access) -> Self {
        Self { name: None, admission: Admission::With(access) }
    }
}

/// Decides what each viewer may see and do. Called once for each request, before anything else.
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
        for (action, ..) in Action::EACH {
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
        assert_eq!(Viewer::refused("closed").access(), Access::Forbidden);
    }

    #[test]
    fn names_fit_what_is_stored() {
        let name = |viewer: Viewer| viewer.recorded_name();
        assert_eq!(&*name(Access::All.by("ann")), "ann");
        assert_eq!(&*name(Access::All.by(" ")), ANONYMOUS);
        assert_eq!(&*name(Access::All.into()), ANONYMOUS);
        assert_eq!(*name(Access::All.by("é".repeat(100))), *"é".repeat(64));
        assert_eq!(&*name(Access::All.by("a\nb")), r"a\nb");
    }
}
