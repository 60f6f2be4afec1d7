//! Carries out the faults, and repairs their effects.

use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tower_redlock_verify::ask::command;
use tower_redlock_verify::server::Server;
use tower_redlock_verify::support::resp::Resp;

use crate::cell::{Cell, LOCK_KEY, PREFIX, SERVERS, SUBJECT};
use crate::fault::{Kind as K, Strike};
use crate::fixture::{Fixture, USER, certificate};
use crate::proxy::Proxy;

const LATENCY: Duration = Duration::from_millis(60);
const CLOCK_JUMP: f64 = 30.0;
const NEW_PASSWORD: &str = "second";

/// Time after which a server answers `BUSY`, in ms.
const BUSY_AFTER: &str = "50";

/// Timeout for a command that is not answered.
const UNANSWERED: Duration = Duration::from_millis(100);

/// Returns when the fault is in effect.
pub(crate) fn strike(fixture: &mut Fixture, strike: &Strike) -> Result<(), String> {
    match strike.fault.kind {
        K::KillBlank => restart_all(fixture, strike, true)?,
        K::KillAof => restart_all(fixture, strike, false)?,
        K::Stop => fixture.targets(strike).try_for_each(|server| server.signal(Signal::STOP))?,
        K::WorkerStop => fixture.driver.signal(SUBJECT, Signal::STOP)?,
        K::Partition => block(fixture.target_proxies(strike), true, true),
        K::Split => split(fixture, true),
        K::LostRequests => block(fixture.target_proxies(strike), true, false),
        K::LostReplies => block(fixture.target_proxies(strike), false, true),
        K::Delay => delay(fixture, strike, LATENCY),
        K::ClientPause => {
            let time = strike.lasts.as_millis().to_string();
            on_all(fixture, strike, &["CLIENT", "PAUSE", &time, "ALL"])?;
        }
        K::FlushAll => on_all(fixture, strike, &["FLUSHALL"])?,
        K::ScriptFlush => on_all(fixture, strike, &["SCRIPT", "FLUSH", "SYNC"])?,
        K::MemoryFull => on_all(fixture, strike, &["CONFIG", "SET", "maxmemory", "1"])?,
        K::Eviction => fixture.targets(strike).try_for_each(evict)?,
        K::Promotion => promote(fixture, strike),
        K::BusyScript => fixture.targets(strike).try_for_each(run_without_end)?,
        K::AclRevoked => on_all(fixture, strike, &["ACL", "SETUSER", USER, "-@all"])?,
        K::PasswordRotated => {
            on_all(fixture, strike, &["ACL", "SETUSER", USER, "resetpass", &added(NEW_PASSWORD)])?;
            disconnect(fixture.target_proxies(strike));
        }
        K::CertificateExpired => {
            on_all(
                fixture,
                strike,
                &["CONFIG", "SET", "tls-cert-file", &certificate("expired.pem")],
            )?;
            disconnect(fixture.target_proxies(strike));
        }
        K::DnsChanged => move_names(fixture, strike)?,
        K::ClockForward => set_clocks(fixture, strike, CLOCK_JUMP)?,
        K::Descriptors => {
            limit_all(fixture, strike, "nofile=3")?;
            disconnect(fixture.target_proxies(strike));
        }
        K::DiskFull => limit_all(fixture, strike, "fsize=1")?,
    }
    Ok(())
}

/// Returns when the fault has ended, except for steps that clients and servers take on their own.
pub(crate) fn repair(fixture: &mut Fixture, strike: &Strike) -> Result<(), String> {
    match strike.fault.kind {
        K::KillBlank | K::KillAof | K::FlushAll | K::ScriptFlush | K::Promotion => {}
        K::Stop => fixture.targets(strike).try_for_each(|server| server.signal(Signal::CONT))?,
        K::WorkerStop => fixture.driver.signal(SUBJECT, Signal::CONT)?,
        K::Partition | K::LostRequests | K::LostReplies => {
            block(fixture.target_proxies(strike), false, false);
        }
        K::Split => split(fixture, false),
        K::Delay => delay(fixture, strike, Duration::ZERO),
        // The PING is answered when the pause is over.
        K::ClientPause => on_all(fixture, strike, &["PING"])?,
        K::MemoryFull => on_all(fixture, strike, &["CONFIG", "SET", "maxmemory", "0"])?,
        K::Eviction => {
            on_all(fixture, strike, &["CONFIG", "SET", "maxmemory-policy", "noeviction"])?;
        }
        K::BusyScript => fixture.targets(strike).try_for_each(end_script)?,
        K::AclRevoked => on_all(fixture, strike, &["ACL", "SETUSER", USER, "+@all"])?,
        K::PasswordRotated => {
            for (number, server) in fixture.servers.iter().enumerate() {
                if !strike.targets.contains(&number) {
                    server.command(&["ACL", "SETUSER", USER, &added(NEW_PASSWORD)])?;
                }
            }
            fixture.write_password(NEW_PASSWORD)?;
        }
        K::CertificateExpired => {
            on_all(
                fixture,
                strike,
                &["CONFIG", "SET", "tls-cert-file", &certificate("server.pem")],
            )?;
        }
        K::DnsChanged => {
            strike.targets.iter().for_each(|&server| fixture.servers[server].kill());
        }
        K::ClockForward => set_clocks(fixture, strike, 0.0)?,
        K::Descriptors => limit_all(fixture, strike, "nofile=1024")?,
        K::DiskFull => limit_all(fixture, strike, "fsize=unlimited")?,
    }
    Ok(())
}

