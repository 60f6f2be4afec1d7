//! How much memory the servers have.

use crate::{
    lock::core::Core,
    node::{Memory, NodeHealth},
    protocol::rules,
};

/// What a quorum of the servers has, in bytes; `u64::MAX` where that is without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerMemory {
    /// `maxmemory`.
    pub(super) limit: u64,
    /// What answers may still take, so that a quarter of `maxmemory` stays free.
    pub(super) room: u64,
}

impl ServerMemory {
    pub(super) const UNKNOWN: Self = Self { limit: u64::MAX, room: u64::MAX };

    /// As the last looks at the servers showed. Asks the nodes, so not to be called under a mutex.
    pub(super) fn of(core: &Core) -> Self {
        crate::sync::assert_unlocked();
        let health: Vec<NodeHealth> = core.nodes.iter().map(|node| node.health()).collect();
        let known: Vec<&Memory> = health.iter().filter_map(|node| node.memory.as_ref()).collect();
        let quorum = rules::quorum(health.len());
        Self { limit: of_quorum(&known, quorum, limit), room: of_quorum(&known, quorum, room) }
    }
}

fn limit(memory: &Memory) -> u64 {
    if memory.limit == 0 { u64::MAX } else { memory.limit }
}

fn room(memory: &Memory) -> u64 {
    if memory.limit == 0 {
        return u64::MAX;
    }
    (memory.limit - memory.limit / 4).saturating_sub(memory.used)
}

/// What each of a quorum has at least; of fewer known servers, each of them.
fn of_quorum(known: &[&Memory], quorum: usize, amount: fn(&Memory) -> u64) -> u64 {
    let mut amounts: Vec<u64> = known.iter().map(|memory| amount(memory)).collect();
    amounts.sort_unstable_by(|a, b| b.cmp(a));
    amounts.truncate(quorum);
    amounts.last().copied().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(limit: u64, used: u64) -> Memory {
        Memory::new(limit, "noeviction".into(), used)
    }

    #[test]
    fn a_quorum_has_what_its_least_member_has() {
        let [full, small, large] = [memory(100, 99), memory(100, 50), memory(0, 1_000)];
        let room_of = |known: &[&Memory]| of_quorum(known, 2, room);
        assert_eq!(room_of(&[&full, &small, &large]), 25);
        assert_eq!(room_of(&[&full, &full, &large]), 0);
        assert_eq!(room_of(&[&large, &large, &full]), u64::MAX);
        assert_eq!(room_of(&[&small]), 25, "the others are not known");
        assert_eq!(room_of(&[]), u64::MAX);
    }
}
