use std::{borrow::Cow, sync::Arc};

use crate::resource::{Resource, ResourceError};

/// The names of a request's resource, before they are bounded: a hash may make a long one short.
#[derive(Debug)]
pub enum Names<'r> {
    /// By far the usual case.
    One(Cow<'r, str>),
    Many(Vec<Cow<'r, str>>),
}

impl<'r> Names<'r> {
    /// Changes each name.
    pub(super) fn map(self, change: impl Fn(Cow<'r, str>) -> Cow<'r, str>) -> Self {
        match self {
            Self::One(name) => Self::One(change(name)),
            Self::Many(names) => Self::Many(names.into_iter().map(change).collect()),
        }
    }

    /// Changes each name, or finds that one is none.
    pub(super) fn try_map<E>(
        self,
        change: impl Fn(Cow<'r, str>) -> Result<Cow<'r, str>, E>,
    ) -> Result<Self, E> {
        Ok(match self {
            Self::One(name) => Self::One(change(name)?),
            Self::Many(names) => {
                Self::Many(names.into_iter().map(change).collect::<Result<_, _>>()?)
            }
        })
    }

    /// Both sets' names.
    pub(super) fn and(self, others: Self) -> Self {
        let mut names = self.into_vec();
        names.append(&mut others.into_vec());
        Self::Many(names)
    }

    fn into_vec(self) -> Vec<Cow<'r, str>> {
        match self {
            Self::One(name) => vec![name],
            Self::Many(names) => names,
        }
    }

    pub(super) fn into_resource(self) -> Result<Resource, ResourceError> {
        match self {
            Self::One(name) => Resource::try_from(name),
            Self::Many(names) => Resource::new(names),
        }
    }
}

impl From<&Resource> for Names<'_> {
    fn from(resource: &Resource) -> Self {
        let owned = |name: &Arc<str>| Cow::Owned(String::from(&**name));
        match resource.shared_names() {
            [name] => Self::One(owned(name)),
            names => Self::Many(names.iter().map(owned).collect()),
        }
    }
}
