//! The error replies of Redis and Valkey that no other [`Reason`](super::Reason) stands for: whether waiting
//! helps, and what to do.
//!
//! Classified where they are read, and not in this table: `NOAUTH`, `WRONGPASS`, `NOPERM`, `MOVED`,
//! `READONLY`, `OOM`, `BUSY`, `LOADING`, `MISCONF`, `NOREPLICAS` and `DENIED`, and what servers answer to
//! `AUTH`, `SELECT` and `SCRIPT LOAD`.

/// What is known of an error reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerReply {
    /// The beginning of its text.
    begin: &'static str,
    /// Whether it lasts until somebody changes something: waiting does not help.
    pub(super) lasts: bool,
    /// The action that an operator should take.
    pub(super) todo: &'static str,
}

const fn heals(begin: &'static str, todo: &'static str) -> ServerReply {
    ServerReply { begin, lasts: false, todo }
}

const fn lasts(begin: &'static str, todo: &'static str) -> ServerReply {
    ServerReply { begin, lasts: true, todo }
}

/// Advice for commands that a server does not have.
const ENABLE: &str = "enable the commands that docs/security.md lists, under their own names (rename-command, and the disabled commands of a managed service), or use another server";
/// Advice for keys of another type.
const FOREIGN_KEY: &str = "another program has stored a key under the prefix: find it (TYPE), stop the program, and delete the key, or choose another key_prefix";

/// In each group of one code, the longest text first.
const REPLIES: [ServerReply; 21] = [
    heals(
        "ERR max number of clients",
        "raise maxclients, and find out which programs hold connections: CLIENT LIST",
    ),
    lasts("ERR unknown command", ENABLE),
    lasts("ERR Unknown Redis command called from script", ENABLE),
    lasts("ERR Unknown Valkey command called from script", ENABLE),
    lasts("ERR unknown subcommand", ENABLE),
    lasts(
        "ERR Protocol error",
        "something between this program and the server changes what is sent, or the port is not that of a Redis server: correct the URL, or leave out the proxy",
    ),
    lasts(
        "NOPROTO",
        "use a server that speaks RESP2, or another proxy: this one refuses the protocol",
    ),
    lasts("WRONGTYPE", FOREIGN_KEY),
    heals("NOSCRIPT", "nothing now: the scripts are loaded again with the next connection"),
    heals(
        "MASTERDOWN",
        "the server is a replica that has lost its master: see why, and use an independent server as the node",
    ),
    heals(
        "CLUSTERDOWN",
        "the Cluster does not serve the node's slot: see CLUSTER INFO, and repair it",
    ),
    heals("TRYAGAIN", "the node's slot is being moved: wait until that has ended"),
    heals("ASK", "the node's slot is being moved: wait until that has ended"),
    heals("REDIRECT", "a failover is under way: wait until it has ended"),
    lasts(
        "CROSSSLOT",
        "give the key prefix a hash tag, such as {redlock}, in all programs: it keeps the keys of a lock together",
    ),
    heals("EXECABORT", "see the server's log: it refused a part of a transaction"),
    heals(
        "UNKILLABLE",
        "a script that has written runs for a long time: see which program sent it",
    ),
    heals("NOTBUSY", "nothing: no script runs any more"),
    heals(
        "UNBLOCKED",
        "nothing: the server's role has changed, and the connection is opened again",
    ),
    heals("NOMASTERLINK", "the server is a replica that is not in sync: use an independent server"),
    heals("NOTREADY", "wait: the server is starting"),
];

/// Returns what is known of an error reply by its text.
pub(super) fn known(text: &str) -> Option<&'static ServerReply> {
    REPLIES.iter().find(|reply| {
        let rest = text.strip_prefix(reply.begin);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_uppercase()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_servers_are_known() {
        for (text, lasts) in [
            ("ERR max number of clients reached", Some(false)),
            ("ERR max number of clients + cluster connections reached", Some(false)),
            ("ERR unknown command 'EVALSHA', with args beginning with:", Some(true)),
            ("ERR Unknown Redis command called from script script: 5a…", Some(true)),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Some(true)),
            ("CLUSTERDOWN Hash slot not served", Some(false)),
            ("CROSSSLOT Keys in request don't hash to the same slot", Some(true)),
            ("ASK 3999 127.0.0.1:6381", Some(false)),
            ("NOPROTO unsupported protocol version", Some(true)),
            ("ERR no such key", None),
            ("ASKING", None),
        ] {
            assert_eq!(known(text).map(|reply| reply.lasts), lasts, "{text}");
        }
    }

    #[test]
    fn each_row_is_found() {
        for reply in &REPLIES {
            assert_eq!(known(reply.begin), Some(reply));
            assert!(!reply.todo.is_empty());
        }
    }
}
