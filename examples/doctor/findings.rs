//! The findings about a set, and what to do about them.

use std::{sync::Arc, time::Duration};

use tower_redlock::{
    error::Reason,
    node::{CopyProgress, Finding as Compared, NodeState},
};

use crate::{
    examine::{Seen, quorum},
    setup::Settings,
    verdict::{Finding, Severity},
};

/// Servers accept fencing tokens that are ahead of their clocks by less than this.
const CLOCK_LIMIT: Duration = Duration::from_secs(60);
const CLOCK_HINT: Duration = Duration::from_secs(1);

pub(crate) fn find(seen: &[Seen], settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    if settings.embedded {
        findings.push(hint(
            "embedded",
            "there is nothing to examine: these nodes are inside this process".into(),
            "name your servers: REDLOCK_NODES=redis://…,redis://…,redis://… or --config FILE",
        ));
        return findings;
    }
    for node in seen {
        let of_node = |mut finding: Finding| {
            finding.node = Some(Arc::clone(&node.health.name));
            finding
        };
        findings.extend(vote(node, settings).map(of_node));
        findings.extend(copying(node).map(of_node));
        findings.extend(memory(node).map(of_node));
        findings.extend(clock(node, settings).map(of_node));
        findings.extend(keys(node, settings).map(of_node));
        findings.extend(denied(node, settings).map(of_node));
    }
    findings.extend(set(seen, settings));
    findings.extend(persistence(seen, settings));
    findings.sort_by_key(|finding| (finding.severity, finding.code));
    findings
}

fn problem(code: &'static str, what: String, todo: impl Into<String>) -> Finding {
    Finding { severity: Severity::Problem, code, node: None, what, todo: todo.into() }
}

fn hint(code: &'static str, what: String, todo: impl Into<String>) -> Finding {
    Finding { severity: Severity::Hint, code, node: None, what, todo: todo.into() }
}

/// Why a node does not vote.
fn vote(node: &Seen, settings: &Settings) -> Option<Finding> {
    // That finding says by how much.
    let is_reported =
        clock(node, settings).is_some_and(|found| found.severity == Severity::Problem);
    match &node.health.state {
        NodeState::Refusing { reason: Reason::ClockOff | Reason::TokenAhead, .. }
            if is_reported =>
        {
            None
        }
        NodeState::Down { reason, .. } | NodeState::Refusing { reason, .. } => {
            Some(refusal(reason, settings))
        }
        NodeState::Probation { blocked: Some(blocked), .. } => Some(problem(
            "probation-blocked",
            format!("in probation, and the last try to end it ran into {blocked}"),
            "look at the node that it names: the probation ends when that answers",
        )),
        NodeState::Probation { remaining, .. } => Some(probation(*remaining)),
        NodeState::Connecting => Some(problem(
            "connecting",
            "the first connection is still being opened".into(),
            "run doctor again in a moment",
        )),
        _ => match &node.vote {
            Some(Err(Reason::ClockOff | Reason::TokenAhead)) if is_reported => None,
            Some(Err(reason)) => Some(refusal(reason, settings)),
            Some(Ok(took)) if *took >= settings.node_timeout => {
                let limit = settings.node_timeout;
                Some(problem(
                    "slow",
                    format!(
                        "a vote takes {took:.1?}, more than the node timeout of {limit:.1?}: it comes too late to count"
                    ),
                    "look at the server's load, its SLOWLOG and the way to it; for servers that are far away, raise node_timeout (at most a tenth of the TTL counts)",
                ))
            }
            _ => None,
        },
    }
}

fn probation(remaining: Duration) -> Finding {
    let what = if remaining.is_zero() {
        "in probation (it restarted, lost its data, or is new): its time is over, and it waits until enough other nodes vote, or for the end of the probation to be written".into()
    } else {
        format!(
            "in probation for another {remaining:.1?} (it restarted, lost its data, or is new): it may have forgotten locks, and votes when all of them have expired"
        )
    };
    let todo = "wait; some client has to run meanwhile: doctor --wait does";
    problem("probation", what, todo)
}

