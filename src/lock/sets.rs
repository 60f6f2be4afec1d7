//! Several sets of nodes, each for a part of the names (R17).
//!
//! One set of servers decides about every lock on it, so beyond its rate more servers do not help.
//! Several sets do: each name belongs to one of them, and each set keeps every promise for its names. A
//! lock on names of two sets would need both, without a common end, so it is refused.
//!
//! All clients have to agree on the set of a name. It follows from the name, the number of the sets and
//! their order; so these are part of a set's identity, which its servers store (R7). Servers vote for one
//! set only: a client with another list of sets gets an error that names both, and no lock. A set takes
//! new or unused servers only while no server of the other sets shows another list. The manager of one set
//! refuses the names of others, which would else have a holder in each set.

use std::sync::Arc;

use super::{Redlock, builder::RedlockBuilder, core::Core, redlock::Sets, settings::Settings};
use crate::{
    error::{BuildError, LockError, SetNumber},
    events::Events,
    hash::{fnv, mix},
    node::redis::SetList,
    resource::{Resource, ResourceError},
    switches::{self, Switch},
};

impl Redlock {
    /// Builds a manager over several sets of nodes, of which each decides about a part of the names: for
    /// more locks per second than one set can grant. The builders differ in their nodes only.
    ///
    /// ```
    /// use tower_redlock::Redlock;
    ///
    /// let sets = [
    ///     ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"],
    ///     ["redis://10.0.1.1", "redis://10.0.1.2", "redis://10.0.1.3"],
    /// ];
    /// let redlock = Redlock::sharded(sets.map(|nodes| Redlock::builder().nodes(nodes)))?;
    /// # drop(redlock);
    /// # Ok::<(), tower_redlock::error::BuildError>(())
    /// ```
    ///
    /// Every promise holds within a set, and for each name. Locks, layers, jobs, leaders and work done
    /// once are used as over one set. While a set has no quorum, its names fail with
    /// [`LockError::NoQuorum`], and those of other sets do not.
    ///
    /// * **The set of a name** is `SplitMix64(FNV-1a(name)) mod n`. If the name has a part in braces that
    ///   is not empty, the first such part counts alone, so `stock:{7}` and `order:{7}` are in one set. A job has the set
    ///   of its name.
    /// * **A lock on several names** has to be within one set. Otherwise it is refused with
    ///   [`LockError::InvalidRequest`], which names the sets.
    /// * **All clients need the same list in the same order.** The servers store which of how many
    ///   sets they belong to, and refuse a client with another list, as one of another set.
    /// * **Another number of sets** moves names between sets. Stop all clients, and start them with the new
    ///   list: it takes its servers over after 1.25 times the `max_ttl` and 12 s, and they vote one `max_ttl` later. Records of work
    ///   done once and the histories of jobs stay on their servers, where they are not found.
    /// * **All sets together** are shown by [`health`](Self::health), [`nodes`](Self::nodes),
    ///   [`snapshot`](Self::snapshot), [`events`](Self::events) and the listings;
    ///   [`ready`](Self::ready) waits for every set, and [`readiness`](Self::readiness) is an error while
    ///   one is not ready. [`adopt`](Self::adopt) moves each set to the one with its number.
    ///
    /// # Errors
    ///
    /// [`BuildError::InvalidSetting`] without a builder, or if settings differ; and the errors of
    /// [`build`](RedlockBuilder::build).
    pub fn sharded(sets: impl IntoIterator<Item = RedlockBuilder>) -> Result<Self, BuildError> {
        let builders: Vec<_> = sets.into_iter().collect();
        let Ok(count) = u16::try_from(builders.len()) else {
            return Err(BuildError::setting("sets", format!("more than {}", u16::MAX)));
        };
        let events = Arc::<Events>::default();
        let mut first = None;
        for (i, builder) in builders.iter().enumerate() {
            let settings = builder.settings()?;
            let first = first.get_or_insert_with(|| settings.clone());
            // Sets may have nodes of different kinds.
            if *first != (Settings { key_clock: first.key_clock, ..settings }) {
                let reason = format!("the settings of set {} differ from those of set 1", i + 1);
                return Err(BuildError::setting("sets", reason));
            }
        }
        let of_servers = builders.iter().filter(|builder| !builder.servers.is_empty()).count();
        let list = Arc::new(SetList::new(of_servers));
        let build = |(number, builder): (u16, RedlockBuilder)| {
            let place = SetNumber::new(number, count);
            let place = (!switches::is_out(Switch::Place)).then_some(place);
            builder.build_with(place, Arc::clone(&events), Some(&list))
        };
        let each = (1..=count).zip(builders).map(build);
        let managers: Box<[_]> = each.collect::<Result<_, _>>()?;
        let Some(manager) = managers.first() else {
            return Err(BuildError::setting("sets", "there is none"));
        };
        let core = Arc::clone(manager.core());
        let nodes = managers.iter().flat_map(Redlock::nodes).map(Arc::clone).collect();
        Ok(Self::of_sets(core, Arc::new(Sets { managers, nodes })))
    }

