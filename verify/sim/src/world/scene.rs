//! What a seed is about: how many of what, under which faults, with which work.

use crate::{net::Pace, oracle::Promise, rng::Rng};

/// Which faults happen.
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
    /// Servers that forget everything together: for a control.
    Amnesia,
    /// The same, with clocks that are put back: what fencing does not cover.
    Setbacks,
    /// Clients whose commands are held back for seconds: for a control.
    Cuts,
    /// Servers that evict the keys of a lock: for a control.
    Evictions,
    /// Clients that stop, on a slow network: for a control.
    Pauses,
    /// Servers' clocks that jump.
    Clocks,
    /// Names that Sentinels resolve: a replica is promoted, with or without the latest writes, while its
    /// master still serves whoever is connected, and each Sentinel learns of it at its own time.
    Failovers,
    /// All of these but jumps.
    All,
    /// What no promise covers: eviction, jumps that are alike, machines whose clocks pause. Only
    /// fencing has to hold.
    Beyond,
}

/// Seeds from here on have [`Profile::Failovers`].
pub const FAILOVER_SEEDS: u64 = 1_000_000_000;

/// How many Sentinels resolve the names.
pub(super) const SENTINELS: usize = 3;

impl Profile {
    /// The profiles of the seeds below [`FAILOVER_SEEDS`], in the order of the seeds that have them.
    pub const ALL: [Self; 7] = [
        Self::Network,
        Self::Servers,
        Self::Hangs,
        Self::Clients,
        Self::Clocks,
        Self::All,
        Self::Beyond,
    ];

    /// What these faults may break.
    pub fn excuses(self) -> Vec<Promise> {
        match self {
            // A server whose clock goes back keeps its keys for longer.
            Self::Clocks => vec![Promise::NoDeadlock],
            Self::Evictions => vec![Promise::Exclusion, Promise::OneStart, Promise::Once],
            Self::Beyond | Self::Setbacks => vec![
                Promise::Exclusion,
                Promise::HardStop,
                Promise::OneStart,
                Promise::Once,
                Promise::Done,
                Promise::NoDeadlock,
            ],
            _ => Vec::new(),
        }
    }
}

/// What the clients do beside locking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing else.
    Locks,
    /// Jobs of a scheduler.
    Jobs,
    /// Work that is done once per key.
    Once,
    /// One of them leads.
    Leader,
}

impl Work {
    /// All kinds of work, in the order of the seeds that have them.
    pub const ALL: [Self; 4] = [Self::Locks, Self::Jobs, Self::Once, Self::Leader];
}

/// The implementation that locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contestant {
    /// The crate.
    #[default]
    Crate,
    /// Redlock as it is often written: a majority, and nothing else.
    Naive,
    /// The crate's locks, and a scheduler that runs a tick if it gets the lock.
    LeaseOnly,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Everything else comes out of it.
    pub seed: u64,
    /// How many servers.
    pub servers: usize,
    /// How many clients.
    pub clients: usize,
    /// The TTL of locks, in ms.
    pub ttl: u64,
    /// The faults.
    pub profile: Profile,
    /// What is done.
    pub work: Work,
    /// By whom.
    pub contestant: Contestant,
    /// Whether the last client has a list with fewer servers.
    pub has_stray: bool,
    /// From when to when there are faults, in ms.
    pub faults_from: u64,
    /// See `faults_from`.
    pub faults_until: u64,
    /// Mean time between two faults, in ms.
    pub gap: u64,
    /// How far the servers' wall clocks are off at most, in µs. The tokens of a new set start a minute
    /// after the clock that is most ahead, and a server whose clock is far behind refuses them: with
    /// clocks far apart, little happens.
    pub apart: i64,
    /// How fast the network is without faults.
    pub pace: Pace,
    /// Whether released locks may linger with their client.
    pub lingers: bool,
}

impl Scene {
    /// The scene of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::of(seed, 1);
        let profile = if seed < FAILOVER_SEEDS {
            Profile::ALL[usize::try_from(seed % 7).unwrap_or(0)]
        } else {
            Profile::Failovers
        };
        let work = Work::ALL[rng.index(4)];
        Self::with(seed, profile, work)
    }

    /// A scene of these faults and this work.
    pub fn with(seed: u64, profile: Profile, work: Work) -> Self {
        let mut rng = Rng::of(seed, 2);
        let servers = if rng.chance(60) { 3 } else { 5 };
        let from = 2_500;
        let scene = Self {
            seed,
            servers,
            clients: usize::try_from(rng.within(2, 3)).unwrap_or(2),
            ttl: [400, 1_000, 1_500][rng.index(3)],
            profile,
            work,
            contestant: Contestant::Crate,
            has_stray: false,
            faults_from: from,
            faults_until: from + rng.within(6_000, 14_000),
            gap: rng.within(80, 900),
            apart: [200_000, 200_000, 200_000, 3_000_000, 15_000_000][rng.index(5)],
            // One round trip takes at most the node timeout of the shortest TTL.
            pace: Pace { most: [900, 900, 900, 6_000, 16_000][rng.index(5)], ..Pace::default() },
            lingers: Rng::of(seed, 7).chance(33),
        };
        // The clocks of a master and of its replica are about the same: tokens must not go back where a
        // majority of names failed over.
        if profile == Profile::Failovers { Self { apart: 200_000, ..scene } } else { scene }
    }

    /// How many machines there are: a server for each name; with Sentinels also a replica of each, and they.
    pub fn machines(&self) -> usize {
        if self.profile == Profile::Failovers { 2 * self.servers + SENTINELS } else { self.servers }
    }
}
