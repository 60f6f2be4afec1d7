//! The names that a lock covers.

use std::{borrow::Cow, convert::Infallible, fmt, sync::Arc, time::Duration};

use crate::stripe::stripe;

/// One name, or a set of up to 16 names that are locked all or none.
///
/// A name has 1 to 512 bytes and no control characters. A set is sorted, without duplicates, so
/// that its order does not matter and overlapping sets cannot deadlock.
///
/// ```
/// # use redlock_core as tower_redlock;
/// use tower_redlock::Resource;
///
/// let transfer = Resource::new(["account:2", "account:1"])?;
/// assert_eq!(transfer.names().collect::<Vec<_>>(), ["account:1", "account:2"]);
/// assert!(Resource::new([""]).is_err());
/// # Ok::<(), redlock_core::resource::ResourceError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    names: ResourceNames,
    /// Whether it was made for a job, a leader, a once key or a slot, so that its name may be reserved.
    is_own: bool,
}

/// Prefixes of the crate's own locks, reserved because names often come from clients, which could
/// block a job, a leader, or work that is done once.
const RESERVED: [&str; 4] = [JOB, LEADER, ONCE, SLOT];
const JOB: &str = "job:";
const LEADER: &str = "leader:";
const ONCE: &str = "once:";
const SLOT: &str = "slot:";
/// The beginning of the name of a line of requests for any slot. The number of slots follows.
const ANY_SLOT: &str = "slot:*";

/// One name, the usual case, takes one allocation, and its stripe is known.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ResourceNames {
    One(Arc<str>, u16),
    Many(Arc<[Arc<str>]>),
}

impl ResourceNames {
    fn one(name: Arc<str>) -> Self {
        let stripe = stripe(&name);
        Self::One(name, stripe)
    }
}

impl Resource {
    /// Maximum length of a name, in bytes.
    pub const MAX_NAME_BYTES: usize = 512;
    /// Maximum number of names in one resource.
    pub const MAX_NAMES: usize = 16;
    /// Maximum number of slots of one name.
    pub const MAX_SLOTS: u32 = 256;

