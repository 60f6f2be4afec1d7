//! What may happen in a world, as a strategy.

use std::time::Duration;

use proptest::{collection::vec, option, prelude::*, sample::Index};

use super::{
    node::reasons,
    world::{LeaseWorld, Tally, WorldProcess, WorldSetup},
};
use crate::quorum::{Event, NextHolder};

#[derive(Clone, Debug)]
pub(super) enum WorldStep {
    /// A process tries to take the lock.
    Start(u8),
    /// A node runs the oldest command of an attempt, or answers an error.
    Execute {
        who: u8,
        node: Index,
        error: Option<(Index, bool)>,
    },
    /// One of the answers under way arrives, and may arrive again.
    Deliver {
        who: u8,
        which: Index,
        twice: bool,
    },
    /// The network is quick for once: these nodes answer all that they are sent, one by one.
    Exchange {
        who: u8,
        nodes: u16,
    },
    /// Time passes, in parts of the validity.
    Pass(u8),
    /// Time passes until the attempt wants to be woken, and a little more; then it may be woken.
    Wake {
        who: u8,
        late: u8,
        wake: bool,
    },
    /// It is woken although it is not time.
    WakeEarly(u8),
    Extend(u8),
    /// The holder gives back, and another one of its process holds on, for so many parts of the
    /// validity at most.
    HandOn {
        who: u8,
        max_hold: u8,
        auto_extend: bool,
    },
    /// The holder releases the lease, and its process keeps it, for so many parts of the validity.
    Linger {
        who: u8,
        parts: u8,
    },
    Release {
        who: u8,
        awaited: bool,
    },
    /// Somebody else's key where there is none, for so many parts of the validity.
    Foreign {
        node: Index,
        life: Option<u8>,
    },
    /// A key is deleted before its time.
    Wipe(Index),
    /// A node comes back without its key, and perhaps without its fence.
    Restart {
        node: Index,
        keeps_fence: bool,
    },
    /// A process looks how these nodes stand.
    Observe {
        process: u8,
        nodes: u16,
    },
    /// A process ends what probations are over, as far as it reaches.
    Enrol {
        process: u8,
        reached: u16,
    },
}

/// Steps; with `wipes`, nodes lose keys.
pub(super) fn steps(wipes: bool) -> impl Strategy<Value = Vec<WorldStep>> {
    let node = any::<Index>;
    let who = || 0_u8..4;
    let error = option::weighted(0.25, (any::<Index>(), any::<bool>()));
    vec(
        prop_oneof![
            5 => who().prop_map(WorldStep::Start),
            8 => (who(), node(), error).prop_map(|(who, node, error)| {
                WorldStep::Execute { who, node, error }
            }),
            8 => (who(), node(), prop::bool::weighted(0.2)).prop_map(|(who, which, twice)| {
                WorldStep::Deliver { who, which, twice }
            }),
            9 => (who(), any::<u16>(), any::<u16>()).prop_map(|(who, some, more)| {
                WorldStep::Exchange { who, nodes: some | more }
            }),
            2 => (0_u8..24).prop_map(WorldStep::Pass),
            3 => (0_u8..2).prop_map(WorldStep::Pass),
            // Past the end, unnoticed until an answer arrives.
            1 => (60_u8..80).prop_map(WorldStep::Pass),
            5 => (who(), 0_u8..4, prop::bool::weighted(0.8)).prop_map(|(who, late, wake)| {
                WorldStep::Wake { who, late, wake }
            }),
            1 => who().prop_map(WorldStep::WakeEarly),
            1 => who().prop_map(WorldStep::Extend),
            3 => (who(), 1_u8.., prop::bool::weighted(0.8)).prop_map(|(who, max_hold, auto_extend)| {
                WorldStep::HandOn { who, max_hold, auto_extend }
            }),
            3 => (who(), 1_u8..60).prop_map(|(who, parts)| WorldStep::Linger { who, parts }),
            3 => (who(), any::<bool>()).prop_map(|(who, awaited)| {
                WorldStep::Release { who, awaited }
            }),
            1 => (node(), option::weighted(0.98, 0_u8..80)).prop_map(|(node, life)| {
                WorldStep::Foreign { node, life }
            }),
            2 => node().prop_map(WorldStep::Wipe),
        ],
        0..240,
    )
    .prop_map(move |mut steps| {
        steps.retain(|step| wipes || !matches!(step, WorldStep::Wipe(_)));
        steps
    })
}

