//! What to expect of a missing vote, by its reason: one table for all that wait, report and advise.

use std::{borrow::Cow, time::Duration};

use super::{Reason, UnfitServer};

/// What to expect of a missing vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prospect {
    /// Names it in a diagnosis.
    pub(crate) code: &'static str,
    /// `None` if the vote may come back by itself. Otherwise the time after which the reason counts as
    /// lasting: waiting does not help then.
    pub(crate) lasts_after: Option<Duration>,
    /// What a person has to do.
    pub(crate) todo: Cow<'static, str>,
}

/// For refusals: a name may be moving, or a password changing.
const CONFIRMATION: Duration = Duration::from_secs(2);
/// For names and certificates, which may appear shortly after the program.
const SLOW_CONFIRMATION: Duration = Duration::from_secs(10);

fn heals(code: &'static str, todo: impl Into<Cow<'static, str>>) -> Prospect {
    Prospect { code, lasts_after: None, todo: todo.into() }
}

fn lasts(code: &'static str, todo: impl Into<Cow<'static, str>>) -> Prospect {
    Prospect { lasts_after: Some(CONFIRMATION), ..heals(code, todo) }
}

/// Returns what to expect of a vote that is missing for this reason. `prefix`: of the keys.
pub(crate) fn prospect(reason: &Reason, prefix: &str) -> Prospect {
    match reason {
        Reason::NotConnected(text) if text.contains("no greeting") => heals(
            "hung",
            "look whether the server hangs (stopped, swapping, a very long command), and for a firewall; locks don't wait for it. Once it answers again it votes by itself",
        ),
        Reason::NotConnected(_) => heals(
            "down",
            "start the server, or correct host and port; when it comes back it votes by itself, after a probation of one max_ttl where it may have forgotten locks",
        ),
        Reason::NotLocated(_) => Prospect {
            lasts_after: Some(SLOW_CONFIRMATION),
            ..heals(
                "not-located",
                "correct the host name, the name of the master, or the user and password for the Sentinels, in the URL; or make the name known",
            )
        },
        Reason::Tls(_) => Prospect {
            lasts_after: Some(SLOW_CONFIRMATION),
            ..heals(
                "tls",
                "compare the server's certificate with the TLS options (ca, server_name), look when it ends, and whether the port speaks TLS: openssl s_client -connect HOST:PORT shows all three",
            )
        },
        Reason::Auth(text) => of_auth(text),
        Reason::NoPermission(text) => {
            let missing = match reason.denied_command() {
                Some(command) => format!("add +{command}, and"),
                None if text.contains("key") => format!("add ~{prefix}:*, and"),
                None => "see by ACL LOG which command it was, and".into(),
            };
            let rules = permissions(prefix);
            lasts("permission", format!("{missing} compare the user's rules with {rules}"))
        }
        Reason::ReadOnly => heals(
            "replica",
            "if it should be a node of its own: REPLICAOF NO ONE, and find out what made it a replica; otherwise put an independent server in its place. It votes after a probation",
        ),
        Reason::OutOfMemory => heals(
            "full",
            "make room or raise maxmemory; find out what fills it: locks take about 250 bytes each. What it keeps can still be renewed and released",
        ),
        Reason::Busy => heals(
            "busy",
            "a script has been running for long: SCRIPT KILL ends it if it has not written; then find its author",
        ),
        Reason::Loading => heals(
            "loading",
            "wait until it has read its data (INFO persistence has the progress); a probation follows",
        ),
        Reason::PersistenceFailing => heals(
            "persistence-failing",
            "look at its disk and its log: full, read-only, or no memory to fork",
        ),
        Reason::NoReplicas => heals(
            "no-replicas",
            "get its replicas to connect again (INFO replication), or lower its min-replicas-to-write",
        ),
        Reason::WrongTag { .. } => heals(
            "enrolment",
            format!(
                "examine again in a moment; if it stays, another program deletes or overwrites the key {prefix}:meta"
            ),
        ),
        Reason::Probation { .. } => heals("probation", "wait; some client has to run meanwhile"),
        // Until its set may have been taken over: the caller knows when.
        Reason::OtherLayout { .. } => lasts(
            "other-layout",
            "use the same nodes, names, prefix and guards everywhere: compare the configurations of all programs with what it is enrolled for. If programs with a wrong configuration captured it, stop them: an unused set is taken over by itself, after 1.25 times max_ttl and some 10 s; or move it with Redlock::adopt from the wrong nodes. If the set was changed on purpose, move the servers once, with Redlock::adopt from the old nodes",
        ),
        Reason::SameServer { .. } => lasts(
            "same-server",
            "put a second, independent server in its place: two names lead to one server (an alias, a proxy, a forwarded port)",
        ),
        Reason::ClockJumped { .. } => heals(
            "clock-jumped",
            "nothing now: it votes again after max_ttl. Let NTP slew the clock instead of setting it; look at the machine's time source",
        ),
        Reason::TokenAhead => heals(
            "clock",
            "compare the clocks of this machine and of the server (date -u), and get NTP running on both",
        ),
        Reason::Evicts { .. } => lasts(
            "evicts",
            "CONFIG SET maxmemory-policy noeviction, and in its configuration file as well; if it is a cache, use another server",
        ),
        Reason::Unfit(unfit) => of_unfit(unfit, prefix),
        Reason::TtlTooLong => heals(
            "ttl-too-long",
            "its max_ttl is raised by itself once a quorum votes; if it stays, get the other nodes to vote first",
        ),
        Reason::TimedOut | Reason::Unknown | Reason::Disconnected | Reason::NotAwaited => heals(
            "silent",
            "look whether the server hangs, swaps or runs a very long command, and at the way to it",
        ),
        _ => heals("error", "look at the server's log, and at this text"),
    }
}

