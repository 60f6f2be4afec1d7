//! The scenario of a seed: the numbers of machines, the faults and the work.

use super::sets::{List, Other};
use crate::{net::Pace, oracle::Promise, rng::Rng};

/// The faults that occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Partitions, delays and losses.
    Network,
    /// Servers that crash, forget, and are replaced.
    Servers,
    /// Servers that hang or refuse.
    Hangs,
    /// Clients that stop, crash and start.
    Clients,
    /// Servers that all forget everything at the same time, for a control.
    Amnesia,
    /// Like [`Amnesia`](Self::Amnesia), with clocks that are set back, which fencing does not
    /// cover.
    Setbacks,
    /// Clients whose commands are held back for seconds, for a control.
    Cuts,
    /// Servers that evict the keys of a lock, for a control.
    Evictions,
    /// Clients that pause, on a slow network, for a control.
    Pauses,
    /// Servers' clocks that jump.
    Clocks,
    /// Clocks of a majority of servers that step forward together, by no more than a lock sets aside.
    Steps,
    /// Names that Sentinels resolve. A replica is promoted, with or without the latest writes,
    /// while its master still serves its connected clients, and each Sentinel learns of it at a
    /// different time.
    Failovers,
    /// All of these except jumps.
    All,
    /// Faults that no promise covers: evictions, equal jumps, machines whose clocks pause. Only
    /// fencing has to hold.
    Beyond,
}

/// Seeds from here on have [`Profile::Failovers`].
pub const FAILOVER_SEEDS: u64 = 1_000_000_000;

/// Seeds from here on have several sets of servers, and the profiles of the first ones.
pub const SET_SEEDS: u64 = 2_000_000_000;

/// Seeds from here on have [`Profile::Steps`].
pub const STEP_SEEDS: u64 = 3_000_000_000;

/// Number of Sentinels that resolve the names.
pub(super) const SENTINELS: usize = 3;

impl Profile {
    /// The profiles of all seeds but those from [`FAILOVER_SEEDS`] to [`SET_SEEDS`] and from
    /// [`STEP_SEEDS`] on, in the order of the seeds that have them.
    pub const ALL: [Self; 7] = [
        Self::Network,
        Self::Servers,
        Self::Hangs,
        Self::Clients,
        Self::Clocks,
        Self::All,
        Self::Beyond,
    ];

    /// Returns the promises that these faults may break.
    pub fn excuses(self) -> Vec<Promise> {
        match self {
            // A server whose clock moves back keeps its keys for longer.
            Self::Clocks => vec![Promise::NoDeadlock],
            Self::Evictions => vec![
                Promise::Exclusion,
                Promise::Slots,
                Promise::OneStart,
                Promise::OneFate,
                Promise::Once,
            ],
            Self::Beyond | Self::Setbacks => vec![
                Promise::Exclusion,
                Promise::Slots,
                Promise::HardStop,
                Promise::OneStart,
                Promise::OneFate,
                Promise::Once,
                Promise::Done,
                Promise::NoDeadlock,
            ],
            _ => Vec::new(),
        }
    }
}

/// The work of the clients besides locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Only locks.
    Locks,
    /// Jobs of a scheduler.
    Jobs,
    /// Work that runs once per key.
    Once,
    /// One client leads.
    Leader,
}

impl Work {
    /// All kinds of work, in the order of the seeds that have them.
    pub const ALL: [Self; 4] = [Self::Locks, Self::Jobs, Self::Once, Self::Leader];
}

/// The lock implementation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contestant {
    /// The crate.
    #[default]
    Crate,
    /// Redlock as it is often implemented: a majority, and nothing else.
    Naive,
    /// Slots by counting: each server grants while it counts fewer holders than slots, and a
    /// majority of grants is a slot.
    Counting,
    /// The crate's locks, and a scheduler that runs a tick if it acquires the lock.
    LeaseOnly,
}

impl Contestant {
    /// Returns whether it is the crate, with or without its scheduler.
    pub(super) fn is_crate(self) -> bool {
        matches!(self, Self::Crate | Self::LeaseOnly)
    }
}

