//! Checks whether a history keeps the promises: one holder at a time (P1), and growing tokens (P5).

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use crate::history::{Hold, Moments};

/// Maximum number of violations of each kind that are shown.
const MAX_EXAMPLES: usize = 3;

/// Violations of the promises: pairs of positions in the history, the earlier hold first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Two holders believed to hold the same resource at the same time, and not both shared it.
    pub overlaps: Vec<(usize, usize)>,
    /// The second lease was requested after the first one had been granted, and its token is not
    /// greater; or the second is shared, the first is not, and its token is less.
    pub disorders: Vec<(usize, usize)>,
}

/// Returns the violations in a history, in any order of its holds.
pub fn check(holds: &[Hold]) -> Findings {
    let mut by_resource: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (position, hold) in holds.iter().enumerate() {
        by_resource.entry(&hold.resource).or_default().push(position);
    }
    let mut findings = Findings::default();
    for positions in by_resource.into_values() {
        find_overlaps(holds, positions.clone(), &mut findings.overlaps);
        find_disorders(holds, positions, &mut findings.disorders);
    }
    findings
}

/// Formats some of the violations.
pub fn examples(holds: &[Hold], findings: &Findings) -> Vec<String> {
    let origin = holds.iter().map(|hold| hold.asked).min().unwrap_or_default();
    let mut examples = Vec::new();
    for (kind, pairs) in [("overlap", &findings.overlaps), ("token", &findings.disorders)] {
        for &(first, second) in pairs.iter().take(MAX_EXAMPLES) {
            let (first, second) = (Moments(&holds[first], origin), Moments(&holds[second], origin));
            examples.push(format!("{kind}: {first} and {second}"));
        }
    }
    examples
}

/// Returns the number of leases in a history.
pub fn leases(holds: &[Hold]) -> usize {
    holds.iter().map(|hold| hold.lease).collect::<HashSet<_>>().len()
}

/// Returns the longest time between two grants of any of these holds, of which the second was after
/// `from` and the first before `until`.
pub fn longest_gap<'a>(
    holds: impl IntoIterator<Item = &'a Hold>,
    from: u64,
    until: u64,
) -> Duration {
    let mut grants: Vec<u64> = holds.into_iter().map(|hold| hold.acquired).collect();
    grants.sort_unstable();
    let pairs = grants.windows(2).filter(|pair| pair[1] > from && pair[0] < until);
    Duration::from_nanos(pairs.map(|pair| pair[1] - pair[0]).max().unwrap_or(0))
}

fn find_overlaps(holds: &[Hold], mut order: Vec<usize>, found: &mut Vec<(usize, usize)>) {
    order.sort_by_key(|&position| holds[position].from);
    // The holds that began before the current one and have not ended.
    let mut open: Vec<usize> = Vec::new();
    for position in order {
        let hold = &holds[position];
        open.retain(|&other| holds[other].until > hold.from);
        // A lock that was valid only for a moment overlaps no other hold.
        if hold.until > hold.from {
            let excludes =
                |other: &Hold| other.lease != hold.lease && !(other.is_shared && hold.is_shared);
            let others = open.iter().filter(|&&other| excludes(&holds[other]));
            found.extend(others.map(|&other| (other, position)));
            open.push(position);
        }
    }
}