/// Detaches the replicas, which lag from then on.
pub(crate) fn detach(fixture: &Fixture, cell: Cell) -> Result<(), String> {
    for spare in fixture.spares.iter().filter(|_| cell.fault.kind == K::Promotion) {
        if cell.client.is_guarded() {
            let votes =
                |reply: &Resp| matches!(reply, Resp::Bulk(Some(tag)) if tag.starts_with(b"a "));
            spare.await_reply(votes, &["HGET", &format!("{PREFIX}:meta"), "tag"])?;
        }
        spare.command(&["REPLICAOF", "NO", "ONE"])?;
    }
    Ok(())
}

fn on_all(fixture: &Fixture, strike: &Strike, command: &[&str]) -> Result<(), String> {
    fixture.targets(strike).try_for_each(|server| server.command(command).map(|_| ()))
}

/// Runs in parallel, as a start takes longer than a client should have to detect the first one.
fn restart_all(fixture: &mut Fixture, strike: &Strike, is_blank: bool) -> Result<(), String> {
    let servers = fixture.servers.iter_mut().enumerate();
    let targets = servers.filter(|(number, _)| strike.targets.contains(number));
    thread::scope(|scope| {
        let restart = |(_, server)| scope.spawn(move || restart(server, is_blank));
        let restarting: Vec<_> = targets.map(restart).collect();
        restarting.into_iter().try_for_each(|one| one.join().expect("restarting fails, or not"))
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

fn delay(fixture: &Fixture, strike: &Strike, delay: Duration) {
    fixture.target_proxies(strike).for_each(|proxy| proxy.set(|rules| rules.delay = delay));
}

/// Cuts each worker off from two servers, a different pair for each.
fn split(fixture: &Fixture, is_split: bool) {
    for (worker, proxies) in fixture.proxies.iter().enumerate() {
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
    send(server, &["SET", "filler", "x"]);
    server.await_reply(|reply| *reply == Resp::Int(0), &["EXISTS", LOCK_KEY])?;
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).map(|_| ())
}

fn run_without_end(server: &Server) -> Result<(), String> {
    server.command(&["CONFIG", "SET", "lua-time-limit", BUSY_AFTER])?;
    send(server, &["EVAL", "while true do end", "0"]);
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

/// Sends a command, whose reply is not needed.
fn send(server: &Server, args: &[&str]) {
    let _ = command(server.addr(), UNANSWERED, args);
}

fn limit_all(fixture: &Fixture, strike: &Strike, limit: &str) -> Result<(), String> {
    fixture.targets(strike).try_for_each(|server| set_limit(server, limit))
}

/// Sets a soft limit of the process, such as `nofile=3`. The hard limit is not changed, so that an
/// unprivileged user can raise the soft one again.
fn set_limit(server: &Server, limit: &str) -> Result<(), String> {
    let pid = server.process()?.pid().as_raw_pid().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, &format!("--{limit}:")]).output();
    match set {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(format!("prlimit: {}", String::from_utf8_lossy(&done.stderr))),
        Err(error) => Err(format!("prlimit of util-linux: {error}")),
    }
}

/// The subject stays connected to the former servers.
fn move_names(fixture: &mut Fixture, strike: &Strike) -> Result<(), String> {
    fixture.move_names()?;
    let others = fixture.proxies.iter().enumerate().filter(|(worker, _)| *worker != SUBJECT);
    let is_moved = |(server, proxy)| strike.targets.contains(&server).then_some(proxy);
    disconnect(others.flat_map(|(_, proxies)| proxies.iter().enumerate().filter_map(is_moved)));
    Ok(())
}

fn promote(fixture: &mut Fixture, strike: &Strike) {
    for (&server, spare) in strike.targets.iter().zip(&fixture.spares) {
        let (addr, current) = (spare.client_addr(), spare.addr());
        fixture.proxies_to(server).for_each(|proxy| proxy.set(|rules| rules.upstream = addr));
        fixture.servers[server].kill();
        fixture.current[server] = current;
    }
}

fn set_clocks(fixture: &Fixture, strike: &Strike, ahead: f64) -> Result<(), String> {
    fixture.targets(strike).for_each(|server| server.set_clock(ahead));
    on_all(fixture, strike, &["TIME"])
}