/// What a reason means for the operator.
fn refusal(reason: &Reason, settings: &Settings) -> Finding {
    let what = reason.to_string();
    match reason {
        Reason::NotConnected(text) => not_connected(text, what),
        Reason::Auth(_) => problem(
            "auth",
            what,
            "give the user and password that the server wants, in the URL or in the configuration; look for a password that was changed on one side only",
        ),
        Reason::NoPermission(text) => permission(text, what, settings),
        Reason::ReadOnly => problem(
            "replica",
            "the server is a replica, and replicas don't vote: they lag behind".into(),
            "if it should be a node of its own: REPLICAOF NO ONE, and look who made it a replica; otherwise put an independent server in its place. It votes after a probation",
        ),
        Reason::OutOfMemory => problem(
            "full",
            what,
            "make room or raise maxmemory; find out what fills it: locks take about 250 bytes each. What it keeps can still be renewed and released",
        ),
        Reason::Busy => problem(
            "busy",
            what,
            "a script has been running for long: SCRIPT KILL ends it if it has not written; then find its author",
        ),
        Reason::Loading => problem(
            "loading",
            what,
            "wait until it has read its data (INFO persistence tells how far it is); a probation follows",
        ),
        Reason::PersistenceFailing => problem(
            "persistence-failing",
            what,
            "look at its disk and its log: full, read-only, or no memory to fork",
        ),
        Reason::WrongTag { .. } => problem(
            "enrolment",
            what,
            "run doctor again in a moment; if it stays so, another program deletes or overwrites the key PREFIX:meta"
                .replace("PREFIX", &settings.prefix),
        ),
        Reason::Probation { remaining } => probation(*remaining),
        Reason::OtherLayout { found, ours } => problem(
            "other-layout",
            format!("belongs to another set of nodes. It is enrolled for [{found}]; doctor is configured for [{ours}]"),
            "use the same nodes, names, prefix and guards everywhere: compare the configurations of all programs (and doctor's own settings) with what it is enrolled for. If programs with a wrong configuration captured it, stop them: an unused set is taken over by itself, after 1.25 times max_ttl and some 10 s; or move it: doctor --adopt --from WRONG-NODES. If the set was changed on purpose, move the servers once: doctor --adopt --from OLD-NODES",
        ),
        Reason::SameServer { other } => problem(
            "same-server",
            format!("is the same server as {other}: it would vote twice, so neither votes"),
            "put a second, independent server in its place: two names lead to one server (an alias, a proxy, a forwarded port)",
        ),
        Reason::ClockJumped { .. } => problem(
            "clock-jumped",
            what,
            "nothing now: it votes again after max_ttl. Let NTP slew the clock instead of setting it; look at the machine's time source",
        ),
        Reason::ClockOff | Reason::TokenAhead => problem(
            "clock",
            what,
            "compare the clocks of this machine and of the server (date -u), and get NTP running on both",
        ),
        Reason::Evicts { policy } => evicts(policy),
        Reason::TtlTooLong => problem(
            "max-ttl",
            what,
            "its max_ttl is raised by itself once a quorum votes; if it stays so, get the other nodes to vote first",
        ),
        Reason::TimedOut | Reason::Unknown | Reason::Disconnected | Reason::NotAwaited => problem(
            "silent",
            format!("it did not answer: {reason}"),
            "look whether the server hangs, swaps or runs a very long command, and at the way to it",
        ),
        _ => problem("error", what, "look at the server's log, and at this text"),
    }
}

fn not_connected(text: &str, what: String) -> Finding {
    if text.contains("too old") {
        return problem("version", what, "update the server: Redis 6.2 or newer, or Valkey");
    }
    if text.contains("no greeting") {
        return problem(
            "hung",
            format!("{what}: it takes connections, or drops packets, and does not answer"),
            "look whether the server hangs (stopped, swapping, a very long command), and for a firewall; locks don't wait for it. Once it answers again it votes by itself",
        );
    }
    problem(
        "down",
        format!("can't be reached: {text}"),
        "start the server, or correct host and port; when it comes back it votes by itself, after a probation of one max_ttl where it may have forgotten locks",
    )
}