fn find_disorders(holds: &[Hold], mut asked: Vec<usize>, found: &mut Vec<(usize, usize)>) {
    let mut granted = asked.clone();
    asked.sort_by_key(|&position| holds[position].asked);
    granted.sort_by_key(|&position| holds[position].acquired);
    let mut granted = granted.into_iter().peekable();
    // The largest token granted before this hold was requested, and its hold: of all, and of the
    // exclusive ones.
    let mut largest: Option<(u64, usize)> = None;
    let mut exclusive: Option<(u64, usize)> = None;
    for position in asked {
        let hold = &holds[position];
        while let Some(other) = granted.next_if(|&other| holds[other].acquired < hold.asked) {
            let granted = holds[other].token.map(|token| (token, other));
            largest = largest.max(granted);
            if !holds[other].is_shared {
                exclusive = exclusive.max(granted);
            }
        }
        let before = if hold.is_shared { exclusive } else { largest };
        if let (Some(token), Some((most, other))) = (hold.token, before)
            && token + u64::from(hold.is_shared) <= most
        {
            found.push((other, position));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Lease;

    /// A hold of `a` by a worker, requested 2 before `from` and granted 1 before it.
    fn hold(worker: usize, number: u64, from: u64, until: u64, token: u64) -> Hold {
        Hold {
            lease: Lease { worker, number },
            resource: "a".into(),
            is_shared: false,
            token: Some(token),
            asked: from - 2,
            acquired: from - 1,
            from,
            until,
        }
    }

    fn overlaps(holds: &[Hold]) -> Vec<(usize, usize)> {
        check(holds).overlaps
    }

    #[test]
    fn one_after_the_other_is_right() {
        let holds = [hold(0, 0, 10, 20, 1), hold(1, 0, 23, 30, 2), hold(0, 1, 33, 40, 3)];
        assert_eq!(check(&holds), Findings::default());
    }

    #[test]
    fn overlapping_pairs_are_found() {
        let long = hold(0, 0, 10, 100, 1);
        let (first, second) = (hold(1, 0, 20, 30, 2), hold(1, 1, 40, 50, 3));
        let (before, inside) = (hold(2, 0, 10, 20, 1), hold(2, 0, 19, 30, 2));
        let all = [hold(0, 0, 10, 20, 1), hold(1, 0, 12, 22, 2), hold(2, 0, 14, 24, 3)];
        for (case, holds, expected) in [
            ("touching holds", vec![before, first.clone()], vec![]),
            ("a hold inside another", vec![long.clone(), first.clone()], vec![(0, 1)]),
            ("the later hold first", vec![first.clone(), long.clone()], vec![(1, 0)]),
            ("a long hold", vec![long, first.clone(), second], vec![(0, 1), (0, 2)]),
            ("tasks of a worker", vec![first, hold(1, 2, 25, 40, 3)], vec![(0, 1)]),
            ("all pairs", all.to_vec(), vec![(0, 1), (0, 2), (1, 2)]),
            ("a momentary hold", vec![inside, hold(1, 0, 25, 25, 3)], vec![]),
        ] {
            assert_eq!(overlaps(&holds), expected, "{case}");
        }
    }

    #[test]
    fn stretches_of_lease_may_overlap() {
        let mut again = hold(0, 0, 15, 30, 1);
        (again.asked, again.acquired) = (8, 9);
        assert_eq!(check(&[hold(0, 0, 10, 20, 1), again]), Findings::default());
    }

    #[test]
    fn resources_are_independent() {
        let mut other = hold(1, 0, 15, 30, 1);
        other.resource = "b".into();
        assert_eq!(check(&[hold(0, 0, 10, 20, 2), other]), Findings::default());
    }

    #[test]
    fn smaller_or_equal_token_is_found() {
        for token in [4, 5] {
            let findings = check(&[hold(0, 0, 10, 20, 5), hold(1, 0, 30, 40, token)]);
            assert_eq!(findings, Findings { overlaps: vec![], disorders: vec![(0, 1)] });
        }
    }

    #[test]
    fn token_is_compared_with_all_earlier() {
        let holds = [hold(0, 0, 10, 20, 9), hold(1, 0, 30, 40, 10), hold(2, 0, 50, 60, 7)];
        assert_eq!(check(&holds).disorders, [(1, 2)]);
    }

    #[test]
    fn shared_holds_overlap_no_exclusive_one() {
        let share =
            |number, from, until| Hold { is_shared: true, ..hold(0, number, from, until, 5) };
        let holds = [share(0, 10, 30), share(1, 20, 40), hold(1, 2, 35, 50, 6)];
        assert_eq!(overlaps(&holds), [(1, 2)]);
    }

    #[test]
    fn shared_tokens_are_between_exclusive_ones() {
        let disorders = |one: u64, shared: u64, other: u64| {
            let shared =
                |number, from| Hold { is_shared: true, ..hold(0, number, from, from + 10, shared) };
            let holds =
                [hold(0, 0, 10, 20, one), shared(1, 30), shared(2, 50), hold(0, 3, 70, 80, other)];
            check(&holds).disorders
        };
        assert_eq!(disorders(5, 5, 6), []);
        assert_eq!(disorders(5, 4, 6), [(0, 1), (0, 2)]);
        assert_eq!(disorders(5, 6, 6), [(2, 3)]);
    }

    #[test]
    fn concurrent_requests_have_no_order() {
        let (first, mut second) = (hold(0, 0, 10, 20, 5), hold(1, 0, 30, 40, 4));
        second.asked = first.acquired;
        assert_eq!(check(&[first, second]).disorders, []);
    }

    #[test]
    fn a_momentary_hold_counts_for_tokens() {
        let holds = [hold(0, 0, 10, 10, 9), hold(1, 0, 30, 30, 8)];
        assert_eq!(check(&holds).disorders, [(0, 1)]);
    }

    #[test]
    fn without_tokens_there_is_no_order() {
        let mut holds = [hold(0, 0, 10, 20, 5), hold(1, 0, 30, 40, 4)];
        for hold in &mut holds {
            hold.token = None;
        }
        assert_eq!(check(&holds), Findings::default());
    }

    #[test]
    fn gaps_at_both_ends_count() {
        let grants = [10, 20, 25, 40, 90].map(|at| hold(0, at, at + 1, at + 2, at));
        let gap = |from, until| longest_gap(&grants, from, until).as_nanos();
        assert_eq!((gap(21, 24), gap(12, 24), gap(12, 30), gap(12, 41)), (5, 10, 15, 50));
        assert_eq!(longest_gap(&[], 0, 1), Duration::ZERO);
    }
}
