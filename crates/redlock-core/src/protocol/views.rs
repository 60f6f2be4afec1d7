//! R14: one name, one server.
//!
//! The address of a node may move to a blank server (a container was replaced, a proxy failed over)
//! while the old one still serves connected clients. Both pass a probation with some clients, and
//! two quorums of the same *names* need not share a *server*. So each server stores, for every
//! other name of its set, the [`Incarnation`] that owns the name, and answers count together only if
//! their servers have the same [`View`]: the same owner of every name.
//!
//! 1. An *incarnation* is (epoch, run, nonce of the enrolment), compared in this order. An
//!    enrolment takes an epoch above all that are known for its name, and at least the time in
//!    seconds. The *owner* of a name is the greatest incarnation that a node was sent for it.
//! 2. A client sends every node the greatest incarnation that it knows of each other name. Nodes
//!    keep the maximum, so any client may send them, in any order.
//! 3. Acquires, raises, renewals, claims and records count only over q nodes with the same owner of
//!    every name, themselves included. A renewal counts from the latest moment since which such a
//!    quorum confirmed the key. A raise whose node changed since it granted is not accepted.
//! 4. A node leaves its probation one `max_ttl` after a client read that N−q+1 others vote and know
//!    the same owners. A later read that contradicts it begins the time anew.
//! 5. A node whose name has a greater owner is *displaced*: clients that know that owner do not
//!    count its vote, and resolve its name again. If the name still leads to it one `max_ttl`
//!    later, it is enrolled anew; if that does not last, the next wait is twice as long, up to 64
//!    times: a name that flaps slows only itself down.
//!
//! Why it holds: `docs/decisions/007-owners-by-epoch.md`; a model that searches for steps that
//! break it: `verify/model.md`.
//!
//! Until all nodes know of an enrolment, about a round trip, votes are split. A node that cannot
//! store the owners has no vote (`NamesDiffer`).
//!
//! Limits: with an odd N at most q−1 names may change at a time: from a move, or a server's
//! restart, until the new server votes and no client uses the former one. If more move, the set
//! stops rather than splits; only a quorum in probation begins anew, which is safe if its former
//! servers are gone. With an even N it is one name at a time; with N = 2 that stops the set until
//! the probation is over. With N = 1 no other node can know of it: such a set is not protected.

use std::{fmt, sync::Arc};

/// One enrolment of one run of one server under a name.
///
/// Of two incarnations under one name, the greater one owns the name. An enrolment takes a greater
/// epoch than any that is known for the name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation {
    /// Counts the enrolments under a name; from 1.
    pub epoch: u32,
    /// The run of the server process and the history of its data.
    pub id: u128,
    /// A random number of this enrolment.
    pub nonce: u64,
}

impl Incarnation {
    /// Parses the text that [`Display`](fmt::Display) writes: 8, 32 and 16 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let mut digits = |len: usize| parts.next().filter(|part| part.len() == len);
        let (epoch, id, nonce) = (digits(8)?, digits(32)?, digits(16)?);
        let incarnation = Self {
            epoch: u32::from_str_radix(epoch, 16).ok()?,
            id: u128::from_str_radix(id, 16).ok()?,
            nonce: u64::from_str_radix(nonce, 16).ok()?,
        };
        parts.next().is_none().then_some(incarnation)
    }
}

/// The form that is stored on the servers. The texts have the order of the incarnations.
impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x} {:032x} {:016x}", self.epoch, self.id, self.nonce)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The owner of each name by the node's index, as one server knows them, itself among them; `None`
/// where it knows of none.
pub type View = [Option<Incarnation>];

/// Returns whether answers under these views count together. A node without the restart guard keeps
/// no view (`None`); its answers count with all.
pub fn agree(a: Option<&Arc<View>>, b: Option<&Arc<View>>) -> bool {
    a.is_none() || b.is_none() || a == b
}

/// Returns the number of answers in a largest group under one view, and that view; `None` if no
/// answer has one.
pub fn largest_group<'a>(
    views: impl Iterator<Item = Option<&'a Arc<View>>> + Clone,
) -> (usize, Option<&'a Arc<View>>) {
    let with = |view: &'a Arc<View>| {
        (views.clone().filter(|other| agree(Some(view), *other)).count(), Some(view))
    };
    let groups = views.clone().flatten().map(with);
    groups.max_by_key(|(size, _)| *size).unwrap_or_else(|| (views.count(), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incarnation(epoch: u32, id: u128) -> Incarnation {
        Incarnation { epoch, id, nonce: 7 }
    }

    #[test]
    fn text_keeps_order_and_content() {
        let ordered = [
            incarnation(1, u128::MAX),
            incarnation(2, 1),
            Incarnation { epoch: 2, id: 2, nonce: 1 },
            Incarnation { epoch: 2, id: 2, nonce: 2 },
            incarnation(16, 0),
        ];

        for pair in ordered.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].to_string() < pair[1].to_string(), "{pair:?}");
        }
        for incarnation in ordered {
            assert_eq!(Incarnation::parse(&incarnation.to_string()), Some(incarnation));
        }
        for text in ["", "00000001", "1 2 3", &format!("{} 0", incarnation(1, 1))] {
            assert_eq!(Incarnation::parse(text), None, "{text}");
        }
    }

    #[test]
    fn stale_server_counts_alone() {
        let [old, new, b, c] = [(1, 1), (2, 2), (1, 3), (1, 4)].map(|(e, id)| incarnation(e, id));
        let view = |first| Arc::from([Some(first), Some(b), Some(c)]);
        let (of_old, of_new) = (view(old), view(new));
        let group = |views: [&Arc<View>; 3]| {
            let (size, view) = largest_group(views.into_iter().map(Some));
            (size, view.cloned())
        };

        assert_eq!(group([&of_new; 3]), (3, Some(of_new.clone())));
        assert_eq!(group([&of_old, &of_new, &of_new]), (2, Some(of_new.clone())));
        assert_eq!(group([&of_new, &of_old, &of_old]), (2, Some(of_old)));
    }

    /// The two servers know each other, and different owners of a third name.
    #[test]
    fn third_owners_have_to_agree() {
        let [a, b, c, later] = [(1, 1), (1, 2), (1, 3), (2, 4)].map(|(e, id)| incarnation(e, id));
        let view = |third| Arc::from([Some(a), Some(b), third]);
        for (third, is_equal) in [(Some(c), true), (Some(later), false), (None, false)] {
            assert_eq!(agree(Some(&view(Some(c))), Some(&view(third))), is_equal, "{third:?}");
        }
    }

    #[test]
    fn nodes_without_views_count_with_all() {
        let view = |id| Arc::from([Some(incarnation(1, id))]);
        let (a, b): (Arc<View>, Arc<View>) = (view(1), view(2));
        assert_eq!(largest_group([Some(&a), None, Some(&b)].into_iter()).0, 2);
        assert_eq!(largest_group([None, None].into_iter()), (2, None));
        assert_eq!(largest_group([].into_iter()), (0, None));
    }
}