fn of_auth(text: &str) -> Prospect {
    if text.contains("credentials callback") {
        return Prospect {
            lasts_after: Some(SLOW_CONFIRMATION),
            ..heals(
                "no-credentials",
                "look at what the application's callback asks for credentials; it is called again until it returns some",
            )
        };
    }
    lasts(
        "auth",
        "correct the user and the password, in the URL or in the configuration, or leave them out where the server has none; look for a password that was changed on one side only",
    )
}

/// Another server, or other settings.
fn of_unfit(unfit: &UnfitServer, prefix: &str) -> Prospect {
    let todo = match unfit {
        UnfitServer::TooOld { .. } => {
            return lasts("version", "update the server: Redis 6.2 or newer, or Valkey");
        }
        UnfitServer::NoDatabase { .. } => {
            "correct the number of the database at the end of the URL, or leave it out; CONFIG GET databases shows how many there are, and a Cluster has one".into()
        }
        UnfitServer::NoScripts { .. } => {
            "use a server that runs Lua scripts, or switch them on: start Garnet with --lua".into()
        }
        UnfitServer::NoIdentity { missing } if &**missing == "role" => {
            "use another server: Redis, Valkey or KeyDB".into()
        }
        UnfitServer::NoIdentity { .. } => {
            "use another server (Redis, Valkey or KeyDB), or restart_guard = \"off\" for all clients. That costs the protection from servers that forget: after a restart without data or a fail-over, two clients may hold one lock".into()
        }
        UnfitServer::Cluster => format!(
            "name the cluster by redis+cluster://, use a server outside of clusters, or for a cluster with one node a key prefix with a hash tag, such as {{{prefix}}}"
        ),
        UnfitServer::Sentinel => {
            "name the servers that it watches, or use redis+sentinel://HOST:PORT/MASTER-NAME".into()
        }
        _ => "use another server: Redis, Valkey or KeyDB".into(),
    };
    lasts("unfit-server", todo)
}

/// Returns the permissions that the crate needs, with those for counting keys.
pub(crate) fn permissions(prefix: &str) -> String {
    format!(
        "ACL SETUSER … resetchannels ~{prefix}:* &{prefix}:free:* -@all +eval +evalsha +script|load +time +info +hmget +hget +hset +rename +hdel +hlen +hgetall +get +set +del +pttl +pexpire +scan +hscan +subscribe +unsubscribe +ping +publish +pubsub|numsub (and +config|get to see whether snapshots are on, +select where URLs name a database)"
    )
}