pub(super) fn setup() -> impl Strategy<Value = WorldSetup> {
    let skew = prop_oneof![
        8 => Just(0_i64),
        8 => -1_000_000..1_000_000_i64,
        // A clock 15 minutes behind, and one so far ahead that nodes refuse its tokens.
        8 => Just(-900_000_000_i64),
        1 => Just(70_000_000_i64),
    ];
    let process = (skew, any::<bool>()).prop_map(|(skew, learns)| WorldProcess { skew, learns });
    (
        1_usize..=9,
        prop_oneof![Just(50_u64), Just(200), Just(2_000)],
        1_u32..6,
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.9),
        vec(process, 1..=3),
    )
        .prop_map(|(nodes, ttl, holds, auto_extend, fencing, processes)| {
            let ttl = Duration::from_millis(ttl);
            WorldSetup { nodes, ttl, max_hold: ttl * holds, auto_extend, fencing, processes }
        })
}

/// Runs the steps and checks all the way.
pub(super) fn run(setup: &WorldSetup, steps: &[WorldStep]) -> Tally {
    let mut world = LeaseWorld::new(setup);
    for step in steps {
        // No two moments are the same, as on a real clock.
        world.now = world.now + Duration::from_nanos(1);
        take(&mut world, step);
    }
    world.finish()
}

fn take(world: &mut LeaseWorld, step: &WorldStep) {
    let count = world.nodes.len();
    let who = match *step {
        WorldStep::Start(process) => return world.start(usize::from(process)),
        WorldStep::Pass(parts) => {
            world.now = world.now + world.ttl_part(parts);
            return;
        }
        WorldStep::Foreign { node, life } => {
            let life = life.map(|parts| world.ttl_part(parts));
            return world.foreign(node.index(count), life);
        }
        WorldStep::Wipe(node) => return world.wipe(node.index(count)),
        WorldStep::Restart { node, keeps_fence } => {
            return world.restart(node.index(count), keeps_fence);
        }
        WorldStep::Observe { process, nodes } => {
            for node in (0..count).filter(|node| nodes & (1 << node) != 0) {
                world.look(usize::from(process), node);
            }
            return;
        }
        WorldStep::Enrol { process, reached } => return world.enrol(usize::from(process), reached),
        WorldStep::Execute { who, .. }
        | WorldStep::Deliver { who, .. }
        | WorldStep::Exchange { who, .. }
        | WorldStep::Wake { who, .. }
        | WorldStep::WakeEarly(who)
        | WorldStep::Extend(who)
        | WorldStep::HandOn { who, .. }
        | WorldStep::Linger { who, .. }
        | WorldStep::Release { who, .. } => who,
    };
    let Some(id) = world.pick(who) else { return };
    match *step {
        WorldStep::Execute { node, error, .. } => {
            let reasons = reasons();
            let error = error.map(|(kind, ran)| (kind.get(&reasons).clone(), ran));
            world.execute(id, node.index(count), error);
        }
        WorldStep::Deliver { which, twice, .. } => world.deliver(id, which.index(1 << 16), twice),
        WorldStep::Exchange { nodes, .. } => exchange(world, id, nodes),
        WorldStep::Wake { late, wake, .. } => {
            if let Some(at) = world.attempts[id].lease.next_wake() {
                world.now = world.now.max(at + Duration::from_micros(u64::from(late) * 700));
                if wake {
                    world.event(id, Event::Wake);
                }
            }
        }
        WorldStep::WakeEarly(_) => world.event(id, Event::Wake),
        WorldStep::Extend(_) => world.event(id, Event::Extend),
        WorldStep::HandOn { max_hold, auto_extend, .. } if world.attempts[id].is_open() => {
            let max_hold = world.ttl_part(max_hold);
            world.hand_on(id, NextHolder { max_hold, auto_extend });
        }
        WorldStep::Linger { parts, .. } if world.attempts[id].is_open() => {
            let until = world.now + world.ttl_part(parts);
            world.linger(id, until);
        }
        WorldStep::Release { awaited, .. } if world.attempts[id].is_open() => {
            world.event(id, Event::Release { awaited });
        }
        _ => {}
    }
}

fn exchange(world: &mut LeaseWorld, id: usize, nodes: u16) {
    for node in (0..world.nodes.len()).filter(|node| nodes & (1 << node) != 0) {
        while !world.attempts[id].requests[node].is_empty() {
            world.execute(id, node, None);
            // What the answer leads to is answered as well.
            world.deliver(id, world.attempts[id].replies.len() - 1, false);
        }
    }
}
