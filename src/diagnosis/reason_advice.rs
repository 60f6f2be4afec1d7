//! What the reason of a missing vote means for the operator.

use std::time::Duration;

use super::{Advice, terms::DiagnosisTerms};
use crate::error::{Reason, ServerText, UnfitServer};

pub(super) fn of_reason(reason: &Reason, terms: &DiagnosisTerms) -> Advice {
    let what = reason.to_string();
    match reason {
        Reason::NotConnected(text) => not_connected(text, what),
        Reason::Auth(_) => Advice::problem(
            "auth",
            what,
            "give the user and password that the server wants, in the URL or in the configuration; look for a password that was changed on one side only",
        ),
        Reason::NoPermission(text) => no_permission(reason, text, what, terms),
        Reason::ReadOnly => Advice::problem(
            "replica",
            "the server is a replica, and replicas don't vote: they lag behind".into(),
            "if it should be a node of its own: REPLICAOF NO ONE, and find out what made it a replica; otherwise put an independent server in its place. It votes after a probation",
        ),
        Reason::OutOfMemory => Advice::problem(
            "full",
            what,
            "make room or raise maxmemory; find out what fills it: locks take about 250 bytes each. What it keeps can still be renewed and released",
        ),
        Reason::Busy => Advice::problem(
            "busy",
            what,
            "a script has been running for long: SCRIPT KILL ends it if it has not written; then find its author",
        ),
        Reason::Loading => Advice::problem(
            "loading",
            what,
            "wait until it has read its data (INFO persistence has the progress); a probation follows",
        ),
        Reason::PersistenceFailing => Advice::problem(
            "persistence-failing",
            what,
            "look at its disk and its log: full, read-only, or no memory to fork",
        ),
        Reason::WrongTag { .. } => Advice::problem(
            "enrolment",
            what,
            format!(
                "examine again in a moment; if it stays, another program deletes or overwrites the key {}:meta",
                terms.prefix
            ),
        ),
        Reason::Probation { remaining } => of_probation(*remaining),
        Reason::OtherLayout { found, ours } => other_layout(found, ours),
        Reason::SameServer { other } => Advice::problem(
            "same-server",
            format!("is the same server as {other}: it would vote twice, so neither votes"),
            "put a second, independent server in its place: two names lead to one server (an alias, a proxy, a forwarded port)",
        ),
        Reason::ClockJumped { .. } => Advice::problem(
            "clock-jumped",
            what,
            "nothing now: it votes again after max_ttl. Let NTP slew the clock instead of setting it; look at the machine's time source",
        ),
        Reason::TokenAhead => Advice::problem(
            "clock",
            what,
            "compare the clocks of this machine and of the server (date -u), and get NTP running on both",
        ),
        Reason::Evicts { policy } => evicts(policy),
        Reason::Unfit(unfit) => of_unfit(unfit, what, terms),
        Reason::TtlTooLong => Advice::problem(
            "ttl-too-long",
            what,
            "its max_ttl is raised by itself once a quorum votes; if it stays, get the other nodes to vote first",
        ),
        Reason::TimedOut | Reason::Unknown | Reason::Disconnected | Reason::NotAwaited => {
            Advice::problem(
                "silent",
                format!("it did not answer: {reason}"),
                "look whether the server hangs, swaps or runs a very long command, and at the way to it",
            )
        }
        _ => Advice::problem("error", what, "look at the server's log, and at this text"),
    }
}

/// Waiting does not help: another server, or other settings.
fn of_unfit(unfit: &UnfitServer, what: String, terms: &DiagnosisTerms) -> Advice {
    let todo = match unfit {
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
            "name the cluster by redis+cluster://, use a server outside of clusters, or for a cluster with one node a key prefix with a hash tag, such as {{{}}}",
            terms.prefix
        ),
        UnfitServer::Sentinel => {
            "name the servers that it watches, or use redis+sentinel://HOST:PORT/MASTER-NAME".into()
        }
    };
    Advice::problem("unfit-server", what, todo)
}

pub(super) fn of_probation(remaining: Duration) -> Advice {
    let what = if remaining.is_zero() {
        "in probation (it restarted, lost its data, or is new): its time is over, and it waits until enough other nodes vote, or for the end of the probation to be written".into()
    } else {
        format!(
            "in probation for another {remaining:.1?} (it restarted, lost its data, or is new): it may have forgotten locks, and votes when all of them have expired"
        )
    };
    Advice::problem("probation", what, "wait; some client has to run meanwhile")
}

fn other_layout(found: &str, ours: &str) -> Advice {
    Advice::problem(
        "other-layout",
        format!(
            "belongs to another set of nodes. It is enrolled for [{}]; this client is configured for [{ours}]",
            ServerText(found)
        ),
        "use the same nodes, names, prefix and guards everywhere: compare the configurations of all programs with what it is enrolled for. If programs with a wrong configuration captured it, stop them: an unused set is taken over by itself, after 1.25 times max_ttl and some 10 s; or move it with Redlock::adopt from the wrong nodes. If the set was changed on purpose, move the servers once, with Redlock::adopt from the old nodes",
    )
}

fn not_connected(text: &str, what: String) -> Advice {
    if text.contains("too old") {
        let todo = "update the server: Redis 6.2 or newer, or Valkey";
        return Advice::problem("version", what, todo);
    }
    if text.contains("no greeting") {
        return Advice::problem(
            "hung",
            format!("{what}: it takes connections, or drops packets, and does not answer"),
            "look whether the server hangs (stopped, swapping, a very long command), and for a firewall; locks don't wait for it. Once it answers again it votes by itself",
        );
    }
    Advice::problem(
        "down",
        format!("can't be reached: {}", ServerText(text)),
        "start the server, or correct host and port; when it comes back it votes by itself, after a probation of one max_ttl where it may have forgotten locks",
    )
}

/// Names the missing rule, where the server does.
fn no_permission(reason: &Reason, text: &str, what: String, terms: &DiagnosisTerms) -> Advice {
    let missing = match reason.denied_command() {
        Some(command) => format!("add +{command}, and"),
        None if text.contains("key") => format!("add ~{}:*, and", terms.prefix),
        None => "see by ACL LOG which command it was, and".into(),
    };
    let todo = format!("{missing} compare the user's rules with {}", permissions(&terms.prefix));
    Advice::problem("permission", what, todo)
}

/// Returns the permissions that the crate needs, with those for counting keys.
pub(super) fn permissions(prefix: &str) -> String {
    format!(
        "ACL SETUSER … resetchannels ~{prefix}:* &{prefix}:free:* -@all +eval +evalsha +script|load +time +info +hmget +hget +hset +rename +hdel +hlen +hgetall +get +set +del +pttl +pexpire +scan +hscan +subscribe +unsubscribe +ping +publish +pubsub|numsub (and +config|get to see whether snapshots are on, +select where URLs name a database)"
    )
}

pub(super) fn evicts(policy: &str) -> Advice {
    let policy = ServerText(policy);
    Advice::problem(
        "evicts",
        format!("it may evict locks: it has a memory limit, and its maxmemory-policy is {policy}"),
        "CONFIG SET maxmemory-policy noeviction, and in its configuration file as well; if it is a cache, use another server",
    )
}
