//! The set of servers that a name belongs to, where there are several.

use std::fmt;

use tower_redlock::{Redlock, Resource, error::SetNumber};

use crate::access::Subject;

/// One of several sets of servers. [`Display`](fmt::Display) is `set 1 of 2`, as the servers store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetPlace {
    /// The position in [`Redlock::sets`].
    pub(crate) index: usize,
    place: SetNumber,
}

impl SetPlace {
    /// Returns `None` for the only set.
    pub(crate) fn nth(index: usize, count: usize) -> Option<Self> {
        debug_assert!(index < count, "set {index} of {count}");
        let place = SetNumber::new(u16::try_from(index + 1).ok()?, u16::try_from(count).ok()?);
        (count > 1).then_some(Self { index, place })
    }

    /// Returns the set of a lock, a job or a key of once; `None` if there is only one.
    pub(crate) fn of(redlock: &Redlock, subject: Subject, name: &str) -> Option<Self> {
        let count = redlock.sets().len();
        if count < 2 {
            return None;
        }
        let index = match subject {
            Subject::Lock => redlock.set_index(name),
            Subject::Job => {
                let lock = Resource::of_job(name).ok()?;
                redlock.set_index(lock.names().next()?)
            }
            Subject::Key => redlock.set_index(&format!("once:{name}")),
        };
        Self::nth(index, count)
    }

    /// Returns its number, from 1.
    pub(crate) const fn number(self) -> u16 {
        self.place.number
    }

    /// Returns its place on the page of the nodes.
    pub(crate) fn id(self) -> String {
        format!("set-{}", self.number())
    }

    /// Returns its heading.
    pub(crate) fn title(self) -> String {
        self.to_string().replacen('s', "S", 1)
    }
}

impl fmt::Display for SetPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

/// Returns the manager of each set, with its place if there are several.
pub(crate) fn each_set(redlock: &Redlock) -> impl Iterator<Item = (Option<SetPlace>, &Redlock)> {
    let sets = redlock.sets();
    sets.iter().enumerate().map(|(index, set)| (SetPlace::nth(index, sets.len()), set))
}

#[cfg(test)]
mod tests {
    use tower_redlock::node::EmbeddedNodes;

    use super::*;

    #[test]
    fn only_several_sets_have_places() {
        let embedded = || Redlock::builder().nodes_from(&EmbeddedNodes::new(3));
        let (one, two) =
            (embedded().build().unwrap(), Redlock::sharded([embedded(), embedded()]).unwrap());
        let kinds = [Subject::Lock, Subject::Job, Subject::Key];

        assert!(kinds.iter().all(|kind| SetPlace::of(&one, *kind, "a").is_none()));
        let mut places = Vec::new();
        for (name, kind) in
            ["a", "b", "c", "d"].into_iter().flat_map(|name| kinds.map(|kind| (name, kind)))
        {
            places.push(SetPlace::of(&two, kind, name).unwrap().to_string());
        }
        places.sort_unstable();
        places.dedup();
        assert_eq!(places, ["set 1 of 2", "set 2 of 2"]);
        assert_eq!(SetPlace::of(&two, Subject::Job, ""), None, "no job has this name");
        let line = SetPlace::of(&two, Subject::Lock, "slot:*:a");
        assert_eq!(line, SetPlace::of(&two, Subject::Lock, "slot:0:a"));
    }
}
