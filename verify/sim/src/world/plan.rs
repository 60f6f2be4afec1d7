//! The plan of faults, determined by a seed.

use std::fmt;

use super::{
    scenario::{Profile, SENTINELS, Scenario, Work},
    sets::Other,
};
use crate::{
    net::{Pace, Return},
    redis::MasterReport,
    rng::Rng,
};

/// An event in the world.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Whether the directions between a client and a server are blocked: up, down.
    Block(usize, usize, bool, bool),
    /// The pace of a link.
    Pace(usize, usize, Pace),
    /// Whether the connections of a client to a server arrive twice.
    Double(usize, usize, bool),
    /// A server's process ends, with or without its machine.
    Crash(usize, bool),
    /// A server's next process starts.
    Restart(usize, Return),
    /// Whether a server's process is paused.
    Freeze(usize, bool),
    /// Whether a server runs a long script of another client.
    Busy(usize, bool),
    /// Whether a server loads its data.
    Loading(usize, bool),
    /// Whether a server's memory is full.
    Full(usize, bool),
    /// Whether a server is a replica.
    Replica(usize, bool),
    /// A server loses all data, without a restart.
    Flush(usize),
    /// A server evicts the key of a lock.
    Evict(usize),
    /// All servers evict the key of one lock.
    EvictAlike,
    /// A server's clock jumps by this, in µs.
    Jump(usize, i64),
    /// The replica of a name's server is promoted, with the master's data or with the saved data.
    Promote {
        /// The master, which continues.
        master: usize,
        /// The replica.
        replica: usize,
        /// Whether the latest writes were not copied.
        loses: bool,
    },
    /// A former master becomes a replica, which refuses what its clients send.
    Demote(usize),
    /// A Sentinel gets a new report on a name.
    Report(usize, usize, MasterReport),
    /// All servers save their data.
    Save,
    /// Whether a client's process is paused, while its clock runs.
    Pause(usize, bool),
    /// Whether a client's machine is paused, with its clock.
    Suspend(usize, bool),
    /// A client's process ends; its system closes its connections, or is gone too.
    Kill(usize, bool),
    /// A client's next process starts.
    Start(usize),
}

/// A fault, and its time in ms.
pub type Step = (u64, Fault);

/// Draws the faults of a scenario, in order of their times.
pub fn plan(scenario: &Scenario, rng: &mut Rng) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut planner = Planner {
        scenario,
        rng,
        steps: &mut steps,
        free: vec![0; scenario.servers],
        up: vec![0; scenario.clients],
        jumps: 0,
        masters: (0..scenario.servers).map(|server| (server, 0)).collect(),
        remembers: false,
    };
    // If a majority forgot, tokens grow only if clocks do not move back.
    planner.remembers = scenario.profile == Profile::Beyond && planner.rng.chance(50);
    planner.remembers |= scenario.relies_on_data();
    let mut at = scenario.faults_from;
    while at < scenario.faults_until {
        planner.draw(at);
        at += planner.rng.within(scenario.gap / 4, scenario.gap * 2);
    }
    planner.change_lists();
    steps.sort_by_key(|(at, _)| *at);
    steps
}

struct Planner<'a> {
    scenario: &'a Scenario,
    rng: &'a mut Rng,
    steps: &'a mut Vec<Step>,
    /// Times from which each server, or client, may have its next fault.
    free: Vec<u64>,
    up: Vec<u64>,
    /// Time from which a clock may jump, or a name fail over.
    jumps: u64,
    /// The server that each name leads to, and its number of failovers.
    masters: Vec<(usize, u64)>,
    /// Whether servers keep their data. Beyond the promises, clocks may move back only then.
    remembers: bool,
}

