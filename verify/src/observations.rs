//! The observations of the workers' clients about their nodes, with their times.

use std::str::FromStr;

use tower_redlock::node::{NodeHealth, NodeState};

/// The state of one node as a client reports it, from a moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Place of the node in the set.
    pub node: usize,
    /// Its state.
    pub seen: Seen,
    /// Run of the server, `-` if it is unknown.
    pub run_id: String,
    /// Nanoseconds of the clock that all processes of the machine share.
    pub at: u64,
}

/// The observed states of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// There is no connection.
    Away,
    /// It is connected, and does not vote.
    Connected,
    /// It votes.
    Voting,
}

impl Observation {
    /// The state of a node at a time.
    pub fn of(node: usize, health: &NodeHealth, at: u64) -> Self {
        let seen = match health.state {
            NodeState::Voting => Seen::Voting,
            NodeState::Connecting | NodeState::Down { .. } => Seen::Away,
            _ => Seen::Connected,
        };
        let run_id = health.run_id.as_deref().unwrap_or("-").to_owned();
        Self { node, seen, run_id, at }
    }

    /// Returns whether the state or the run differs.
    pub fn is_other_than(&self, other: &Self) -> bool {
        (self.seen, &self.run_id) != (other.seen, &other.run_id)
    }

    /// Formats the observation as words without a line break.
    pub fn to_words(&self) -> String {
        let seen = match self.seen {
            Seen::Away => "away",
            Seen::Connected => "connected",
            Seen::Voting => "voting",
        };
        format!("{} {seen} {} {}", self.node, self.run_id, self.at)
    }

    /// Parses an observation; `None` if the words are not one.
    pub fn from_words(words: &str) -> Option<Self> {
        let mut words = words.split(' ');
        let node = next(&mut words)?;
        let seen = match words.next()? {
            "away" => Seen::Away,
            "connected" => Seen::Connected,
            "voting" => Seen::Voting,
            _ => return None,
        };
        let run_id = words.next()?.to_owned();
        let at = next(&mut words)?;
        words.next().is_none().then_some(Self { node, seen, run_id, at })
    }
}

fn next<'a, T: FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Option<T> {
    words.next()?.parse().ok()
}

/// The latest observations of all workers.
#[derive(Debug)]
pub struct Observations {
    /// The latest observation by worker and by node, and the time since which it is connected to
    /// that server.
    latest: Vec<Vec<Option<(Observation, u64)>>>,
}

impl Observations {
    /// Knows nothing of these workers' nodes yet.
    pub fn new(workers: usize, nodes: usize) -> Self {
        Self { latest: vec![vec![None; nodes]; workers] }
    }

    /// Records an observation of a worker.
    pub fn take(&mut self, worker: usize, observation: Observation) {
        let slot = &mut self.latest[worker][observation.node];
        let since = match slot {
            Some((before, since))
                if before.seen != Seen::Away && before.run_id == observation.run_id =>
            {
                *since
            }
            _ => observation.at,
        };
        *slot = Some((observation, since));
    }

    /// Returns whether all nodes vote from the view of all workers.
    pub fn all_vote(&self) -> bool {
        let mut all = self.latest.iter().flatten();
        all.all(|slot| {
            slot.as_ref().is_some_and(|(observation, _)| observation.seen == Seen::Voting)
        })
    }

    /// Returns the time since which all workers are connected to this run of a node's server.
    pub fn connected(&self, node: usize, run_id: &str) -> Option<u64> {
        self.since(
            node,
            |observation| observation.seen != Seen::Away && observation.run_id == run_id,
            |slot| slot.1,
        )
    }

    /// Returns the time since which it votes for all workers.
    pub fn voting(&self, node: usize, run_id: &str) -> Option<u64> {
        let is_voting = |observation: &Observation| {
            observation.seen == Seen::Voting && observation.run_id == run_id
        };
        self.since(node, is_voting, |slot| slot.0.at)
    }

    fn since(
        &self,
        node: usize,
        is: impl Fn(&Observation) -> bool,
        at: impl Fn(&(Observation, u64)) -> u64,
    ) -> Option<u64> {
        let mut latest = 0;
        for worker in &self.latest {
            let slot = worker[node].as_ref().filter(|slot| is(&slot.0))?;
            latest = latest.max(at(slot));
        }
        Some(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observations(told: &[(usize, &str)]) -> Observations {
        let mut observations = Observations::new(2, 1);
        for (worker, words) in told {
            let observation = Observation::from_words(words).expect("an observation");
            observations.take(*worker, observation);
        }
        observations
    }

    #[test]
    fn observation_round_trips_through_text() {
        for words in ["0 away - 3", "2 voting abc 17", "1 connected abc 17"] {
            assert_eq!(Observation::from_words(words).expect("an observation").to_words(), words);
        }
        for words in ["", "0 lost - 3", "0 away - 3 4", "x away - 3"] {
            assert_eq!(Observation::from_words(words), None, "{words}");
        }
    }

    #[test]
    fn latest_worker_counts() {
        let mut told = vec![(0, "0 connected b 5"), (1, "0 voting a 6")];

        assert_eq!(observations(&told).connected(0, "b"), None);

        told.extend([(1, "0 away a 7"), (1, "0 connected b 8"), (1, "0 voting b 9")]);
        assert_eq!(observations(&told).connected(0, "b"), Some(8));
        assert_eq!(observations(&told).voting(0, "b"), None);

        told.push((0, "0 voting b 12"));
        assert_eq!(
            (observations(&told).connected(0, "b"), observations(&told).voting(0, "b")),
            (Some(8), Some(12))
        );
        assert!(observations(&told).all_vote());
    }

    #[test]
    fn silent_worker_sees_no_vote() {
        assert!(!observations(&[(0, "0 voting b 5")]).all_vote());
    }
}
