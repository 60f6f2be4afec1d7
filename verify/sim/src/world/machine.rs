//! The machines of a run: the effects of faults on them, and their repair.

use std::{collections::BTreeMap, time::Duration};

use tower_redlock::switches::Switch;

use super::{
    clock::HostClock,
    gate::Gate,
    plan::Fault,
    process::Process,
    scenario::{Profile, Scenario},
};
use crate::{
    net::{LAG, Net, Power, Return, ServerHost},
    oracle::{Oracle, Promise},
    redis::{Condition, MasterReport, Role, Server},
    rng::Rng,
};

/// All machines.
#[derive(Debug)]
pub(super) struct Machines {
    scenario: Scenario,
    net: Net,
    oracle: Oracle,
    clocks: Vec<HostClock>,
    processes: Vec<Option<Process>>,
    /// The time at which each machine was suspended.
    suspended: Vec<Option<u64>>,
    /// Number of processes that were started.
    started: u64,
    /// A guard that the last client lacks.
    last_lacks: Option<Switch>,
    /// The time at which each key was last evicted from all servers.
    evicted: BTreeMap<String, u64>,
}

/// Time from the end of a process to the deadline of an acquire that it sent: two node timeouts (of
/// 50 ms) after the latest time that the server's clock can show, which is known up to the round
/// trip of a reading (400 ms each way on the slowest links).
const LATEST_ACQUIRE: Duration = Duration::from_millis(900);

/// Maximum difference of a clock's rate, in millionths; twice that is within the drift factor.
const RATE: i64 = 4_000;

/// Draws a number from `-most` to `most`.
fn around(rng: &mut Rng, most: i64) -> i64 {
    i64::try_from(rng.below(most.unsigned_abs() * 2 + 1)).unwrap_or(0) - most
}

/// Returns the name by which Sentinels know a server.
pub(super) fn name_of(server: usize) -> String {
    format!("n{server}")
}

/// The servers' machines.
pub(super) fn hosts(scenario: &Scenario, rng: &mut Rng) -> Vec<ServerHost> {
    let host = |_| {
        let server = Server::new(rng.hex40(), rng.hex40());
        let mut host = ServerHost::new(server);
        host.fast_by = around(rng, RATE);
        host.ahead = around(rng, scenario.apart);
        host
    };
    let mut hosts: Vec<_> = (0..scenario.machines()).map(host).collect();
    for sentinel in hosts.iter_mut().skip(2 * scenario.servers) {
        for name in 0..scenario.servers {
            sentinel.server.reports.insert(name_of(name), MasterReport { epoch: 0, master: name });
        }
    }
    hosts
}

impl Machines {
    pub(super) fn new(scenario: &Scenario, net: &Net, oracle: &Oracle, rng: &mut Rng) -> Self {
        let clock = |_| HostClock::new(net, around(rng, RATE), around(rng, 40_000_000));
        let clocks = (0..scenario.clients).map(clock).collect();
        Self {
            scenario: scenario.clone(),
            net: net.clone(),
            oracle: oracle.clone(),
            clocks,
            processes: (0..scenario.clients).map(|_| None).collect(),
            suspended: vec![None; scenario.clients],
            started: 0,
            last_lacks: None,
            evicted: BTreeMap::new(),
        }
    }

    /// Makes the processes of the last client lack a guard.
    pub(super) fn last_lacks(mut self, switch: Option<Switch>) -> Self {
        self.last_lacks = switch;
        self
    }

    /// Returns the processes that are to get locks.
    pub(super) fn members(&self) -> impl Iterator<Item = &Process> {
        self.processes().filter(|process| !self.scenario.is_stray(process.shared.client))
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().flatten()
    }

    /// Starts the next process of a client, unless one runs.
    pub(super) fn start(&mut self, client: usize) {
        if self.processes[client].is_none() {
            self.started += 1;
            let world = (&self.net, &self.oracle);
            let clock = &self.clocks[client];
            let list = self.scenario.list_of(client, self.net.now() / 1_000);
            let gate = Gate::lacking(self.last_lacks.filter(|_| self.scenario.is_last(client)));
            let id = (client, self.started);
            let process = Process::start(&self.scenario, world, clock, id, (list, gate));
            self.processes[client] = Some(process);
        }
    }

    pub(super) fn kill(&mut self, client: usize, fin: bool) {
        if let Some(process) = self.processes[client].take() {
            self.net.end_client(client, fin);
            self.oracle.gone(client);
            process.gate.kill();
            let keeps_time = !matches!(
                self.scenario.profile,
                Profile::Clocks | Profile::Setbacks | Profile::Beyond
            );
            if keeps_time && process.redlock.is_some() {
                self.watch_keys(process.shared.owner());
            }
        }
    }

