//! Lists of servers: their sets, and clients that divide the servers in another way than others do.

use super::scenario::Scenario;
use crate::rng::Rng;

/// A client's list of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// All servers, without sets.
    Plain,
    /// A majority of the servers, without sets.
    Majority,
    /// The servers of the first group, without sets.
    First,
    /// The first groups, up to this number, as sets.
    Sets(usize),
    /// The same, where the first group is the last set.
    Rotated(usize),
}

/// A list that differs from the one with which the clients start, and who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// The last client, which starts with the faults.
    LastClient(List),
    /// All clients end and start again with it: the last one at one time, the others at another one,
    /// in ms.
    AllClients {
        /// The new list.
        list: List,
        /// The end of the others with the old list.
        others: u64,
        /// The end of the last client with the old list.
        last: u64,
    },
}

/// Names of locks over several sets. The first two are in one set, and the third one in another, of two
/// sets as of three.
pub(super) const NAMES: [&str; 3] = ["a{x}", "b{x}", "c"];

/// Names in the sets of the first and of the third of [`NAMES`], which are requested together only.
pub(super) const NEVER_SENT: [&str; 2] = ["never{x}", "never{c}"];

impl List {
    /// Returns whether its sets have places, such as "set 1 of 2".
    pub(super) fn has_places(self) -> bool {
        matches!(self, Self::Sets(_) | Self::Rotated(_))
    }
}

impl Scenario {
    /// Makes it a scenario of several sets, each with as many servers as the scenario had.
    pub(super) fn divide(mut self, rng: &mut Rng) -> Self {
        let sets = if rng.chance(67) { 2 } else { 3 };
        let size = self.servers;
        (self.servers, self.groups, self.list) = (size * sets, sets, List::Sets(sets));
        let lists = [
            List::Rotated(sets),
            List::Sets(sets - 1),
            List::Sets(sets + 1),
            List::Plain,
            List::First,
        ];
        let list = lists[rng.index(lists.len())];
        let has_others = rng.below(10);
        if has_others >= 4 && list == List::Sets(sets + 1) {
            // New servers.
            (self.servers, self.groups) = (size * (sets + 1), sets + 1);
        }
        match has_others {
            0..4 => {}
            4..7 => {
                self.clients = 3;
                self.other = Some(Other::LastClient(list));
            }
            _ => {
                let others = self.faults_from + rng.within(1_000, 4_000);
                let end = others + if rng.chance(50) { 0 } else { rng.within(0, 14_000) };
                // Servers are taken over while there are faults.
                self.faults_until += 16_000;
                self.apart = self.apart.min(3_000_000);
                self.other = Some(Other::AllClients { list, others, last: end });
            }
        }
        self
    }

    /// Returns the servers of each set of a list.
    pub(super) fn sets(&self, list: List) -> Vec<Vec<usize>> {
        let size = self.servers / self.groups;
        let group = |number: usize| (number * size..(number + 1) * size).collect::<Vec<_>>();
        match list {
            List::Plain => vec![(0..self.servers).collect()],
            List::Majority => vec![(0..=self.servers / 2).collect()],
            List::First => vec![group(0)],
            List::Sets(sets) => (0..sets).map(group).collect(),
            List::Rotated(sets) => (1..sets).chain([0]).map(group).collect(),
        }
    }

    /// Returns the list of a process that a client starts at this time, in ms.
    pub(super) fn list_of(&self, client: usize, at: u64) -> List {
        match self.other {
            Some(Other::LastClient(list)) if self.is_last(client) => list,
            Some(Other::AllClients { list, others, last })
                if at >= if self.is_last(client) { last } else { others } =>
            {
                list
            }
            _ => self.list,
        }
    }

    /// Returns the list of the clients after the faults, except a stray one.
    pub(super) fn final_list(&self) -> List {
        match self.other {
            Some(Other::AllClients { list, .. }) => list,
            _ => self.list,
        }
    }

    /// Returns whether a client has another list than all others.
    pub(super) fn is_stray(&self, client: usize) -> bool {
        matches!(self.other, Some(Other::LastClient(_))) && self.is_last(client)
    }

    /// Returns whether servers have to keep their data, as lists differ: a server that forgot its set
    /// joins that of the first client that finds it, and is of no use for one that has seen it in
    /// another set.
    pub(super) fn relies_on_data(&self) -> bool {
        self.list != List::Plain && self.other.is_some()
    }

    /// Returns the longest jump of a server's clock, in ms. Names that move to other servers keep no
    /// fence, so the clocks there must not be behind by more than the time of the move: 10 s.
    pub(super) fn longest_jump(&self) -> u64 {
        if matches!(self.other, Some(Other::AllClients { .. })) { 500 } else { u64::MAX }
    }

    pub(super) fn is_last(&self, client: usize) -> bool {
        client + 1 == self.clients
    }
}
