//! Carries out the faults, and repairs their effects.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tower_redlock_verify::support::resp::Resp;

use crate::cell::{FAULT_TIME, LOCK_KEY, PREFIX, SERVERS, SUBJECT};
use crate::fault::Kind as K;
use crate::proxy::Proxy;
use crate::server::{Server, USER, certificate};
use crate::site::Site;

const LATENCY: Duration = Duration::from_millis(60);
const CLOCK_JUMP: f64 = 30.0;
const NEW_PASSWORD: &str = "second";

/// Time after which a server answers `BUSY`, in ms.
const BUSY_AFTER: &str = "50";

/// Timeout for a command that is not answered.
const UNANSWERED: Duration = Duration::from_millis(100);

/// Returns when the fault is in effect.
pub(crate) fn strike(site: &mut Site) -> Result<(), String> {
    let targets = site.cell.fault.servers;
    match site.cell.fault.kind {
        K::KillBlank => on_each(&mut site.servers[..targets], |server| restart(server, true))?,
        K::KillAof => on_each(&mut site.servers[..targets], |server| restart(server, false))?,
        K::Stop => site.targets().iter().try_for_each(|server| server.signal(Signal::STOP))?,
        K::WorkerStop => site.worker(SUBJECT).signal(Signal::STOP),
        K::Partition => block(site.target_proxies(), true, true),
        K::Split => split(site, true),
        K::LostRequests => block(site.target_proxies(), true, false),
        K::LostReplies => block(site.target_proxies(), false, true),
        K::Delay => delay(site, LATENCY),
        K::ClientPause => {
            let time = FAULT_TIME.as_millis().to_string();
            on_all(site, &["CLIENT", "PAUSE", &time, "ALL"])?;
        }
        K::FlushAll => on_all(site, &["FLUSHALL"])?,
        K::ScriptFlush => on_all(site, &["SCRIPT", "FLUSH", "SYNC"])?,
        K::MemoryFull => on_all(site, &["CONFIG", "SET", "maxmemory", "1"])?,
        K::Eviction => site.targets().iter().try_for_each(evict)?,
        K::Promotion => promote(site),
        K::BusyScript => site.targets().iter().try_for_each(run_without_end)?,
        K::AclRevoked => on_all(site, &["ACL", "SETUSER", USER, "-@all"])?,
        K::PasswordRotated => {
            on_all(site, &["ACL", "SETUSER", USER, "resetpass", &added(NEW_PASSWORD)])?;
            disconnect(site.target_proxies());
        }
        K::CertificateExpired => {
            on_all(site, &["CONFIG", "SET", "tls-cert-file", &certificate("expired.pem")])?;
            disconnect(site.target_proxies());
        }
        K::DnsChanged => move_names(site)?,
        K::ClockForward => set_clocks(site, CLOCK_JUMP)?,
        K::Descriptors => {
            limit(site, "nofile=3")?;
            disconnect(site.target_proxies());
        }
        K::DiskFull => limit(site, "fsize=1")?,
    }
    Ok(())
}

/// Returns when the fault has ended, except for steps that clients and servers take on their own.
pub(crate) fn repair(site: &mut Site) -> Result<(), String> {
    let targets = site.cell.fault.servers;
    match site.cell.fault.kind {
        K::KillBlank | K::KillAof | K::FlushAll | K::ScriptFlush | K::Promotion => {}
        K::Stop => site.targets().iter().try_for_each(|server| server.signal(Signal::CONT))?,
        K::WorkerStop => site.worker(SUBJECT).signal(Signal::CONT),
        K::Partition | K::LostRequests | K::LostReplies => {
            block(site.target_proxies(), false, false);
        }
        K::Split => split(site, false),
        K::Delay => delay(site, Duration::ZERO),
        // The PING is answered when the pause is over.
        K::ClientPause => on_all(site, &["PING"])?,
        K::MemoryFull => on_all(site, &["CONFIG", "SET", "maxmemory", "0"])?,
        K::Eviction => on_all(site, &["CONFIG", "SET", "maxmemory-policy", "noeviction"])?,
        K::BusyScript => site.targets().iter().try_for_each(end_script)?,
        K::AclRevoked => on_all(site, &["ACL", "SETUSER", USER, "+@all"])?,
        K::PasswordRotated => {
            for server in &site.servers[targets..] {
                server.command(&["ACL", "SETUSER", USER, &added(NEW_PASSWORD)])?;
            }
            site.write_password(NEW_PASSWORD)?;
        }
        K::CertificateExpired => {
            on_all(site, &["CONFIG", "SET", "tls-cert-file", &certificate("server.pem")])?;
        }
        K::DnsChanged => site.servers[..targets].iter_mut().for_each(Server::kill),
        K::ClockForward => set_clocks(site, 0.0)?,
        K::Descriptors => limit(site, "nofile=1024")?,
        K::DiskFull => limit(site, "fsize=unlimited")?,
    }
    Ok(())
}