/// Names the missing rule, where the server does.
fn permission(text: &str, what: String, settings: &Settings) -> Finding {
    let command = text.split_once("run the '").and_then(|(_, rest)| rest.split('\'').next());
    let missing = match command {
        Some(command) => format!("add +{}, and", command.replace(' ', "|")),
        None if text.contains("key") => format!("add ~{}:*, and", settings.prefix),
        None => "see by ACL LOG which command it was, and".into(),
    };
    let todo = format!("{missing} compare the user's rules with {}", acl(&settings.prefix));
    problem("permission", what, todo)
}

/// The permissions that the crate needs, with those of `doctor`.
fn acl(prefix: &str) -> String {
    format!(
        "ACL SETUSER … ~{prefix}:* &{prefix}:free:* -@all +eval +evalsha +script|load +time +info +hmget +hget +hset +hsetnx +hlen +hgetall +get +set +del +pttl +pexpire +scan +hscan +subscribe +unsubscribe +ping +publish +pubsub|numsub (and +config|get to see whether snapshots are on, +select where URLs name a database, +pexpireat +pexpiretime under clock_guard)"
    )
}

fn evicts(policy: &str) -> Finding {
    problem(
        "evicts",
        format!("it may evict locks: it has a memory limit, and its maxmemory-policy is {policy}"),
        "CONFIG SET maxmemory-policy noeviction, and in its configuration file as well; if it is a cache, use another server",
    )
}

fn copying(node: &Seen) -> Option<Finding> {
    let CopyProgress { records, bytes, .. } = node.health.copying?;
    Some(hint(
        "copying",
        format!(
            "records of work that is done are being copied to it, {records} of them ({bytes} bytes) by the client that copies now: until then it does not say of any key that there is none"
        ),
        "wait, and keep the other nodes up meanwhile; some client has to run. It takes a second for each 10 MB",
    ))
}

fn memory(node: &Seen) -> Option<Finding> {
    let refuses = matches!(
        &node.health.state,
        NodeState::Refusing { reason: Reason::Evicts { .. }, .. } | NodeState::Down { .. }
    );
    let memory = node.health.memory.as_ref().filter(|memory| memory.evicts() && !refuses)?;
    Some(evicts(&memory.policy))
}

/// The least by which a clock is off.
pub(crate) fn offset(node: &Seen) -> Option<Duration> {
    let clock = node.health.clock?;
    let off = Duration::from_micros(clock.ahead_micros.unsigned_abs());
    Some(off.saturating_sub(clock.uncertainty))
}

/// A finding of the comparison of all clocks.
fn compared(node: &Seen, is_wanted: impl Fn(&Compared) -> bool) -> Option<&Compared> {
    node.health.findings.iter().find(|finding| is_wanted(finding))
}

fn clock(node: &Seen, settings: &Settings) -> Option<Finding> {
    if let Some(found) = compared(node, |found| matches!(found, Compared::ServerClock { .. })) {
        let what = format!("{found}: its votes don't count with theirs, or come late");
        return Some(problem(
            "clock",
            what,
            "get NTP on the server running; clocks may only be slewed, never set, while locks are used",
        ));
    }
    let is_ours = compared(node, |found| matches!(found, Compared::OwnClock { .. })).is_some();
    if is_ours && settings.clock_guard.is_none() {
        return None;
    }
    let off = offset(node)?;
    let way = if node.health.clock?.ahead_micros < 0 { "behind" } else { "ahead of" };
    let what = format!("its clock is {off:.1?} {way} ours");
    let todo = "get NTP running on the server and on this machine; the clocks may only be slewed, never set, while locks are used";
    let (limit, worth) = match settings.clock_guard {
        Some(within) => (within, within / 2),
        None => (CLOCK_LIMIT, CLOCK_HINT),
    };
    if off > limit {
        let what = format!("{what}, more than {limit:.0?}: it gives no votes, or slow ones");
        return Some(problem("clock", what, todo));
    }
    (off > worth).then(|| hint("clock", what, todo))
}

