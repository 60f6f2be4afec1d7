//! The prospects of a missing vote by its reason: one table for waiting, reports and advice.

use std::{borrow::Cow, time::Duration};

use super::{Reason, UnfitServer, server_reply};

/// The prospects of a missing vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prospect {
    /// The code of the reason in a diagnosis.
    pub(crate) code: &'static str,
    /// `None` if the vote may return without intervention. Otherwise the time after which the
    /// reason is considered permanent, so that waiting does not help.
    pub(crate) lasts_after: Option<Duration>,
    /// The action that an operator should take.
    pub(crate) todo: Cow<'static, str>,
}

/// Confirmation time for refusals, as a name may be moving, or a password changing.
const CONFIRMATION: Duration = Duration::from_secs(2);
/// Confirmation time for names and certificates, which may become available shortly after the
/// program starts.
const SLOW_CONFIRMATION: Duration = Duration::from_secs(10);

fn heals(code: &'static str, todo: impl Into<Cow<'static, str>>) -> Prospect {
    Prospect { code, lasts_after: None, todo: todo.into() }
}

fn lasts(code: &'static str, todo: impl Into<Cow<'static, str>>) -> Prospect {
    Prospect { lasts_after: Some(CONFIRMATION), ..heals(code, todo) }
}

/// Returns the prospects of a vote that is missing for this reason. `prefix` is the key prefix.
pub(crate) fn prospect(reason: &Reason, prefix: &str) -> Prospect {
    match reason {
        Reason::NotConnected(text) if text.contains("no greeting") => heals(
            "hung",
            "check whether the server hangs (stopped, swapping, a very long command), or a firewall drops packets; locks do not wait for it. It votes again once it answers",
        ),
        Reason::NotConnected(_) => heals(
            "down",
            "start the server, or correct host and port; once connected it votes again, after a probation of one max_ttl if it may have forgotten locks",
        ),
        Reason::NotLocated(_) => Prospect {
            lasts_after: Some(SLOW_CONFIRMATION),
            ..heals(
                "not-located",
                "correct the host name, the name of the master, or the user and password for the Sentinels, in the URL; or add the name to the DNS",
            )
        },
        Reason::Tls(_) => Prospect {
            lasts_after: Some(SLOW_CONFIRMATION),
            ..heals(
                "tls",
                "compare the server's certificate with the TLS options (ca, server_name), and check its expiry and whether the port uses TLS: openssl s_client -connect HOST:PORT shows all three",
            )
        },
        Reason::Auth(text) => of_auth(text),
        Reason::NoPermission(text) => {
            let missing = match reason.denied_command() {
                Some(command) => format!("add +{command}, and"),
                None if text.contains("key") => format!("add ~{prefix}:*, and"),
                None => "find the denied command with ACL LOG, and".into(),
            };
            let rules = permissions(prefix);
            lasts("permission", format!("{missing} compare the user's rules with {rules}"))
        }
        Reason::ReadOnly => heals(
            "replica",
            "if it should be an independent node, send REPLICAOF NO ONE, and find out what made it a replica; otherwise replace it with an independent server. It votes after a probation",
        ),
        Reason::OutOfMemory => heals(
            "full",
            "free memory or raise maxmemory, and find out which data fills it: locks take about 250 bytes each. Locks that it stores can still be renewed and released",
        ),
        Reason::Busy => heals(
            "busy",
            "a script has been running for a long time: end it with SCRIPT KILL if it has not written, then find its author",
        ),
        Reason::Loading => heals(
            "loading",
            "wait until it has read its data (INFO persistence has the progress); a probation follows",
        ),
        Reason::PersistenceFailing => heals(
            "persistence-failing",
            "check its log and its disk: the disk may be full or read-only, or there may be no memory to fork",
        ),
        Reason::NoReplicas => heals(
            "no-replicas",
            "reconnect its replicas (INFO replication), or lower its min-replicas-to-write",
        ),
        Reason::WrongTag { .. } => heals(
            "enrolment",
            format!(
                "run the diagnosis again in a moment; if this remains, another program deletes or overwrites the key {prefix}:meta"
            ),
        ),
        Reason::Probation { .. } => {
            heals("probation", "wait, and keep at least one client running")
        }
        // The caller knows the time after which the set may be taken over.
        Reason::OtherLayout { .. } => lasts(
            "other-layout",
            "use the same nodes, names, prefix and guards everywhere: compare the configurations of all programs with the set that the node is enrolled for, and give a name to a node that programs reach by different addresses. If programs with a wrong configuration enrolled it, stop them: an unused set is taken over automatically after 1.25 times max_ttl and some 10 s; or move it with Redlock::adopt from the wrong nodes. If the set was changed on purpose, move the servers once with Redlock::adopt from the old nodes",
        ),
        Reason::SameServer { .. } => lasts(
            "same-server",
            "replace one of the two with an independent server: both names lead to the same server (an alias, a proxy, a forwarded port)",
        ),
        Reason::ClockJumped { .. } => heals(
            "clock-jumped",
            "nothing now: it votes again after max_ttl. Let NTP slew the clock instead of setting it, and check the machine's time source",
        ),
        Reason::TokenAhead => heals(
            "clock",
            "compare the clocks of this machine and of the server (date -u), and get NTP running on both",
        ),
        Reason::Evicts { .. } => lasts(
            "evicts",
            "CONFIG SET maxmemory-policy noeviction, and set it in its configuration file as well; if the server is a cache, use another one",
        ),
        Reason::Unfit(unfit) => of_unfit(unfit, prefix),
        Reason::TtlTooLong => heals(
            "ttl-too-long",
            "its max_ttl is raised automatically once a quorum votes; if this remains, get the other nodes to vote first",
        ),
        Reason::TimedOut | Reason::Unknown | Reason::Disconnected | Reason::NotAwaited => heals(
            "silent",
            "check whether the server hangs, swaps or runs a very long command, and check the network",
        ),
        Reason::Server(text) => of_reply(text),
        _ => heals("error", "check the server's log, and this text"),
    }
}

