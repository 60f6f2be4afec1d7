//! The servers, proxies, names and workers of a cell.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use tokio::runtime::Handle;
use tower_redlock_verify::standing::votes;
use tower_redlock_verify::support::process::Process;
use tower_redlock_verify::support::temp_dir::TempDir;

use crate::cell::{Cell, Client, LOCK_KEY, PREFIX, SERVERS, SLOT_KEY, WORKERS};
use crate::control::Control;
use crate::fault::Spares;
use crate::ledger::Event;
use crate::message::Order;
use crate::proxy::{Gate, Proxy, Trigger};
use crate::server::{PASSWORD, Server};
use crate::worker::WorkerOptions;

/// Timeout for a blank set, which waits for one TTL, and for other steps on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Minimum length in bytes of an encrypted request for a lock; health checks over TLS are shorter.
const ENCRYPTED_REQUEST: usize = 430;

/// The workers and servers end before the directory is removed.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) cell: Cell,
    workers: Vec<Process>,
    pub(crate) servers: Vec<Server>,
    /// Servers that take over, one for each affected server.
    pub(crate) spares: Vec<Server>,
    /// The proxies by worker, one for each server.
    pub(crate) proxies: Vec<Vec<Proxy>>,
    /// The proxies by worker, one for each spare.
    pub(crate) spare_proxies: Vec<Vec<Proxy>>,
    /// The servers that the names lead to.
    pub(crate) current: Vec<SocketAddr>,
    pub(crate) control: Control,
    dir: TempDir,
}

impl Site {
    pub(crate) fn start(cell: Cell, runtime: &Handle) -> Result<Self, String> {
        let needs = cell.fault.kind.needs();
        let spares = if needs.spares == Spares::None { 0 } else { cell.fault.servers };
        let mut servers = start_servers(&cell, SERVERS + spares)?;
        let spares = servers.split_off(SERVERS);
        let trigger = match cell.client {
            _ if needs.tls => Trigger::Length(ENCRYPTED_REQUEST),
            Client::Slots => Trigger::Text(SLOT_KEY),
            _ => Trigger::Text(LOCK_KEY),
        };
        let proxies = |servers: &[Server]| -> Vec<Vec<Proxy>> {
            let proxy = |server: &Server| Proxy::start(runtime, server.client_addr(), trigger);
            (0..WORKERS).map(|_| servers.iter().map(proxy).collect()).collect()
        };
        let mut site = Self {
            cell,
            workers: Vec::new(),
            proxies: proxies(&servers),
            spare_proxies: proxies(&spares),
            current: servers.iter().map(Server::addr).collect(),
            servers,
            spares,
            control: Control::start(WORKERS)?,
            dir: TempDir::new(),
        };
        if needs.spares == Spares::Replicas {
            site.replicate()?;
        }
        site.write_password(PASSWORD)?;
        site.write_hosts(|_| false)?;
        site.start_workers()?;
        Ok(site)
    }

    fn replicate(&self) -> Result<(), String> {
        for (server, spare) in self.servers.iter().zip(&self.spares) {
            let (host, port) = (server.addr().ip().to_string(), server.addr().port().to_string());
            spare.command(&["REPLICAOF", &host, &port])?;
        }
        for spare in &self.spares {
            let is_up = |text: String| text.contains("master_link_status:up");
            spare.await_reply(|reply| is_up(reply.clone().text()), &["INFO", "replication"])?;
        }
        Ok(())
    }

    fn start_workers(&mut self) -> Result<(), String> {
        let program = env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let program = program.to_str().ok_or("this program's path is not UTF-8")?;
        for worker in 0..WORKERS {
            let options = WorkerOptions {
                worker,
                client: self.cell.client,
                control: self.control.addr(),
                hosts: self.hosts(worker),
                password: self.password(),
                tls: self.cell.fault.kind.needs().tls,
            };
            let mut command = vec![program.to_owned()];
            command.extend(options.to_args());
            let log = self.dir.path().join(format!("worker-{worker}"));
            self.workers.push(Process::spawn(&command, &log));
        }
        Ok(())
    }