fn persistence(seen: &[Seen], settings: &Settings) -> Option<Finding> {
    let forgets = |node: &&Seen| {
        node.health.persistence.is_some_and(|keeps| !keeps.aof && keeps.snapshots == Some(false))
    };
    let names: Vec<&str> = seen.iter().filter(forgets).map(|node| &*node.health.name).collect();
    let todo = if settings.restart_guard {
        "nothing: with the restart guard that is safe; a server that restarts waits one max_ttl before it votes again (a probation)"
    } else {
        "use the restart guard for servers that matter: without it, a restarted server grants again what it had granted"
    };
    let what = || format!("nothing is kept on disk by {}", names.join(", "));
    (!names.is_empty()).then(|| hint("no-persistence", what(), todo))
}

/// Counting needs a permission that locks don't need.
fn keys(node: &Seen, settings: &Settings) -> Option<Finding> {
    match &node.keys {
        Err(Reason::NoPermission(_)) if node.health.role().is_some() => Some(hint(
            "no-count",
            "its lock keys can't be counted: the user lacks +scan".into(),
            format!("nothing, or: {}", acl(&settings.prefix)),
        )),
        _ => None,
    }
}

fn denied(node: &Seen, settings: &Settings) -> Option<Finding> {
    // `keys` reports the lack of `scan`.
    let denied: Vec<_> =
        node.health.denied.iter().map(|rule| &**rule).filter(|rule| *rule != "scan").collect();
    (!denied.is_empty()).then(|| {
        hint(
            "denied",
            format!("its user is denied {}", denied.join(" ")),
            format!("nothing, if that is on purpose, or: {}", acl(&settings.prefix)),
        )
    })
}

/// Findings about the set as a whole.
fn set(seen: &[Seen], settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let nodes = seen.len();
    if nodes < 3 {
        findings.push(hint(
            "few-nodes",
            format!(
                "with {nodes} node{}, the loss of one stops all locks",
                if nodes == 1 { "" } else { "s" }
            ),
            "three servers survive the loss of one, five that of two",
        ));
    } else if nodes.is_multiple_of(2) {
        let (lose, less) = (nodes - quorum(nodes), nodes - 1);
        findings.push(hint(
            "even-nodes",
            format!("an even number of nodes: {nodes} survive the loss of {lose}, no more than {less} do"),
            "use an odd number",
        ));
    }
    let off: Vec<_> = seen.iter().filter_map(offset).collect();
    let is_own = |found: &Compared| matches!(found, Compared::OwnClock { .. });
    if let Some(found) = seen.iter().find_map(|node| compared(node, is_own)) {
        findings.push(problem(
            "own-clock",
            format!("{found}: locks don't depend on it, dates and schedules of programs here do"),
            "get NTP running on this machine",
        ));
    } else if off.len() >= 2 && off.iter().all(|off| *off > CLOCK_HINT) {
        findings.push(hint(
            "own-clock",
            "every server's clock differs from ours: it is probably this machine's that is wrong"
                .into(),
            "look at this machine's clock first",
        ));
    }
    if !settings.restart_guard {
        findings.push(hint(
            "restart-guard",
            "the restart guard is off: a server that restarted votes at once, whatever it forgot"
                .into(),
            "right for throw-away servers only",
        ));
    }
    let max_ttls: Vec<_> = seen.iter().filter_map(|node| node.health.max_ttl).collect();
    if let Some(longest) = max_ttls.iter().max().filter(|longest| **longest > settings.max_ttl) {
        findings.push(hint(
            "max-ttl",
            format!(
                "the servers' max_ttl is {longest:.1?}, doctor was given {:.1?}",
                settings.max_ttl
            ),
            "probations last as long as the servers' max_ttl; if no client asks for more than doctor was given, doctor --lower-max-ttl",
        ));
    }
    findings
}
