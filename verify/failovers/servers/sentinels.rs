//! A master, a replica, and the three Sentinels that watch them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::{await_that, role};
use tower_redlock_verify::ask::command;
use tower_redlock_verify::server::{Server, ServerOptions};
use tower_redlock_verify::support::resp::Resp;

/// The name under which the Sentinels know the master.
const SERVICE: &str = "locks";

/// Time without an answer after which a Sentinel considers a master dead, in milliseconds.
const DOWN_AFTER: &str = "500";

/// Interval between a Sentinel's queries for the role of a server, in milliseconds; 10 s by
/// default. A former master is made a replica some 8 s after its return.
const PERIODS: [&str; 2] = ["INFO-PERIOD", "1000"];

/// Timeout for an answer of a Sentinel.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(200);

/// Time after which a failover is abandoned, in milliseconds. For twice this time after a failover,
/// the Sentinels begin none on their own.
const FAILOVER_TIMEOUT: &str = "2000";

#[derive(Debug)]
pub(super) struct Sentinels {
    pub(super) servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// Starts them, and waits until all know each other and the replica.
    pub(super) fn start() -> Result<Self, String> {
        let blank = || Server::start(ServerOptions::default());
        let servers = vec![blank()?, blank()?];
        let (host, port) =
            (servers[0].addr().ip().to_string(), servers[0].addr().port().to_string());
        servers[1].command(&["REPLICAOF", &host, &port])?;
        let config = format!(
            "sentinel monitor {SERVICE} {host} {port} 2\n\
             sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER}\n\
             sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT}\n"
        );
        let sentinels =
            (0..3).map(|_| Server::start_sentinel(&config)).collect::<Result<Vec<_>, _>>()?;
        for sentinel in &sentinels {
            sentinel.command(&[&["SENTINEL", "DEBUG"], &PERIODS[..]].concat())?;
        }
        let started = Self { servers, sentinels };
        await_that("the Sentinels know each other and the replica", || started.is_settled())?;
        Ok(started)
    }

    pub(super) fn url(&self) -> String {
        let addresses: Vec<_> = self.sentinels.iter().map(|it| it.addr().to_string()).collect();
        format!("redis+sentinel://{}/{SERVICE}", addresses.join(","))
    }

    /// Returns the addresses of the Sentinels, for clients that query them without this crate.
    pub(super) fn addrs(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(Server::addr).collect()
    }

    /// Returns the server that each Sentinel reports as the master, without Sentinels that report
    /// none.
    pub(super) fn named(&self) -> Vec<usize> {
        let of = |address| self.servers.iter().position(|server| server.addr() == address);
        self.sentinels.iter().filter_map(|sentinel| of(master_by(sentinel.addr())?)).collect()
    }

    /// Makes the Sentinels promote the replica. They refuse for a while after a failover. An order
    /// without an answer may take effect, and is not repeated.
    pub(super) fn order(&self, replica: usize) -> Result<(), String> {
        await_that("a Sentinel begins a failover", || {
            self.named().contains(&replica)
                || match self.sentinels[0].command(&["SENTINEL", "FAILOVER", SERVICE]) {
                    Ok(_) => true,
                    Err(problem) => problem.contains("INPROG"),
                }
        })
    }

    /// Returns whether all Sentinels report the same master, and a replica of it that is in sync.
    pub(super) fn is_settled(&self) -> bool {
        let named = self.named();
        let [master, ..] = named[..] else { return false };
        named.len() == self.sentinels.len()
            && named.iter().all(|&other| other == master)
            && role(&self.servers[master]).as_deref() == Some("master")
            && self.servers[1 - master].info("replication", "master_link_status").as_deref()
                == Some("up")
            && self.sentinels.iter().all(is_content)
    }
}

/// Returns the address that a Sentinel reports.
pub(crate) fn master_by(sentinel: SocketAddr) -> Option<SocketAddr> {
    let args = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
    let address = command(sentinel, SENTINEL_TIMEOUT, &args).ok()?;
    let mut address = match address {
        Resp::Array(items) => items.into_iter(),
        _ => return None,
    };
    let (host, port) = (address.next()?.text(), address.next()?.text());
    format!("{host}:{port}").parse().ok()
}

/// Returns whether it detects no failure of the master, the replica, or the other Sentinels.
fn is_content(sentinel: &Server) -> bool {
    let master = sentinel.query(&["SENTINEL", "MASTER", SERVICE]);
    let replicas = sentinel.query(&["SENTINEL", "REPLICAS", SERVICE]);
    let (Ok(master), Ok(replicas)) = (master, replicas) else { return false };
    let (master, mut replicas) = (fields(master), replicas.items().into_iter().map(fields));
    let Some(replica) = replicas.next() else { return false };
    let is =
        |of: &BTreeMap<String, String>, field, value| of.get(field).is_some_and(|it| it == value);
    is(&master, "flags", "master")
        && is(&master, "num-other-sentinels", "2")
        && is(&master, "num-slaves", "1")
        && is(&replica, "flags", "slave")
        && is(&replica, "master-link-status", "ok")
}

fn fields(reply: Resp) -> BTreeMap<String, String> {
    let words: Vec<_> = reply.items().into_iter().map(|word| word.text()).collect();
    words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}
