//! What a lock is taken on: one name, or a set of names taken all or none.

use std::{borrow::Cow, convert::Infallible, fmt, sync::Arc};

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 512;
/// The most names in one resource.
pub const MAX_NAMES: usize = 16;

/// One name, or a set of up to 16 names that are locked all or none.
///
/// A name has 1 to 512 bytes and no control characters. A set is sorted and freed of duplicates,
/// so that two clients that name the same things in different orders ask for the same resource,
/// and overlapping sets cannot deadlock.
///
/// ```
/// use tower_redlock::Resource;
///
/// let transfer = Resource::new(["account:2", "account:1"])?;
/// assert_eq!(transfer.names().collect::<Vec<_>>(), ["account:1", "account:2"]);
/// assert!(Resource::new([""]).is_err());
/// # Ok::<(), tower_redlock::ResourceError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    names: Names,
}

/// One name is by far the usual case, and then costs one allocation.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Names {
    One(Arc<str>),
    Many(Arc<[Arc<str>]>),
}

impl Resource {
    /// A resource of the given names.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] when there is no name, or more than 16, or one of them is empty, longer
    /// than 512 bytes, or contains a control character.
    pub fn new<I>(names: I) -> Result<Self, ResourceError>
    where
        I: IntoIterator,
        I::Item: Into<Arc<str>>,
    {
        let mut names: Vec<Arc<str>> = names.into_iter().map(Into::into).collect();
        names.sort_unstable();
        names.dedup();
        match names.len() {
            0 => return Err(ResourceError::NoNames),
            1..=MAX_NAMES => {}
            count => return Err(ResourceError::TooManyNames { count }),
        }
        names.iter().try_for_each(|name| check(name))?;
        let names = match <[_; 1]>::try_from(names) {
            Ok([name]) => Names::One(name),
            Err(names) => Names::Many(names.into()),
        };
        Ok(Self { names })
    }

    /// The names, sorted, without duplicates.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.shared_names().iter().map(|name| &**name)
    }

    /// A resource that no user can name, as no name is empty.
    pub(crate) fn unnamed() -> Self {
        Self { names: Names::One("".into()) }
    }

    pub(crate) fn shared_names(&self) -> &[Arc<str>] {
        match &self.names {
            Names::One(name) => std::slice::from_ref(name),
            Names::Many(names) => names,
        }
    }
}

fn check(name: &str) -> Result<(), ResourceError> {
    if name.is_empty() {
        return Err(ResourceError::EmptyName);
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(ResourceError::NameTooLong { bytes: name.len() });
    }
    match name.char_indices().find(|(_, c)| c.is_control()) {
        Some((position, _)) => Err(ResourceError::ControlCharacter { position }),
        None => Ok(()),
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.names().enumerate() {
            if i > 0 {
                f.write_str(" + ")?;
            }
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

macro_rules! one_name {
    ($($name:ty),*) => {$(
        impl TryFrom<$name> for Resource {
            type Error = ResourceError;

            fn try_from(name: $name) -> Result<Self, ResourceError> {
                check(&name)?;
                Ok(Self { names: Names::One(Arc::from(name)) })
            }
        }
    )*};
}
one_name!(&str, String, Arc<str>, Cow<'_, str>);

impl TryFrom<&String> for Resource {
    type Error = ResourceError;

    fn try_from(name: &String) -> Result<Self, ResourceError> {
        Self::try_from(name.as_str())
    }
}

impl<T: Into<Arc<str>>, const N: usize> TryFrom<[T; N]> for Resource {
    type Error = ResourceError;

    fn try_from(names: [T; N]) -> Result<Self, ResourceError> {
        Self::new(names)
    }
}

impl<T: Into<Arc<str>>> TryFrom<Vec<T>> for Resource {
    type Error = ResourceError;

    fn try_from(names: Vec<T>) -> Result<Self, ResourceError> {
        Self::new(names)
    }
}

impl TryFrom<&Resource> for Resource {
    type Error = ResourceError;

    fn try_from(resource: &Resource) -> Result<Self, ResourceError> {
        Ok(resource.clone())
    }
}

/// Why something is not a [`Resource`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceError {
    /// The set of names is empty.
    NoNames,
    /// More than 16 different names.
    TooManyNames {
        /// How many there were.
        count: usize,
    },
    /// A name without a single byte.
    EmptyName,
    /// A name longer than 512 bytes.
    NameTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A name with a control character (a line break, say).
    ControlCharacter {
        /// Where it stands, in bytes from the name's start.
        position: usize,
    },
    /// A request did not yield a key; the text says why.
    Key(Cow<'static, str>),
    /// A request has nothing where its key should be; the text says where.
    Missing(Cow<'static, str>),
    /// No request like this one can have a key, as the service is put together; the text says what
    /// to change.
    Setup(Cow<'static, str>),
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNames => f.write_str("a resource needs at least one name"),
            Self::TooManyNames { count } => {
                write!(f, "a resource has at most {MAX_NAMES} names, this one has {count}")
            }
            Self::EmptyName => f.write_str("a resource's name is empty"),
            Self::NameTooLong { bytes } => write!(
                f,
                "a resource's name has at most {MAX_NAME_BYTES} bytes, this one has {bytes}"
            ),
            Self::ControlCharacter { position } => {
                write!(f, "a resource's name has a control character at byte {position}")
            }
            Self::Key(reason) | Self::Missing(reason) | Self::Setup(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for ResourceError {}

impl From<Infallible> for ResourceError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_without_duplicates() {
        let resource = Resource::new(["b", "a", "b"]).unwrap();
        assert_eq!(resource.names().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(resource, Resource::new(["a", "b"]).unwrap());
        assert_eq!(resource.to_string(), "a + b");
    }

    #[test]
    fn limits_are_exact() {
        assert!(Resource::try_from("x".repeat(512)).is_ok());
        let too_long = Resource::try_from("x".repeat(513)).unwrap_err();
        assert_eq!(too_long, ResourceError::NameTooLong { bytes: 513 });
        let names = |count: usize| (0..count).map(|i| format!("n{i}")).collect::<Vec<_>>();
        assert!(Resource::new(names(16)).is_ok());
        let too_many = Resource::new(names(17)).unwrap_err();
        assert_eq!(too_many, ResourceError::TooManyNames { count: 17 });
        assert_eq!(Resource::new(names(0)).unwrap_err(), ResourceError::NoNames);
        assert_eq!(Resource::try_from("").unwrap_err(), ResourceError::EmptyName);
    }

    #[test]
    fn control_characters_are_refused() {
        for (name, position) in [("a\nb", 1), ("\u{0}", 0), ("ok\u{7f}", 2), ("ä\u{85}", 2)] {
            assert_eq!(
                Resource::try_from(name).unwrap_err(),
                ResourceError::ControlCharacter { position }
            );
        }
        assert!(Resource::try_from("Kontó 42 / ≤").is_ok());
    }
}