impl Planner<'_> {
    fn draw(&mut self, at: u64) {
        let kinds = self.scenario.profile.kinds();
        let total: u64 = kinds.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.rng.below(total);
        for (weight, kind) in kinds {
            if drawn < *weight {
                return self.add(at, *kind);
            }
            drawn -= weight;
        }
    }

    /// Draws a duration in ms, mostly a short one.
    fn time(&mut self) -> u64 {
        let most = [30, 120, 600, 1_500, 4_000][self.rng.index(5)];
        self.rng.within(most / 4, most)
    }

    fn add(&mut self, at: u64, kind: Kind) {
        let server = self.rng.index(self.scenario.servers);
        let client = self.rng.index(self.scenario.clients);
        let end = at + self.time();
        let steps = match kind {
            Kind::Partition => return self.partition(at, end),
            Kind::Slow => return self.slow(at, end),
            Kind::Cut => return self.cut(at, client),
            Kind::Double => return self.double(at, end),
            Kind::Save => vec![(at, Fault::Save)],
            Kind::FailOver => return self.fail_over(at, end),
            Kind::EvictAlike => vec![(at, Fault::EvictAlike)],
            Kind::Pause | Kind::Suspend | Kind::Kill => {
                if at < self.up[client] {
                    return;
                }
                self.up[client] = end + 1;
                match kind {
                    Kind::Pause => during(at, end, |is_on| Fault::Pause(client, is_on)),
                    Kind::Suspend => during(at, end, |is_on| Fault::Suspend(client, is_on)),
                    _ => vec![
                        (at, Fault::Kill(client, self.rng.chance(50))),
                        (end, Fault::Start(client)),
                    ],
                }
            }
            Kind::Jump | Kind::JumpAlike => {
                if at < self.jumps {
                    return;
                }
                // Within this time a server grants nothing to clients that saw it jump.
                self.jumps = at + self.scenario.ttl * 2;
                let most = [300, 1_500, 5_000, 20_000][self.rng.index(4)];
                let millis = self.rng.within(60, most).min(self.scenario.longest_jump());
                let size = i64::try_from(millis * 1_000).unwrap_or(0);
                let goes_on = match self.scenario.profile {
                    Profile::Setbacks => false,
                    Profile::Beyond if !self.remembers => true,
                    _ => self.rng.chance(65),
                };
                let by = if goes_on { size } else { -size };
                if kind == Kind::Jump {
                    vec![(at, Fault::Jump(server, by))]
                } else {
                    (0..self.scenario.servers).map(|server| (at, Fault::Jump(server, by))).collect()
                }
            }
            Kind::Step => {
                if at < self.jumps {
                    return;
                }
                // Steps within the TTL of a lock add up.
                self.jumps = at + self.scenario.ttl * 3;
                let most = [40_000, 60_000, self.scenario.longest_step()][self.rng.index(3)];
                let micros = self.rng.within(5_000, most.min(self.scenario.longest_step()));
                let by = i64::try_from(micros).unwrap_or(0);
                let stepped_at = at + self.rng.within(0, self.scenario.ttl / 2);
                let majority = (server..).take(self.scenario.servers / 2 + 1);
                let mut steps: Vec<_> = majority
                    .map(|number| (stepped_at, Fault::Jump(number % self.scenario.servers, by)))
                    .collect();
                // The first client, which holds most locks, reads no clock any more.
                if at >= self.up[0] {
                    let end = at + self.scenario.ttl * 2;
                    self.up[0] = end + 1;
                    steps.extend(during(at, end, |is_on| Fault::Pause(0, is_on)));
                }
                steps
            }
            _ => {
                // Records that are only on one server are lost with it.
                let forgets = matches!(kind, Kind::Crash | Kind::Promote | Kind::Flush);
                let server = if forgets && self.scenario.work == Work::Once { 0 } else { server };
                let replaces = matches!(kind, Kind::Flush | Kind::Promote);
                if at < self.free[server] || (replaces && self.remembers) {
                    return;
                }
                self.free[server] = end + 1;
                let kind =
                    if self.remembers && kind == Kind::Crash { Kind::CrashWhole } else { kind };
                self.server(at, end, server, kind)
            }
        };
        self.steps.extend(steps);
    }

    fn server(&mut self, at: u64, end: u64, server: usize, kind: Kind) -> Vec<Step> {
        let pair = |fault: fn(usize, bool) -> Fault| during(at, end, |is_on| fault(server, is_on));
        match kind {
            Kind::Crash | Kind::CrashWhole => {
                let with = if kind == Kind::Crash { self.data() } else { Return::Whole };
                let is_dark = self.rng.chance(30);
                vec![(at, Fault::Crash(server, is_dark)), (end, Fault::Restart(server, with))]
            }
            Kind::RestartAll => {
                let mut with = self.data();
                if matches!(self.scenario.profile, Profile::Amnesia | Profile::Setbacks) {
                    with = Return::Blank;
                } else if self.scenario.work == Work::Once || self.remembers {
                    with = Return::Whole;
                }
                let mut steps = Vec::new();
                for server in 0..self.scenario.servers {
                    self.free[server] = end + 1;
                    steps.push((at, Fault::Crash(server, false)));
                    steps.push((end, Fault::Restart(server, with)));
                }
                steps
            }
            Kind::Promote => vec![(at, Fault::Restart(server, Return::Promoted))],
            Kind::Flush => vec![(at, Fault::Flush(server))],
            Kind::Evict => vec![(at, Fault::Evict(server))],
            Kind::Freeze => pair(Fault::Freeze),
            Kind::Busy => pair(Fault::Busy),
            Kind::Loading => pair(Fault::Loading),
            Kind::Full => pair(Fault::Full),
            _ => pair(Fault::Replica),
        }
    }

    /// Draws the data with which a server returns.
    fn data(&mut self) -> Return {
        [Return::Whole, Return::Blank, Return::Older][self.rng.index(3)]
    }

    /// The replica of a name's server takes over, while the former master is stopped for a while,
    /// or continues to serve. Only one name at a time, as R14 allows with three names.
    fn fail_over(&mut self, at: u64, end: u64) {
        if at < self.jumps {
            return;
        }
        // Records that are only on one server are lost with it.
        let name = if self.scenario.work == Work::Once {
            0
        } else {
            self.rng.index(self.scenario.servers)
        };
        let names = self.scenario.servers;
        let (master, epoch) = self.masters[name];
        let former = MasterReport { epoch, master };
        let replica = if master < names { master + names } else { master - names };
        let epoch = epoch + 1;
        self.masters[name] = (replica, epoch);
        let loses = self.rng.chance(50);
        self.steps.push((at, Fault::Promote { master, replica, loses }));
        if self.rng.chance(50) {
            let from = at.saturating_sub(self.rng.within(0, 500)).max(self.scenario.faults_from);
            self.steps.extend(during(from, end, |is_on| Fault::Freeze(master, is_on)));
        }
        let mut told = at;
        for sentinel in 0..SENTINELS {
            // Most Sentinels learn of it within seconds; one that is cut off, or restarts with old
            // data, does not.
            let late = if self.rng.chance(20) { 8_000 } else { 2_000 };
            let when = at + self.rng.within(0, late);
            told = told.max(when);
            let report = MasterReport { epoch, master: replica };
            self.steps.push((when, Fault::Report(sentinel, name, report)));
            if self.rng.chance(20) {
                let back = when + self.rng.within(0, 2_000);
                told = told.max(back + self.rng.within(0, 4_000));
                self.steps.push((back, Fault::Report(sentinel, name, former)));
                self.steps.push((told, Fault::Report(sentinel, name, report)));
            }
        }
        // Until then the former master accepts its clients' commands.
        let demoted = end.max(told) + self.rng.within(0, 1_500);
        self.steps.push((demoted, Fault::Demote(master)));
        self.jumps = demoted + 1;
    }

    /// Ends the clients, and starts them with another list.
    fn change_lists(&mut self) {
        let Some(Other::AllClients { others, last, .. }) = self.scenario.other else { return };
        for client in 0..self.scenario.clients {
            let at = if self.scenario.is_last(client) { last } else { others };
            // Its machine runs, as far as the next process is concerned.
            self.steps.push((at, Fault::Suspend(client, false)));
            self.steps.push((at, Fault::Kill(client, self.rng.chance(50))));
            self.steps.push((at + self.rng.within(0, 2_000), Fault::Start(client)));
        }
    }

    /// Some clients are cut off from some servers, in one or both directions.
    fn partition(&mut self, at: u64, end: u64) {
        let (up, down) =
            [(true, true), (true, false), (false, true), (true, true)][self.rng.index(4)];
        let one_client = self.rng.chance(60).then(|| self.rng.index(self.scenario.clients));
        let share = self.rng.within(20, 90);
        for client in 0..self.scenario.clients {
            for server in 0..self.scenario.machines() {
                let is_cut = one_client.is_none_or(|of| of == client) && self.rng.chance(share);
                if is_cut {
                    self.steps.push((at, Fault::Block(client, server, up, down)));
                    self.steps.push((end, Fault::Block(client, server, false, false)));
                }
            }
        }
    }

    /// A client's commands arrive after one or a few seconds.
    fn cut(&mut self, at: u64, client: usize) {
        if at < self.up[client] {
            return;
        }
        let end = at + self.rng.within(800, 2_500);
        self.up[client] = end + 500;
        for server in 0..self.scenario.machines() {
            self.steps.push((at, Fault::Block(client, server, true, false)));
            self.steps.push((end, Fault::Block(client, server, false, false)));
        }
    }

    /// The network between some clients and servers opens each connection twice.
    fn double(&mut self, at: u64, end: u64) {
        let share = self.rng.within(20, 100);
        for client in 0..self.scenario.clients {
            for server in 0..self.scenario.servers {
                if self.rng.chance(share) {
                    let double = |is_on| Fault::Double(client, server, is_on);
                    self.steps.extend(during(at, end, double));
                }
            }
        }
    }

    fn slow(&mut self, at: u64, end: u64) {
        let server = self.rng.index(self.scenario.machines());
        let client = self.rng.chance(50).then(|| self.rng.index(self.scenario.clients));
        let most = [3_000, 30_000, 80_000, 400_000][self.rng.index(4)];
        let pace = Pace { least: 200, most, loss: self.rng.below(20) };
        for each in 0..self.scenario.clients {
            if client.is_none_or(|of| of == each) {
                self.steps.push((at, Fault::Pace(each, server, pace)));
                self.steps.push((end, Fault::Pace(each, server, self.scenario.pace)));
            }
        }
    }
}

