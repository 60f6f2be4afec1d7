//! The names that a key finds.

use std::{borrow::Cow, sync::Arc};

use crate::resource::{Resource, ResourceError};

/// The names of a request's resource, before their length is checked: a hash shortens a long one.
#[derive(Debug)]
pub enum Names<'r> {
    /// A single name, the usual case.
    One(Cow<'r, str>),
    Many(Vec<Cow<'r, str>>),
    /// A lock of this crate. With a prefix, or in a set of names, it becomes an ordinary name.
    Own(Resource),
}

impl<'r> Names<'r> {
    /// Converts the name of a lock of this crate to text.
    fn text(self) -> Self {
        match self {
            Self::Own(resource) => Self::of(resource.shared_names()),
            names => names,
        }
    }

    fn of(names: &[Arc<str>]) -> Self {
        let owned = |name: &Arc<str>| Cow::Owned(String::from(&**name));
        match names {
            [name] => Self::One(owned(name)),
            names => Self::Many(names.iter().map(owned).collect()),
        }
    }

    /// Changes each name.
    pub(super) fn map(self, change: impl Fn(Cow<'r, str>) -> Cow<'r, str>) -> Self {
        match self {
            Self::One(name) => Self::One(change(name)),
            Self::Many(names) => Self::Many(names.into_iter().map(change).collect()),
            Self::Own(_) => self.text().map(change),
        }
    }

    /// Changes each name, or fails at one.
    pub(super) fn try_map<E>(
        self,
        change: impl Fn(Cow<'r, str>) -> Result<Cow<'r, str>, E>,
    ) -> Result<Self, E> {
        Ok(match self {
            Self::One(name) => Self::One(change(name)?),
            Self::Many(names) => {
                Self::Many(names.into_iter().map(change).collect::<Result<_, _>>()?)
            }
            Self::Own(_) => return self.text().try_map(change),
        })
    }

    /// Combines the names of both sets.
    pub(super) fn and(self, others: Self) -> Self {
        let mut names = self.into_vec();
        names.append(&mut others.into_vec());
        Self::Many(names)
    }

    /// Returns the name, unless this is a set.
    pub(super) fn into_one(self) -> Option<Cow<'r, str>> {
        match self.text() {
            Self::One(name) => Some(name),
            _ => None,
        }
    }

    fn into_vec(self) -> Vec<Cow<'r, str>> {
        match self {
            Self::One(name) => vec![name],
            Self::Many(names) => names,
            Self::Own(_) => self.text().into_vec(),
        }
    }

    pub(super) fn into_resource(self) -> Result<Resource, ResourceError> {
        match self {
            Self::One(name) => Resource::try_from(name),
            Self::Many(names) => Resource::new(names),
            Self::Own(resource) => Ok(resource),
        }
    }
}

impl From<Resource> for Names<'_> {
    fn from(resource: Resource) -> Self {
        if resource.is_own() { Self::Own(resource) } else { Self::of(resource.shared_names()) }
    }
}