    /// Waits until every worker has a quorum, and all servers vote.
    pub(crate) fn await_ready(&self) -> Result<(), String> {
        for worker in 0..WORKERS {
            let ready = self.control.ledger().await_event(worker, Event::Ready, PATIENCE);
            ready.map_err(|problem| format!("{problem}: {}", self.said(worker)))?;
        }
        let started = Instant::now();
        while !self.all_vote() {
            if started.elapsed() > PATIENCE {
                return Err(format!("not all servers vote after {PATIENCE:?}"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Without the guard, servers have no state that says whether they vote.
    pub(crate) fn all_vote(&self) -> bool {
        !self.cell.client.is_guarded() || self.current.iter().all(|&at| votes(at, PREFIX))
    }

    pub(crate) fn order(&self, worker: usize, order: Order) -> Result<(), String> {
        self.control.order(worker, order).map_err(|error| format!("{error}: {}", self.said(worker)))
    }

    pub(crate) fn order_all(&self, order: Order) -> Result<(), String> {
        (0..WORKERS).try_for_each(|worker| self.order(worker, order))
    }

    pub(crate) fn worker(&self, worker: usize) -> &Process {
        &self.workers[worker]
    }

    /// Returns the affected servers.
    pub(crate) fn targets(&self) -> &[Server] {
        &self.servers[..self.cell.fault.servers]
    }

    /// The proxies of all workers to a server.
    pub(crate) fn proxies_to(&self, server: usize) -> impl Iterator<Item = &Proxy> {
        self.proxies.iter().map(move |proxies| &proxies[server])
    }

    /// Returns the proxies of all workers to the affected servers.
    pub(crate) fn target_proxies(&self) -> impl Iterator<Item = &Proxy> {
        let servers = self.cell.fault.servers;
        self.proxies.iter().flat_map(move |proxies| &proxies[..servers])
    }

    /// Holds the subject's next request for the contended name: the first server runs it, and the
    /// others do not get it.
    pub(crate) fn arm(&self) {
        for (server, proxy) in self.proxies[0].iter().enumerate() {
            let gate = if server == 0 { Gate::HoldReply } else { Gate::Hold };
            proxy.set(|rules| rules.gate = gate);
        }
    }

    /// Waits until the request is held.
    pub(crate) fn await_held(&self) -> Result<(), String> {
        let started = Instant::now();
        let reached = || self.proxies[0].iter().filter(|proxy| proxy.is_reached()).count();
        while !self.proxies[0][0].is_reached() || reached() <= SERVERS / 2 {
            if started.elapsed() > PATIENCE {
                return Err(format!("no request was held by {} after {PATIENCE:?}", reached()));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    pub(crate) fn open(&self) {
        self.proxies[0].iter().for_each(|proxy| proxy.set(|rules| rules.gate = Gate::Open));
    }

    /// Writes the addresses of the names. The names for which `is_moved` returns true lead to the
    /// spares.
    pub(crate) fn write_hosts(&self, is_moved: impl Fn(usize) -> bool) -> Result<(), String> {
        for (worker, proxies) in self.proxies.iter().enumerate() {
            let mut text = String::new();
            for (server, proxy) in proxies.iter().enumerate() {
                let moved = is_moved(server).then(|| &self.spare_proxies[worker][server]);
                let _ = writeln!(text, "node-{server} {}", moved.unwrap_or(proxy).addr());
            }
            replace(&self.hosts(worker), &text)?;
        }
        Ok(())
    }

    pub(crate) fn write_password(&self, password: &str) -> Result<(), String> {
        replace(&self.password(), password)
    }

    fn hosts(&self, worker: usize) -> PathBuf {
        self.dir.path().join(format!("hosts-{worker}"))
    }

    fn password(&self) -> PathBuf {
        self.dir.path().join("password")
    }

    fn said(&self, worker: usize) -> String {
        let log = self.dir.path().join(format!("worker-{worker}"));
        fs::read_to_string(log).unwrap_or_default().trim().to_owned()
    }
}

/// Renames the file into place, so that readers never see a part of it.
fn replace(file: &PathBuf, text: &str) -> Result<(), String> {
    let new = file.with_extension("new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, file));
    written.map_err(|error| format!("{}: {error}", file.display()))
}

fn start_servers(cell: &Cell, count: usize) -> Result<Vec<Server>, String> {
    let needs = cell.fault.kind.needs();
    thread::scope(|scope| {
        let starting: Vec<_> =
            (0..count).map(|_| scope.spawn(move || Server::start(needs))).collect();
        starting.into_iter().map(|server| server.join().expect("starting fails, or not")).collect()
    })
}