    /// Returns the manager of each set, in their order; this one alone if it was not
    /// [`sharded`](Self::sharded). The nodes of a set follow those of the one before in
    /// [`nodes`](Self::nodes) and [`health`](Self::health).
    ///
    /// For figures of one set, such as whether it has a quorum. The manager of one set refuses the names of
    /// others with [`LockError::InvalidResource`], so lock through the whole.
    pub fn sets(&self) -> &[Self] {
        self.several().map_or(std::slice::from_ref(self), |sets| &sets.managers)
    }

    /// Returns the position in [`sets`](Self::sets) of the set that decides about a name, in the form that
    /// [`inspect`](Self::inspect), [`locks`](Self::locks) and [`snapshot`](Self::snapshot) have it: `invoice:42`;
    /// `job:` or `leader:` and the name; `once:` and the key; `slot:3:` or `slot:*5:` and the name. A job
    /// has the set of its lock. Asks no node.
    ///
    /// ```
    /// use tower_redlock::{Redlock, node::EmbeddedNodes};
    ///
    /// let sets = (0..2).map(|_| Redlock::builder().nodes_from(&EmbeddedNodes::new(3)));
    /// let redlock = Redlock::sharded(sets)?;
    /// let servers = redlock.sets()[redlock.set_index("stock:{7}")].health();
    /// assert_eq!(servers.len(), 3);
    /// assert_eq!(redlock.set_index("stock:{7}"), redlock.set_index("order:{7}"));
    /// # Ok::<(), tower_redlock::error::BuildError>(())
    /// ```
    pub fn set_index(&self, name: &str) -> usize {
        set_of(name, self.sets().len())
    }

    /// Returns the manager of the set of a name: of a lock, of a job, or of what the nodes store of one.
    pub(crate) fn set_of(&self, name: &str) -> &Self {
        &self.sets()[self.set_index(name)]
    }