    /// Checks that the keys of an ended process disappear as well. An acquire of the process may
    /// still take effect until its deadline, [`LATEST_ACQUIRE`] later at most. A renewal may arrive
    /// up to one TTL later, while the key still exists, and sets its TTL again. On a doubled
    /// connection, renewals arrive until its maximum delay has passed.
    fn watch_keys(&self, owner: String) {
        let (net, oracle) = (self.net.clone(), self.oracle.clone());
        let lag = if self.scenario.profile.doubles() { LAG } else { Duration::ZERO };
        let expiry = Duration::from_millis(2 * self.scenario.ttl + self.scenario.ttl / 25 + 20);
        let limit = expiry + LATEST_ACQUIRE + lag;
        tokio::spawn(async move {
            tokio::time::sleep(limit).await;
            let is_its = |value: &[u8]| {
                let text = value.strip_suffix(b"\n").unwrap_or(value);
                text.ends_with(format!(" {owner}").as_bytes())
            };
            for (server, keys) in net.locks(is_its).into_iter().enumerate() {
                if !keys.is_empty() {
                    let text = format!("s{server} keeps {} of {owner}", keys.join(", "));
                    oracle.broken(Promise::NoDeadlock, text);
                }
            }
        });
    }

    pub(super) fn apply(&mut self, fault: &Fault) {
        let net = self.net.clone();
        match *fault {
            Fault::Block(client, server, up, down) => net.block(client, server, up, down),
            Fault::Pace(client, server, pace) => net.set_pace(client, server, pace),
            Fault::Double(client, server, is_doubled) => net.double(client, server, is_doubled),
            Fault::Crash(server, is_dark) => {
                net.crash(server, if is_dark { Power::Dark } else { Power::Down });
            }
            Fault::Restart(server, with) => net.restart(server, with),
            Fault::Freeze(server, is_frozen) => net.freeze(server, is_frozen),
            Fault::Busy(server, true) => net.set_condition(server, Condition::Busy),
            Fault::Loading(server, true) => net.set_condition(server, Condition::Loading),
            Fault::Busy(server, false) | Fault::Loading(server, false) => {
                net.set_condition(server, Condition::Ready);
            }
            Fault::Full(server, is_full) => net.set_maxmemory(server, is_full.into(), "noeviction"),
            Fault::Replica(server, true) | Fault::Demote(server) => {
                net.set_role(server, Role::Replica);
            }
            Fault::Replica(server, false) => net.set_role(server, Role::Master),
            Fault::Flush(server) => net.flush(server),
            Fault::Promote { master, replica, loses } => net.promote(master, replica, loses),
            Fault::Report(sentinel, name, MasterReport { epoch, master }) => {
                net.set_master(
                    2 * self.scenario.servers + sentinel,
                    &name_of(name),
                    MasterReport { epoch, master },
                );
            }
            Fault::Evict(server) => {
                if let Some(key) = net.evict(server) {
                    self.oracle.event(format!("s{server} evicts {key}"));
                }
            }
            Fault::EvictAlike => self.evict_alike(),
            Fault::Jump(server, micros) => net.jump(server, micros),
            Fault::Save => net.save(),
            Fault::Pause(client, is_paused) => self.pause(client, is_paused),
            Fault::Suspend(client, true) => {
                self.suspended[client] = Some(net.now());
                self.pause(client, true);
            }
            Fault::Suspend(client, false) => self.resume(client),
            Fault::Kill(client, fin) => self.kill(client, fin),
            Fault::Start(client) => self.start(client),
        }
    }

    /// Evicts a lock's key from all servers. The same key is not evicted again for a TTL, until the
    /// holder that lost it knows: after a second eviction, its renewal would store the key again
    /// although the next holder has the lock.
    fn evict_alike(&mut self) {
        let (now, ttl) = (self.net.now(), self.scenario.ttl * 1_000);
        self.evicted.retain(|_, at| now < *at + ttl);
        if let Some(key) = self.net.evict_alike(|key| !self.evicted.contains_key(key)) {
            self.oracle.event(format!("all servers evict {key}"));
            self.evicted.insert(key, now);
        }
    }

    fn pause(&self, client: usize, is_paused: bool) {
        if let Some(process) = &self.processes[client] {
            process.gate.pause(is_paused);
        }
    }

    fn resume(&mut self, client: usize) {
        if let Some(since) = self.suspended[client].take() {
            self.clocks[client].skip_pause(since);
            self.oracle.was_suspended(client, since);
        }
        self.pause(client, false);
    }

    /// Ends all faults.
    pub(super) fn repair(&mut self) {
        let net = self.net.clone();
        for client in 0..self.scenario.clients {
            for server in 0..self.scenario.machines() {
                net.block(client, server, false, false);
                net.set_pace(client, server, self.scenario.pace);
                net.double(client, server, false);
            }
        }
        let powers = net.servers(|host, _| host.power);
        for (server, power) in powers.into_iter().enumerate() {
            if power != Power::On {
                net.restart(server, Return::Whole);
            }
            net.freeze(server, false);
            net.set_condition(server, Condition::Ready);
            // Of a name that fails over, only one server is the master.
            if self.scenario.profile != Profile::Failovers {
                net.set_role(server, Role::Master);
            }
            net.set_maxmemory(server, 0, "noeviction");
        }
        for client in 0..self.scenario.clients {
            self.resume(client);
            self.start(client);
        }
    }
}