/// A fault that begins at a time, and ends.
fn during(at: u64, end: u64, fault: impl Fn(bool) -> Fault) -> Vec<Step> {
    vec![(at, fault(true)), (end, fault(false))]
}

/// A kind of fault that a plan draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Partition,
    Slow,
    Double,
    Cut,
    Save,
    Pause,
    Suspend,
    Kill,
    Jump,
    JumpAlike,
    Step,
    Crash,
    CrashWhole,
    RestartAll,
    Promote,
    FailOver,
    Flush,
    Evict,
    EvictAlike,
    Freeze,
    Busy,
    Loading,
    Full,
    Replica,
}

impl Profile {
    /// Whether connections may arrive twice.
    pub(super) fn doubles(self) -> bool {
        self.kinds().iter().any(|(_, kind)| *kind == Kind::Double)
    }

    /// The kinds of faults, with their weights.
    fn kinds(self) -> &'static [(u64, Kind)] {
        use Kind::{
            Busy, Crash, CrashWhole, Cut, Double, Evict, EvictAlike, FailOver, Flush, Freeze, Full,
            Jump, JumpAlike, Kill, Loading, Partition, Pause, Promote, Replica, RestartAll, Save,
            Slow, Step, Suspend,
        };
        match self {
            Self::Network => &[(6, Partition), (4, Slow), (2, Double)],
            Self::Servers => &[
                (5, Crash),
                (3, Save),
                (1, RestartAll),
                (2, Promote),
                (3, Flush),
                (3, Partition),
                (2, Slow),
            ],
            Self::Hangs => &[
                (3, Freeze),
                (1, Busy),
                (1, Loading),
                (2, Full),
                (1, Replica),
                (2, Partition),
                (2, Slow),
                (2, Pause),
            ],
            Self::Clients => &[(4, Kill), (4, Pause), (2, Partition), (2, Slow), (2, CrashWhole)],
            Self::Failovers => {
                &[(6, FailOver), (2, Save), (2, Partition), (2, Slow), (1, Kill), (1, Pause)]
            }
            Self::Amnesia => &[(3, RestartAll), (4, CrashWhole), (4, Partition)],
            Self::Setbacks => &[(3, RestartAll), (2, JumpAlike)],
            Self::Cuts => &[(1, Cut)],
            Self::Evictions => &[(8, EvictAlike), (1, Slow)],
            Self::Pauses => &[(6, Pause), (2, Slow), (1, Partition)],
            Self::Clocks => &[(5, Jump), (2, Partition), (3, Slow), (2, Pause), (1, Freeze)],
            Self::Steps => &[(8, Step), (1, Pause)],
            Self::All => &[
                (3, Partition),
                (3, Slow),
                (1, Double),
                (2, Crash),
                (1, Save),
                (1, Promote),
                (1, Flush),
                (2, Freeze),
                (1, Busy),
                (1, Loading),
                (1, Full),
                (1, Replica),
                (2, Kill),
                (2, Pause),
            ],
            Self::Beyond => &[
                (3, Partition),
                (2, Slow),
                (2, Crash),
                (1, Save),
                (1, Flush),
                (2, Evict),
                (2, Freeze),
                (2, Kill),
                (2, Pause),
                (2, Suspend),
                (2, Jump),
                (2, JumpAlike),
            ],
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault: {self:?}")
    }
}
