//! The plan of failovers, determined by a seed.

use std::time::Duration;

use crate::servers::Name;
use tower_redlock_verify::random::Random;

/// The cause of a failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The directory is ordered to promote the replica.
    Order,
    /// The master is stopped, and continues after the promotion.
    Stop,
    /// The master is killed while its replica lags, so that the promoted server has forgotten locks.
    KillLagging,
    /// The master is killed, and starts again without data after the promotion.
    Kill,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Order, Self::Stop, Self::KillLagging, Self::Kill];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Order => "ordered",
            Self::Stop => "SIGSTOP",
            Self::KillLagging => "SIGKILL, replica lags",
            Self::Kill => "SIGKILL",
        }
    }
}

/// One failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) name: Name,
    pub(crate) kind: Kind,
    /// Time between the end of the previous failover and this one.
    pub(crate) pause: Duration,
    /// Time between the promotion and the return of the former master.
    pub(crate) away: Duration,
}

/// Failovers of which each begins while the previous one's server is in its probation.
pub(crate) type Step = Vec<Planned>;

/// One of this many pairs of failovers is within a probation.
const ONE_PAIR_OF: usize = 4;

/// Sentinel and Cluster take turns, with the same number of failovers of each kind. The seed
/// determines the times.
pub(crate) fn plan(seed: u64, failovers: usize) -> Vec<Step> {
    let mut random = Random::stream(seed, 0);
    let mut steps: Vec<Step> = Vec::new();
    for number in 0..failovers {
        let pair = number / 2;
        let name = if number.is_multiple_of(2) { Name::Sentinel } else { Name::Cluster };
        // Each kind meets each kind of the other name, alone and within a probation.
        let turn = pair + pair / Kind::ALL.len() + 2 * (name as usize);
        let planned = Planned {
            name,
            kind: Kind::ALL[turn % Kind::ALL.len()],
            pause: random.millis(0..1_000),
            away: random.millis(0..2_000),
        };
        match steps.last_mut() {
            Some(step) if name == Name::Cluster && pair % ONE_PAIR_OF == 2 => step.push(planned),
            _ => steps.push(vec![planned]),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn seed_determines_the_plan() {
        assert_eq!(plan(7, 20), plan(7, 20));
        assert_ne!(plan(7, 20), plan(8, 20));
    }

    #[test]
    fn every_kind_is_as_frequent() {
        let mut counts = BTreeMap::new();
        for planned in plan(1, 96).concat() {
            *counts.entry((planned.name, planned.kind)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 8);
        assert!(counts.values().all(|&count| count == 12), "{counts:?}");
    }

    #[test]
    fn few_failovers_include_each_case() {
        let steps = plan(1, 6);
        assert_eq!(steps.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 1, 2]);
        // Two masters exist for seconds, which the control does not survive.
        assert_eq!((steps[0][0].name, steps[0][0].kind), (Name::Sentinel, Kind::Order));
    }

    #[test]
    fn pairs_have_all_kinds() {
        let steps = plan(1, 128);
        let pairs = steps.iter().filter(|step| step.len() == 2);
        let kinds: BTreeMap<_, _> = pairs.map(|pair| (pair[0].kind, pair[1].kind)).collect();
        assert_eq!(kinds.len(), Kind::ALL.len(), "{kinds:?}");
    }
}