fn of_reply(text: &str) -> Prospect {
    match server_reply::known(text) {
        Some(reply) if reply.lasts => lasts("refused", reply.todo),
        Some(reply) => heals("error", reply.todo),
        None => heals("error", "check the server's log, and this text"),
    }
}

fn of_auth(text: &str) -> Prospect {
    if text.contains("credentials callback") {
        return Prospect {
            lasts_after: Some(SLOW_CONFIRMATION),
            ..heals(
                "no-credentials",
                "check the service that the application's callback gets its credentials from; the callback is called again until it returns some",
            )
        };
    }
    lasts(
        "auth",
        "correct the user and the password, in the URL or in the configuration, or leave them out if the server has none; check whether a password was changed on one side only",
    )
}

/// Returns the prospects of an unfit server: use another server, or other settings.
fn of_unfit(unfit: &UnfitServer, prefix: &str) -> Prospect {
    let todo = match unfit {
        UnfitServer::TooOld { .. } => {
            return lasts("version", "update the server: Redis 6.2 or newer, or Valkey");
        }
        UnfitServer::ProtectedMode => {
            return lasts(
                "protected-mode",
                "set a password on the server (requirepass, or a user by ACL SETUSER) and give it to all programs; or, in a network that only they can reach, CONFIG SET protected-mode no on the server itself, and in its configuration file",
            );
        }
        UnfitServer::NoDatabase { .. } => {
            "correct the number of the database at the end of the URL, or leave it out; CONFIG GET databases shows how many there are, and a Cluster has one".into()
        }
        UnfitServer::NoScripts { .. } => {
            "use a server that runs Lua scripts, or enable them: start Garnet with --lua".into()
        }
        UnfitServer::NoIdentity { missing } if &**missing == "role" => {
            "use another server: Redis, Valkey or KeyDB".into()
        }
        UnfitServer::NoIdentity { .. } => {
            "use another server (Redis, Valkey or KeyDB), or restart_guard = \"off\" for all clients. That removes the protection against servers that forget: after a restart without data or a failover, two clients may hold one lock".into()
        }
        UnfitServer::Cluster => format!(
            "use a redis+cluster:// URL, a server outside of clusters, or for a cluster with one node a key prefix with a hash tag, such as {{{prefix}}}"
        ),
        UnfitServer::Sentinel => {
            "use the servers that it monitors, or redis+sentinel://HOST:PORT/MASTER-NAME".into()
        }
        _ => "use another server: Redis, Valkey or KeyDB".into(),
    };
    lasts("unfit-server", todo)
}

/// Returns the permissions that the crate needs, with those for counting keys.
pub(crate) fn permissions(prefix: &str) -> String {
    format!(
        "ACL SETUSER … resetchannels ~{prefix}:* &{prefix}:free:* -@all +eval +evalsha +script|load +time +info +hmget +hget +hset +rename +hdel +hlen +hgetall +get +set +del +pttl +pexpire +pexpireat +type +zadd +zcard +zrange +zrem +zremrangebyscore +zscore +scan +hscan +subscribe +unsubscribe +ping +publish +pubsub|numsub (and +config|get to see whether snapshots are on, +select where URLs name a database)"
    )
}