    /// Creates a resource with these names.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] if there is no name or more than 16, or if one is empty, longer than 512
    /// bytes, or has a control character.
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
            1..=Self::MAX_NAMES => {}
            count => return Err(ResourceError::TooManyNames { count }),
        }
        names.iter().try_for_each(|name| check(name))?;
        let names = match <[_; 1]>::try_from(names) {
            Ok([name]) => ResourceNames::one(name),
            Err(names) => ResourceNames::Many(names.into()),
        };
        Ok(Self { names, is_own: false })
    }

    /// Returns the names, sorted and without duplicates.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.shared_names().iter().map(|name| &**name)
    }

    /// Returns the resource that a running job locks, `job:<name>`. Locking it keeps the job from
    /// running.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] if `job:<name>` is not a valid name, or `name` is empty.
    ///
    /// ```
    /// # use redlock_core as tower_redlock;
    /// use tower_redlock::Resource;
    ///
    /// // `redlock.lock(Resource::of_job("report")?)` keeps the job from running. The plain name
    /// // "job:report", which may come from a client, is refused.
    /// assert_eq!(Resource::of_job("report")?.to_string(), "job:report");
    /// # Ok::<(), redlock_core::resource::ResourceError>(())
    /// ```
    pub fn of_job(name: &str) -> Result<Self, ResourceError> {
        Self::own(JOB, name)
    }

    /// Returns the resource that a leader holds, `leader:<name>`.
    ///
    /// # Errors
    ///
    /// As [`of_job`](Self::of_job).
    pub fn of_leader(name: &str) -> Result<Self, ResourceError> {
        Self::own(LEADER, name)
    }

    /// Returns the resource that is locked while work that is done once runs,
    /// `once:<key>`.
    ///
    /// # Errors
    ///
    /// As [`of_job`](Self::of_job).
    pub fn of_once(key: &str) -> Result<Self, ResourceError> {
        Self::own(ONCE, key)
    }

    /// Returns the lock of one slot of `name`, `slot:<number>:<name>`: see
    /// `LockOptions::slots`.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] if that is not a valid name, `name` is empty, or `number` is
    /// [`MAX_SLOTS`](Self::MAX_SLOTS) or more.
    ///
    /// ```
    /// # use redlock_core as tower_redlock;
    /// use tower_redlock::Resource;
    ///
    /// let slot = Resource::of_slot("export", 3)?;
    /// assert_eq!(slot.to_string(), "slot:3:export");
    /// assert_eq!(slot.slot(), Some((3, "export")));
    /// # Ok::<(), redlock_core::resource::ResourceError>(())
    /// ```
    pub fn of_slot(name: &str, number: u32) -> Result<Self, ResourceError> {
        if number >= Self::MAX_SLOTS {
            return Err(ResourceError::SlotNumber { number });
        }
        if name.is_empty() {
            return Err(ResourceError::EmptyName);
        }
        Self::own(SLOT, &format!("{number}:{name}"))
    }

    /// Returns the locks of the first `count` slots of a name, for waits until one of them is
    /// released. They are not locked together.
    #[doc(hidden)]
    pub fn of_slots(name: &str, count: u32) -> Self {
        let names = (0..count).map(|slot| format!("{SLOT}{slot}:{name}").into());
        Self { names: ResourceNames::Many(names.collect()), is_own: true }
    }

    /// Returns whether it is one of [`of_slots`](Self::of_slots).
    #[doc(hidden)]
    pub fn is_choice(&self) -> bool {
        self.is_own && matches!(self.names, ResourceNames::Many(_))
    }

    /// Returns the name of the line of requests for any of the first `count` slots of a name,
    /// `slot:*<count>:<name>`. No lock has it.
    #[doc(hidden)]
    pub fn of_any_slot(name: &str, count: u32) -> Self {
        let name = format!("{ANY_SLOT}{count}:{name}");
        Self { names: ResourceNames::one(name.into()), is_own: true }
    }

    /// Returns the name for the [lines](Self::of_any_slot) of all numbers of slots together,
    /// `slot:*:<name>`. No lock and no line has it.
    #[doc(hidden)]
    pub fn of_all_lines(name: &str) -> Self {
        let name = format!("{ANY_SLOT}:{name}");
        Self { names: ResourceNames::one(name.into()), is_own: true }
    }

    /// Returns the name whose slots a line of requests is for, if it is [one](Self::of_any_slot), or
    /// [all](Self::of_all_lines) of them.
    #[doc(hidden)]
    pub fn any_slot_of(line: &str) -> Option<&str> {
        Self::line_of(line).map(|(_, name)| name)
    }

    /// Returns the digits of the number of slots, none for all lines, and the name.
    fn line_of(line: &str) -> Option<(&str, &str)> {
        let (count, name) = line.strip_prefix(ANY_SLOT)?.split_once(':')?;
        let is_line = count.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty();
        is_line.then_some((count, name))
    }

    /// Returns the name of a lock or of a line of requests as people read it: `export, slot 3`,
    /// `export, any slot of 5`.
    #[doc(hidden)]
    pub fn display_name(name: &str) -> Cow<'_, str> {
        match (Self::slot_of(name), Self::line_of(name)) {
            (Some((slot, name)), _) => format!("{name}, slot {slot}").into(),
            (None, Some(("", name))) => format!("{name}, any slot").into(),
            (None, Some((count, name))) => format!("{name}, any slot of {count}").into(),
            (None, None) => name.into(),
        }
    }

    /// Returns the number of the slot and the name that it belongs to, if it is a [slot](Self::of_slot).
    pub fn slot(&self) -> Option<(u32, &str)> {
        match &self.names {
            ResourceNames::One(name, _) if self.is_own => Self::slot_of(name),
            _ => None,
        }
    }

    /// Returns the number of the slot and the name that it belongs to, if a lock's name is the name of
    /// a [slot](Self::of_slot).
    pub fn slot_of(name: &str) -> Option<(u32, &str)> {
        let (digits, name) = name.strip_prefix(SLOT)?.split_once(':')?;
        let number: u32 = digits.parse().ok()?;
        // A key may have any name: `slot:03:x` is another lock than slot 3.
        let is_slot = number < Self::MAX_SLOTS && number.to_string() == digits && !name.is_empty();
        is_slot.then_some((number, name))
    }

    /// Returns the resource that is locked while a job is paused, resumed or requested to run. No
    /// user can name it.
    #[doc(hidden)]
    pub fn of_control(job: &str) -> Self {
        Self::of_invalid(&format!("{JOB}{job}\u{1}control"))
    }

    fn own(prefix: &str, name: &str) -> Result<Self, ResourceError> {
        if name.is_empty() {
            return Err(ResourceError::EmptyName);
        }
        Ok(Self { is_own: true, ..Self::try_from([prefix, name].concat())? })
    }

    /// Returns whether it was made for a job, a leader, a once key or a slot.
    #[doc(hidden)]
    pub const fn is_own(&self) -> bool {
        self.is_own
    }

    /// Refuses reserved names.
    #[doc(hidden)]
    pub fn not_reserved(self) -> Result<Self, ResourceError> {
        let is_reserved = |prefix: &&&str| self.names().any(|name| name.starts_with(**prefix));
        match RESERVED.iter().find(is_reserved) {
            Some(prefix) if !self.is_own => Err(ResourceError::Reserved { prefix }),
            _ => Ok(self),
        }
    }

    /// Returns a resource that no user can name: `name` is empty, or has a control character.
    #[doc(hidden)]
    pub fn of_invalid(name: &str) -> Self {
        debug_assert!(check(name).is_err(), "{name:?} is valid");
        Self { names: ResourceNames::one(name.into()), is_own: false }
    }

    /// Returns the [stripes](crate::stripe) of the names, perhaps with duplicates.
    #[doc(hidden)]
    pub fn stripes(&self) -> impl Iterator<Item = usize> {
        let (one, many): (_, &[_]) = match &self.names {
            ResourceNames::One(_, stripe) => (Some(*stripe), &[]),
            ResourceNames::Many(names) => (None, names),
        };
        one.into_iter().chain(many.iter().map(|name| stripe(name))).map(usize::from)
    }

    /// Returns the names, which can be cloned without an allocation.
    #[doc(hidden)]
    pub fn shared_names(&self) -> &[Arc<str>] {
        match &self.names {
            ResourceNames::One(name, _) => std::slice::from_ref(name),
            ResourceNames::Many(names) => names,
        }
    }
}