/// Detaches the replicas, which lag from then on.
pub(crate) fn detach(site: &Site) -> Result<(), String> {
    for spare in site.spares.iter().filter(|_| site.cell.fault.kind == K::Promotion) {
        if site.cell.client.is_guarded() {
            let votes =
                |reply: &Resp| matches!(reply, Resp::Bulk(Some(tag)) if tag.starts_with(b"a "));
            spare.await_reply(votes, &["HGET", &format!("{PREFIX}:meta"), "tag"])?;
        }
        spare.command(&["REPLICAOF", "NO", "ONE"])?;
    }
    Ok(())
}

fn on_all(site: &Site, command: &[&str]) -> Result<(), String> {
    site.targets().iter().try_for_each(|server| server.command(command).map(|_| ()))
}

/// Runs in parallel, as a start takes longer than a client should have to detect the first one.
fn on_each(
    servers: &mut [Server],
    act: impl Fn(&mut Server) -> Result<(), String> + Sync,
) -> Result<(), String> {
    thread::scope(|scope| {
        let acting: Vec<_> = servers.iter_mut().map(|server| scope.spawn(|| act(server))).collect();
        acting.into_iter().try_for_each(|one| one.join().expect("acting fails, or not"))
    })
}

fn restart(server: &mut Server, is_blank: bool) -> Result<(), String> {
    server.kill();
    if is_blank {
        server.wipe()?;
    }
    server.restart()
}

fn block<'a>(proxies: impl Iterator<Item = &'a Proxy>, requests: bool, replies: bool) {
    for proxy in proxies {
        proxy.set(|rules| (rules.blocks_requests, rules.blocks_replies) = (requests, replies));
    }
}

fn delay(site: &Site, delay: Duration) {
    site.target_proxies().for_each(|proxy| proxy.set(|rules| rules.delay = delay));
}

/// Cuts each worker off from two servers, a different pair for each.
fn split(site: &Site, is_split: bool) {
    for (worker, proxies) in site.proxies.iter().enumerate() {
        let lost = [2 * worker % SERVERS, (2 * worker + 1) % SERVERS];
        block(lost.iter().map(|&server| &proxies[server]), is_split, is_split);
    }
}

fn disconnect<'a>(proxies: impl Iterator<Item = &'a Proxy>) {
    proxies.for_each(Proxy::disconnect);
}

/// Lowers the limit until the key is evicted, as a peak of other keys would.
fn evict(server: &Server) -> Result<(), String> {
    server.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"])?;
    server.command(&["CONFIG", "SET", "maxmemory", "1"])?;
    server.send(UNANSWERED, &["SET", "filler", "x"]);
    server.await_reply(|reply| *reply == Resp::Int(0), &["EXISTS", LOCK_KEY])?;
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).map(|_| ())
}

fn run_without_end(server: &Server) -> Result<(), String> {
    server.command(&["CONFIG", "SET", "lua-time-limit", BUSY_AFTER])?;
    server.send(UNANSWERED, &["EVAL", "while true do end", "0"]);
    Ok(())
}

fn end_script(server: &Server) -> Result<(), String> {
    // Fails if the server has ended the script.
    let _ = server.command(&["SCRIPT", "KILL"]);
    server.await_reply(|reply| matches!(reply, Resp::Simple(_)), &["PING"])
}

/// Formats a password as `ACL SETUSER` adds it.
fn added(password: &str) -> String {
    format!(">{password}")
}

fn limit(site: &Site, limit: &str) -> Result<(), String> {
    site.targets().iter().try_for_each(|server| server.limit(limit))
}

/// The subject stays connected to the former servers.
fn move_names(site: &mut Site) -> Result<(), String> {
    let targets = site.cell.fault.servers;
    site.write_hosts(|server| server < targets)?;
    for (server, spare) in site.spares.iter().enumerate() {
        site.current[server] = spare.addr();
    }
    let others = site.proxies.iter().enumerate().filter(|(worker, _)| *worker != SUBJECT);
    disconnect(others.flat_map(|(_, proxies)| &proxies[..targets]));
    Ok(())
}

fn promote(site: &mut Site) {
    for server in 0..site.cell.fault.servers {
        let spare = &site.spares[server];
        let (addr, current) = (spare.client_addr(), spare.addr());
        site.proxies_to(server).for_each(|proxy| proxy.set(|rules| rules.upstream = addr));
        site.servers[server].kill();
        site.current[server] = current;
    }
}

fn set_clocks(site: &Site, ahead: f64) -> Result<(), String> {
    site.targets().iter().for_each(|server| server.set_clock(ahead));
    on_all(site, &["TIME"])
}