    /// Returns the names by their sets, each with its position.
    pub(crate) fn by_set<'a>(
        &'a self,
        names: &'a [Arc<str>],
    ) -> impl Iterator<Item = (&'a Self, Vec<usize>)> {
        let sets = self.sets();
        (0..sets.len()).filter_map(move |set| {
            let is_in_set = |i: &usize| set_of(&names[*i], sets.len()) == set;
            let positions: Vec<_> = (0..names.len()).filter(is_in_set).collect();
            (!positions.is_empty()).then(|| (&sets[set], positions))
        })
    }

    /// Returns what all handles of the set of a resource share, and an error for names of several sets.
    pub(super) fn route(
        &self,
        resource: Result<Resource, LockError>,
    ) -> (Arc<Core>, Result<Resource, LockError>) {
        match resource.and_then(|resource| Ok((self.set_of_all(&resource)?, resource))) {
            Ok((set, resource)) => (Arc::clone(set.core()), Ok(resource)),
            Err(error) => (Arc::clone(self.core()), Err(error)),
        }
    }

    /// Returns the manager of the set of a resource.
    pub(super) fn set_of_all(&self, resource: &Resource) -> Result<&Self, LockError> {
        let Some(Sets { managers: sets, .. }) = self.several() else {
            resource.names().try_for_each(|name| self.check_set(name))?;
            return Ok(self);
        };
        let set = |name: &str| set_of(name, sets.len());
        let first = resource.names().next().unwrap_or_default();
        let Some(other) = resource.names().find(|name| set(name) != set(first)) else {
            return Ok(&sets[set(first)]);
        };
        let (a, b) = (set(first) + 1, set(other) + 1);
        let why = format!(
            "`{first}` is in set {a} of the nodes and `{other}` in set {b}, and a lock is within one set: give its names a common part in braces"
        );
        Err(LockError::InvalidRequest(why.into()))
    }

    /// Refuses a name of another set if this is the manager of one of several sets.
    pub(crate) fn check_set(&self, name: &str) -> Result<(), ResourceError> {
        let (None, Some(own)) = (self.several(), self.client().settings.place) else {
            return Ok(());
        };
        let set = set_of(name, own.count.into()) + 1;
        if set == usize::from(own.number) {
            return Ok(());
        }
        let name = name.split('\u{1}').next().unwrap_or_default();
        let why = format!(
            "`{name}` belongs to set {set} of {} of the nodes, and this is the manager of set {}: use the manager of all sets, which Redlock::sharded returned",
            own.count, own.number
        );
        Err(ResourceError::Setup(why.into()))
    }

    /// Returns the set of a node and its position there.
    pub(crate) fn locate(&self, node: usize) -> Option<(&Self, usize)> {
        let mut node = node;
        self.sets().iter().find_map(|set| {
            let nodes = set.nodes().len();
            let found = (node < nodes).then_some((set, node));
            node = node.wrapping_sub(nodes);
            found
        })
    }
}

/// Returns the set of a name, of `count` sets.
fn set_of(name: &str, count: usize) -> usize {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    usize::try_from(mix(fnv(deciding_part(name))) % count).unwrap_or(0)
}

/// Returns the part of a name that decides about its set: the same for all names of a job.
fn deciding_part(name: &str) -> &str {
    // What the nodes store of a job has a kind before its name.
    let kind = |stored: &'_ str| stored.find(':').map(|end| end + 1);
    let mut name = match name.strip_prefix('\u{1}') {
        Some(stored) => &stored[kind(stored).unwrap_or(0)..],
        None => name,
    };
    // A job's name may itself begin like the name of a lock.
    while let Some(inner) = without_prefix(name) {
        name = inner;
    }
    let name = name.split('\u{1}').next().unwrap_or_default();
    if switches::is_out(Switch::Braces) {
        return name;
    }
    let in_braces = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    in_braces.map(|(part, _)| part).filter(|part| !part.is_empty()).unwrap_or(name)
}

/// Returns the name after the prefix of a slot, of a line of requests, of a job or of a leader.
fn without_prefix(name: &str) -> Option<&str> {
    let own = || ["job:", "leader:"].into_iter().find_map(|prefix| name.strip_prefix(prefix));
    let slot = Resource::slot_of(name).map(|(_, of)| of);
    slot.or_else(|| Resource::any_slot_of(name)).or_else(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_job_have_one_set() {
        for job in ["report", "import:{7}", "slot:03:x", "slot:3:x", "job:a", "leader:job:a"] {
            let names = [
                format!("job:{job}"),
                format!("slot:3:job:{job}"),
                format!("job:{job}\u{1}control"),
                format!("\u{1}control:{job}"),
                format!("\u{1}history:{job}"),
            ];
            for name in &names {
                assert_eq!(deciding_part(name), deciding_part(job), "{name:?}");
            }
        }
    }

    #[test]
    fn part_in_braces_decides() {
        for (name, part) in [
            ("stock:{7}:x", "7"),
            ("a{b}{c}", "b"),
            ("a{}b", "a{}b"),
            ("a}b{c", "a}b{c"),
            ("once:{k}", "k"),
        ] {
            assert_eq!(deciding_part(name), part);
        }
    }

    #[test]
    fn sets_of_names_are_stable_and_even() {
        let mut counts = [0_u32; 3];
        for i in 0..30_000 {
            counts[set_of(&format!("account:{i}"), 3)] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        // Another result would split the locks of two versions of the library.
        let sets = ["a", "b", "account:42", "job:report"].map(|name| set_of(name, 5));
        assert_eq!(sets, [3, 0, 1, 4]);
    }
}