/// A run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Determines everything else.
    pub seed: u64,
    /// Number of servers, of all sets together.
    pub servers: usize,
    /// Number of clients.
    pub clients: usize,
    /// The TTL of locks, in ms.
    pub ttl: u64,
    /// The faults.
    pub profile: Profile,
    /// The work.
    pub work: Work,
    /// The lock implementation of the clients.
    pub contestant: Contestant,
    /// Number of groups of servers, of which sets are made.
    pub groups: usize,
    /// The list of servers with which clients start.
    pub list: List,
    /// Another list that clients have.
    pub other: Option<Other>,
    /// Start of the faults, in ms.
    pub faults_from: u64,
    /// End of the faults, in ms.
    pub faults_until: u64,
    /// Mean time between two faults, in ms.
    pub gap: u64,
    /// Maximum offset of the servers' wall clocks, in µs. The tokens of a new set start a minute
    /// after the clock that is most ahead, and a server whose clock is far behind refuses them:
    /// with large offsets, little happens.
    pub apart: i64,
    /// The pace of the network without faults.
    pub pace: Pace,
    /// Whether clients may keep idle locks.
    pub lingers: bool,
    /// Numbers of slots of one name: each process uses the next one, so that a client may start with
    /// another number, as in a deployment. Without a number, no process uses slots.
    pub slots: Vec<u32>,
    /// Whether clients also share the names.
    pub shares: bool,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::of(seed, 1);
        let profile = if (FAILOVER_SEEDS..SET_SEEDS).contains(&seed) {
            Profile::Failovers
        } else if seed >= STEP_SEEDS {
            Profile::Steps
        } else {
            Profile::ALL[usize::try_from(seed % 7).unwrap_or(0)]
        };
        let work = Work::ALL[rng.index(4)];
        let scenario = Self::with(seed, profile, work);
        if seed < SET_SEEDS || profile == Profile::Steps {
            scenario
        } else {
            scenario.divide(&mut Rng::of(seed, 13))
        }
    }

    /// A scenario of these faults and this work.
    pub fn with(seed: u64, profile: Profile, work: Work) -> Self {
        let mut rng = Rng::of(seed, 2);
        let servers = if rng.chance(60) { 3 } else { 5 };
        let from = 2_500;
        let scenario = Self {
            seed,
            servers,
            clients: usize::try_from(rng.within(2, 3)).unwrap_or(2),
            ttl: [400, 1_000, 1_500][rng.index(3)],
            profile,
            work,
            contestant: Contestant::Crate,
            groups: 1,
            list: List::Plain,
            other: None,
            faults_from: from,
            faults_until: from + rng.within(6_000, 14_000),
            gap: rng.within(80, 900),
            apart: [200_000, 200_000, 200_000, 3_000_000, 15_000_000][rng.index(5)],
            // One round trip takes at most the node timeout of the shortest TTL.
            pace: Pace { most: [900, 900, 900, 6_000, 16_000][rng.index(5)], ..Pace::default() },
            lingers: Rng::of(seed, 7).chance(33),
            slots: draw_slots(&mut Rng::of(seed, 8)),
            shares: Rng::of(seed, 11).chance(67),
        };
        // The clocks of a master and of its replica are about equal, as tokens must not decrease if
        // a majority of names failed over.
        // Steps matter where clients get locks at all.
        match profile {
            Profile::Failovers => Self { apart: 200_000, ..scenario },
            Profile::Steps => {
                let pace = Pace { most: 900, ..scenario.pace };
                Self { apart: 200_000, slots: Vec::new(), shares: false, pace, ..scenario }
            }
            _ => scenario,
        }
    }

    /// Returns whether a client locks a name only now and then, so that its readings of clocks get old.
    pub(super) fn is_rarely_busy(&self, client: usize) -> bool {
        self.profile == Profile::Steps && client > 0
    }

    /// The share of the TTL that locks set aside for clocks. With steps it is large, so that steps that
    /// are not seen are much longer than the simulation's round trips.
    pub(super) fn drift_factor(&self) -> f64 {
        if self.profile == Profile::Steps { 0.05 } else { 0.01 }
    }

    /// Returns the longest step of a server's clock, in µs, that shortens no lock with that factor: what
    /// a lock of the scenario's TTL sets aside for its keys, less what clocks gain within it that run at
    /// rates which differ by 0.8 %.
    pub(super) fn longest_step(&self) -> u64 {
        151_000 - 8 * self.ttl
    }

    /// Returns the number of machines: a server for each name; with Sentinels also a replica of
    /// each, and the Sentinels.
    pub fn machines(&self) -> usize {
        if self.profile == Profile::Failovers { 2 * self.servers + SENTINELS } else { self.servers }
    }
}

/// Draws the numbers of slots: in two of three seeds two or three, in a third of these both.
fn draw_slots(rng: &mut Rng) -> Vec<u32> {
    if !rng.chance(67) {
        return Vec::new();
    }
    match rng.below(6) {
        0 | 1 => vec![2],
        2 | 3 => vec![3],
        4 => vec![2, 3],
        _ => vec![3, 2],
    }
}