fn check(name: &str) -> Result<(), ResourceError> {
    if name.is_empty() {
        return Err(ResourceError::EmptyName);
    }
    if name.len() > Resource::MAX_NAME_BYTES {
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
                Ok(Self { names: ResourceNames::one(Arc::from(name)), is_own: false })
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

macro_rules! several_names {
    ($([$($generics:tt)*] $names:ty),*) => {$(
        impl<$($generics)*> TryFrom<$names> for Resource {
            type Error = ResourceError;

            fn try_from(names: $names) -> Result<Self, ResourceError> {
                Self::new(names)
            }
        }
    )*};
}
several_names!([T: Into<Arc<str>>, const N: usize] [T; N], [T: Into<Arc<str>>] Vec<T>);

impl TryFrom<&Resource> for Resource {
    type Error = ResourceError;

    fn try_from(resource: &Resource) -> Result<Self, ResourceError> {
        Ok(resource.clone())
    }
}

/// Reason why there is no valid [`Resource`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceError {
    /// The set of names is empty.
    NoNames,
    /// More than 16 different names.
    TooManyNames {
        /// Their number.
        count: usize,
    },
    /// An empty name.
    EmptyName,
    /// A name longer than 512 bytes.
    NameTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A name with a control character, such as a line break.
    ControlCharacter {
        /// Its position in bytes.
        position: usize,
    },
    /// The number of a slot is too large; see [`Resource::MAX_SLOTS`].
    SlotNumber {
        /// The number.
        number: u32,
    },
    /// A reserved name; see [`Resource::of_job`], [`of_leader`](Resource::of_leader),
    /// [`of_once`](Resource::of_once) and [`of_slot`](Resource::of_slot).
    Reserved {
        /// Its reserved prefix.
        prefix: &'static str,
    },
    /// A request has an invalid key; the text has the reason.
    Key(Cow<'static, str>),
    /// A request has no key in the place that the text names.
    Missing(Cow<'static, str>),
    /// The service is set up such that requests have no key, or ask the manager of another set of nodes; the
    /// text says what to change.
    Setup(Cow<'static, str>),
    /// A request is for an unknown path or method.
    NotFound(Cow<'static, str>),
    /// A request's body was not read, as it has to be before the lock.
    Body(BodyFault),
}

/// Why a request's body was not read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyFault {
    /// It is larger than the limit.
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// It was not complete in time.
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// The bodies of waiting requests reached their limit.
    Crowded {
        /// The limit, in bytes:
        /// `RedlockBuilder::max_waiting_body_bytes`.
        limit: usize,
    },
    /// It failed with an error.
    Failed,
}

impl fmt::Display for BodyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => write!(f, "the body has more than {limit} bytes"),
            Self::TimedOut { limit } => write!(f, "the body took longer than {limit:?}"),
            Self::Crowded { .. } => f.write_str("too many requests wait with their bodies"),
            Self::Failed => f.write_str("the body did not come to its end"),
        }
    }
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNames => f.write_str("a resource needs at least one name"),
            Self::TooManyNames { count } => {
                write!(
                    f,
                    "a resource has at most {} names, this one has {count}",
                    Resource::MAX_NAMES
                )
            }
            Self::EmptyName => f.write_str("a resource's name is empty"),
            Self::NameTooLong { bytes } => write!(
                f,
                "a resource's name has at most {} bytes, this one has {bytes}",
                Resource::MAX_NAME_BYTES
            ),
            Self::ControlCharacter { position } => {
                write!(f, "a resource's name has a control character at byte {position}")
            }
            Self::SlotNumber { number } => write!(
                f,
                "slots are numbered from 0 to {}, this one is {number}",
                Resource::MAX_SLOTS - 1
            ),
            Self::Reserved { prefix } => write!(
                f,
                "a resource's name begins with {prefix}, as those of the library's own locks do: \
                 give it a prefix of its own"
            ),
            Self::Key(reason)
            | Self::Missing(reason)
            | Self::Setup(reason)
            | Self::NotFound(reason) => f.write_str(reason),
            Self::Body(fault) => fault.fmt(f),
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
    fn names_are_sorted_and_unique() {
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
    fn reserved_names_need_their_constructors() {
        let reserved = |name: &str| Resource::new(["a", name]).unwrap().not_reserved();
        for (own, name) in [
            (Resource::of_job("x"), "job:x"),
            (Resource::of_leader("x"), "leader:x"),
            (Resource::of_once("x"), "once:x"),
        ] {
            let own = own.unwrap();
            assert_eq!(own.to_string(), name);
            assert_eq!(own.clone().not_reserved(), Ok(own));
            assert!(matches!(reserved(name), Err(ResourceError::Reserved { .. })), "{name}");
        }

        assert!(reserved("jobs:x").is_ok());
        assert_eq!(Resource::of_job(""), Err(ResourceError::EmptyName));
    }

    #[test]
    fn slots_are_found_by_their_names() {
        for (name, slot, shown) in [
            ("slot:3:export", Some((3, "export")), "export, slot 3"),
            ("slot:255:a:b", Some((255, "a:b")), "a:b, slot 255"),
            ("slot:*:export", None, "export, any slot"),
            ("slot:*5:export", None, "export, any slot of 5"),
            ("slot:*x:export", None, "slot:*x:export"),
            ("slot:256:export", None, "slot:256:export"),
            ("slot:03:export", None, "slot:03:export"),
            ("slot:+3:export", None, "slot:+3:export"),
            ("slot:3:", None, "slot:3:"),
            ("slot:*:", None, "slot:*:"),
            ("export", None, "export"),
        ] {
            assert_eq!(Resource::slot_of(name), slot, "{name}");
            assert_eq!(Resource::display_name(name), shown);
        }

        for line in [Resource::of_any_slot("a:b", 5), Resource::of_all_lines("a:b")] {
            assert_eq!(Resource::any_slot_of(&line.to_string()), Some("a:b"));
        }
    }

    #[test]
    fn control_characters_are_refused() {
        for (name, position) in [("a\nb", 1), ("\u{0}", 0), ("ok\u{7f}", 2), ("ä\u{85}", 2)] {
            let error = Resource::try_from(name).unwrap_err();
            assert_eq!(error, ResourceError::ControlCharacter { position });
        }
        assert!(Resource::try_from("Kontó 42 / ≤").is_ok());
    }
}
