//! The servers, proxies, names and workers of a cell.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use tokio::runtime::Handle;
use tower_redlock_verify::driver::Driver;
use tower_redlock_verify::server::{Server, ServerOptions};
use tower_redlock_verify::standing::votes;
use tower_redlock_verify::support::temp_dir::TempDir;

use crate::cell::{Client, LOCK_KEY, PREFIX, SERVERS, SLOT_KEY, WORKERS};
use crate::client::ClientOptions;
use crate::fault::{Needs, Spares, Strike};
use crate::proxy::{Gate, Proxy, Trigger};

/// The user that clients log in as.
pub(crate) const USER: &str = "locks";
const PASSWORD: &str = "first";

/// Makes a write beyond a limit on the size of files fail instead of ending the server.
const WITHOUT_SIGNAL: [&str; 4] = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];

/// Timeout for a blank set, which waits for one TTL, and for other steps on a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// Minimum length in bytes of an encrypted request for a lock; health checks over TLS are shorter.
const ENCRYPTED_REQUEST: usize = 430;

/// The workers and servers end before the directory is removed.
#[derive(Debug)]
pub(crate) struct Fixture {
    client: Client,
    pub(crate) driver: Driver,
    pub(crate) servers: Vec<Server>,
    /// Servers that take over, one for each affected server.
    pub(crate) spares: Vec<Server>,
    /// The proxies by worker, one for each server.
    pub(crate) proxies: Vec<Vec<Proxy>>,
    /// The proxies by worker, one for each spare.
    pub(crate) spare_proxies: Vec<Vec<Proxy>>,
    /// The servers that the names lead to.
    pub(crate) current: Vec<SocketAddr>,
    dir: TempDir,
}

impl Fixture {
    /// Starts everything; with `spares` servers that take over, if the faults need some.
    pub(crate) fn start(
        client: Client,
        needs: Needs,
        spares: usize,
        runtime: &Handle,
    ) -> Result<Self, String> {
        let spares = if needs.spares == Spares::None { 0 } else { spares };
        let mut servers = start_servers(needs, SERVERS + spares)?;
        let spares = servers.split_off(SERVERS);
        let trigger = match client {
            _ if needs.tls => Trigger::Length(ENCRYPTED_REQUEST),
            Client::Slots => Trigger::Text(SLOT_KEY),
            _ => Trigger::Text(LOCK_KEY),
        };
        let proxies = |servers: &[Server]| -> Vec<Vec<Proxy>> {
            let proxy = |server: &Server| Proxy::start(runtime, server.client_addr(), trigger);
            (0..WORKERS).map(|_| servers.iter().map(proxy).collect()).collect()
        };
        let (proxies, spare_proxies) = (proxies(&servers), proxies(&spares));
        if needs.spares == Spares::Replicas {
            replicate(&servers, &spares)?;
        }
        let dir = TempDir::new();
        replace(&password(&dir), PASSWORD)?;
        for (worker, proxies) in proxies.iter().enumerate() {
            write_hosts(&hosts(&dir, worker), proxies)?;
        }
        let words = |worker| {
            let (hosts, password) = (hosts(&dir, worker), password(&dir));
            ClientOptions { client, hosts, password, tls: needs.tls }.to_words()
        };
        let driver = Driver::start(&(0..WORKERS).map(words).collect::<Vec<_>>())?;
        let current = servers.iter().map(Server::addr).collect();
        Ok(Self { client, driver, servers, spares, proxies, spare_proxies, current, dir })
    }

