//! R14: one name, one server. Which servers own the node names.
//!
//! A name may lead to another server than before: its address moved, a container was replaced, a
//! proxy failed over. Each server stores, for every other name of its set, the [`Incarnation`] that
//! owns the name; of two, the greater one. Answers count together only if their servers have the same
//! [`View`]: the same owner of every name. So two quorums of the same names share a server.

use std::{fmt, sync::Arc};

/// One enrolment of one run of one server under a name.
///
/// Of two incarnations under one name, the greater one owns the name. An enrolment takes a greater
/// epoch than any that is known for the name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Incarnation {
    /// Counts the enrolments under a name; from 1.
    pub epoch: u32,
    /// The run of the server process and the history of its data.
    pub id: u128,
    /// A random number of this enrolment.
    pub nonce: u64,
}

impl Incarnation {
    /// Parses the text that [`Display`](fmt::Display) writes: 8, 32 and 16 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
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

/// What a server was, and what it took the others for, when it gave an answer.
///
/// The tag that a script compares stands for all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct View {
    /// The server itself.
    pub incarnation: Incarnation,
    /// The owner of each name, by the node's index; `None` where it knows of none, and at its own
    /// index.
    pub owners: Box<[Option<Incarnation>]>,
}

/// A node with the view under which it answered; `None` for a node that keeps no views, whose
/// answers count with all others.
pub(crate) type Member<'a> = (usize, Option<&'a Arc<View>>);

/// Whether the answers of two nodes count together: both know the same owner of every name, and each
/// is the one that the other knows.
pub(crate) fn agree(a: Member<'_>, b: Member<'_>) -> bool {
    let ((a, Some(of_a)), (b, Some(of_b))) = (a, b) else { return true };
    let owner = |name: usize, node: usize, view: &View| {
        if name == node { Some(view.incarnation) } else { view.owners[name] }
    };
    (0..of_a.owners.len()).all(|name| owner(name, a, of_a) == owner(name, b, of_b))
}

/// A largest group of `members` that all agree.
pub(crate) fn largest_group<'a>(members: &[Member<'a>]) -> Vec<Member<'a>> {
    let around = |one: &Member<'a>| -> Vec<Member<'a>> {
        members.iter().copied().filter(|other| agree(*one, *other)).collect()
    };
    let with_views = members.iter().filter(|member| member.1.is_some()).map(around);
    with_views.max_by_key(Vec::len).unwrap_or_else(|| members.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incarnation(epoch: u32, id: u128) -> Incarnation {
        Incarnation { epoch, id, nonce: 7 }
    }

    /// A server under the name of `node` that takes `owners` for the others.
    fn view(of: Incarnation, owners: &[Option<Incarnation>]) -> Arc<View> {
        Arc::new(View { incarnation: of, owners: owners.into() })
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
    fn stale_server_counts_with_nobody() {
        let [old, new, b, c] = [(1, 1), (2, 2), (1, 3), (1, 4)].map(|(e, id)| incarnation(e, id));
        let of_old = view(old, &[None, Some(b), Some(c)]);
        let of_new = view(new, &[None, Some(b), Some(c)]);
        let of_b = view(b, &[Some(new), None, Some(c)]);
        let of_c = view(c, &[Some(new), Some(b), None]);
        let with = |a: &Arc<View>| {
            let members = [(0, Some(a)), (1, Some(&of_b)), (2, Some(&of_c))];
            largest_group(&members).iter().map(|member| member.0).collect::<Vec<_>>()
        };
        assert_eq!(with(&of_new), [0, 1, 2]);
        assert_eq!(with(&of_old), [1, 2]);
        assert_eq!(largest_group(&[(0, Some(&of_old)), (1, Some(&of_b))]).len(), 1);
    }

    /// Each knows the other, but they know different owners of a third name.
    #[test]
    fn third_owners_have_to_agree() {
        let [a, b, c, later] = [(1, 1), (1, 2), (1, 3), (2, 4)].map(|(e, id)| incarnation(e, id));
        let of_a = view(a, &[None, Some(b), Some(c)]);
        for (third, is_equal) in [(Some(c), true), (Some(later), false), (None, false)] {
            let of_b = view(b, &[Some(a), None, third]);
            assert_eq!(agree((0, Some(&of_a)), (1, Some(&of_b))), is_equal, "{third:?}");
        }
    }

    #[test]
    fn nodes_without_views_count_with_all() {
        let (a, b) = (incarnation(1, 1), incarnation(1, 2));
        let (of_a, of_b) = (view(a, &[None, None, None]), view(b, &[Some(a), None, None]));
        let members = [(0, Some(&of_a)), (1, Some(&of_b)), (2, None)];
        assert_eq!(largest_group(&members).len(), 2);
        assert_eq!(largest_group(&[(0, None), (1, None)]).len(), 2);
        assert_eq!(largest_group(&[]), []);
    }

    #[test]
    fn largest_group_is_found_among_disagreements() {
        // 0 and 1 know the same owners, and so do 2, 3 and 4.
        let own: Vec<_> = (0..5).map(|i| incarnation(1, i)).collect();
        let groups = [vec![0, 1], vec![2, 3, 4]];
        let views: Vec<_> = (0..5)
            .map(|i| {
                let group = groups.iter().find(|group| group.contains(&i)).unwrap();
                let owner = |j| (j != i && group.contains(&j)).then(|| own[j]);
                view(own[i], &(0..5).map(owner).collect::<Vec<_>>())
            })
            .collect();
        let members: Vec<_> = views.iter().enumerate().map(|(i, view)| (i, Some(view))).collect();
        let found: Vec<_> = largest_group(&members).iter().map(|member| member.0).collect();
        assert_eq!(found, [2, 3, 4]);
    }
}