    /// Waits until every worker has a quorum, and all servers vote.
    pub(crate) fn await_ready(&self) -> Result<(), String> {
        self.driver.await_ready()?;
        let started = Instant::now();
        while !self.all_vote() {
            if started.elapsed() > READY_TIMEOUT {
                return Err(format!("not all servers vote after {READY_TIMEOUT:?}"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Without the guard, servers have no state that says whether they vote.
    pub(crate) fn all_vote(&self) -> bool {
        !self.client.is_guarded() || self.current.iter().all(|&at| votes(at, PREFIX))
    }

    /// Returns the affected servers.
    pub(crate) fn targets(&self, strike: &Strike) -> impl Iterator<Item = &Server> {
        strike.targets.iter().map(|&server| &self.servers[server])
    }

    /// The proxies of all workers to a server.
    pub(crate) fn proxies_to(&self, server: usize) -> impl Iterator<Item = &Proxy> {
        self.proxies.iter().map(move |proxies| &proxies[server])
    }

    /// Returns the proxies of all workers to the affected servers.
    pub(crate) fn target_proxies(&self, strike: &Strike) -> impl Iterator<Item = &Proxy> {
        strike.targets.iter().flat_map(|&server| self.proxies_to(server))
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
            if started.elapsed() > READY_TIMEOUT {
                return Err(format!(
                    "no request was held by {} after {READY_TIMEOUT:?}",
                    reached()
                ));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    pub(crate) fn open(&self) {
        self.proxies[0].iter().for_each(|proxy| proxy.set(|rules| rules.gate = Gate::Open));
    }

    /// Makes the names of the first servers lead to the spares.
    pub(crate) fn move_names(&mut self) -> Result<(), String> {
        for (worker, proxies) in self.proxies.iter().enumerate() {
            let spares = &self.spare_proxies[worker];
            write_hosts(&hosts(&self.dir, worker), spares.iter().chain(&proxies[spares.len()..]))?;
        }
        for (server, spare) in self.spares.iter().enumerate() {
            self.current[server] = spare.addr();
        }
        Ok(())
    }

    pub(crate) fn write_password(&self, text: &str) -> Result<(), String> {
        replace(&password(&self.dir), text)
    }
}

/// Returns the path of a file in `tls/`.
pub(crate) fn certificate(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("faults/tls").join(file);
    path.display().to_string()
}

/// Makes the spares replicas of the first servers, and waits until they have the data.
fn replicate(servers: &[Server], spares: &[Server]) -> Result<(), String> {
    for (server, spare) in servers.iter().zip(spares) {
        let (host, port) = (server.addr().ip().to_string(), server.addr().port().to_string());
        spare.command(&["REPLICAOF", &host, &port])?;
    }
    for spare in spares {
        let is_up = |text: String| text.contains("master_link_status:up");
        spare.await_reply(|reply| is_up(reply.clone().text()), &["INFO", "replication"])?;
    }
    Ok(())
}

fn hosts(dir: &TempDir, worker: usize) -> PathBuf {
    dir.path().join(format!("hosts-{worker}"))
}

fn password(dir: &TempDir) -> PathBuf {
    dir.path().join("password")
}

fn write_hosts<'a>(
    file: &Path,
    proxies: impl IntoIterator<Item = &'a Proxy>,
) -> Result<(), String> {
    let mut text = String::new();
    for (server, proxy) in proxies.into_iter().enumerate() {
        let _ = writeln!(text, "node-{server} {}", proxy.addr());
    }
    replace(file, &text)
}

/// Renames the file into place, so that readers never see a part of it.
fn replace(file: &Path, text: &str) -> Result<(), String> {
    let new = file.with_extension("new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, file));
    written.map_err(|error| format!("{}: {error}", file.display()))
}

fn start_servers(needs: Needs, count: usize) -> Result<Vec<Server>, String> {
    let start = || Server::start(server_options(needs));
    thread::scope(|scope| {
        let starting: Vec<_> = (0..count).map(|_| scope.spawn(start)).collect();
        starting.into_iter().map(|server| server.join().expect("starting fails, or not")).collect()
    })
}

fn server_options(needs: Needs) -> ServerOptions {
    let owned = |words: &[&str]| words.iter().copied().map(str::to_owned).collect();
    let mut options = ServerOptions { clock: needs.clock, ..ServerOptions::default() };
    let password = format!(">{PASSWORD}");
    options.args = owned(&["--user", USER, "on", &password, "~*", "&*", "+@all"]);
    if needs.aof {
        options.before = &WITHOUT_SIGNAL;
        options.args.extend(["--appendonly", "yes", "--appendfsync", "everysec"].map(Into::into));
    }
    if needs.tls {
        let [cert, key, ca] = ["server.pem", "server.key", "ca.pem"].map(certificate);
        let files = ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
        options.tls_args = owned(&[&files[..], &["--tls-auth-clients", "no"]].concat());
    }
    options
}
