//! The votes of nodes, and the reasons why one does not count.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use crate::{server_text::ServerText, unfit::UnfitServer};

/// The vote of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Vote {
    /// The node's name, by default `host:port/db`. Never a password.
    pub node: Arc<str>,
    /// Its answer.
    pub outcome: VoteOutcome,
}

impl Vote {
    /// Creates the vote of a node.
    pub fn new(node: Arc<str>, outcome: VoteOutcome) -> Self {
        Self { node, outcome }
    }
}

/// The answer of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VoteOutcome {
    /// The node stored or renewed the key.
    Granted,
    /// The node keeps the key of another client.
    Held {
        /// Its `owner`; `None` if this crate did not write the key.
        owner: Option<Arc<str>>,
        /// Remaining TTL; `None` if the key has none.
        remaining: Option<Duration>,
    },
    /// The vote does not count.
    NotCounted(Reason),
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.node)?;
        match &self.outcome {
            VoteOutcome::Granted => f.write_str("granted"),
            VoteOutcome::Held { owner, remaining } => {
                write!(f, "held by {}", ServerText(owner.as_deref().unwrap_or("a foreign key")))?;
                match remaining {
                    Some(left) => write!(f, " for {left:.1?}"),
                    None => f.write_str(" without a TTL"),
                }
            }
            VoteOutcome::NotCounted(reason) => write!(f, "{reason}"),
        }
    }
}

/// Why a node's vote does not count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No answer within the node timeout. The operation may have run.
    TimedOut,
    /// The other nodes decided before the answer was due. The operation may have run.
    NotAwaited,
    /// The connection broke before the answer came. The operation may have run.
    Disconnected,
    /// The node dropped the operation without an answer. It may have run.
    Unknown,
    /// There is no connection, and nothing was sent. The text is the error of the latest attempt to
    /// connect.
    NotConnected(Arc<str>),
    /// The attempt ended before the operation was sent.
    Stale,
    /// Too many operations wait for this node, or too many attempts of this process are in flight;
    /// nothing was sent.
    Overloaded,
    /// Nothing was sent, as the server was not located: its host name has no address, or the
    /// Sentinels or the nodes of the Cluster refuse to report it. The text is theirs.
    NotLocated(Arc<str>),
    /// The server's certificate was refused, the server does not use TLS, or local certificates
    /// can't be read. Nothing was sent.
    Tls(Arc<str>),
    /// The server requires credentials, or refused them.
    Auth(Arc<str>),
    /// The credentials lack the permission for a command or a key (`NOPERM`).
    NoPermission(Arc<str>),
    /// The server is a replica (`READONLY`), and replicas do not vote.
    ReadOnly,
    /// The server is at `maxmemory` (`OOM`).
    OutOfMemory,
    /// The server is running a script (`BUSY`).
    Busy,
    /// The server is loading its data (`LOADING`).
    Loading,
    /// The server refuses writes until its persistence works again (`MISCONF`).
    PersistenceFailing,
    /// The server refuses writes while too few of its replicas are connected (`NOREPLICAS`).
    NoReplicas,
    /// The node lost its enrolment, or has a new one, which is being read.
    WrongTag {
        /// The tag that the node stores; empty if none.
        found: Arc<str>,
    },
    /// The node may have forgotten locks, and does not vote until all of them have expired.
    Probation {
        /// Remaining time; zero while it waits until enough other nodes vote.
        remaining: Duration,
    },
    /// The node is enrolled in another set: with other nodes, another prefix or other guards.
    OtherLayout {
        /// Its set.
        found: Arc<str>,
        /// The configured set.
        ours: Arc<str>,
    },
    /// The servers disagree on the owners of their names, as a name leads to another server than
    /// before. Their answers do not count together.
    NamesDiffer,
    /// Another server was enrolled under this node's name.
    Displaced,
    /// Another server has the node's keys now, as reported by Sentinels or a Cluster. A node that
    /// they locate reconnects to it; an operation that was sent to the former server may have run
    /// there.
    Moved {
        /// The address of the other server.
        to: Arc<str>,
    },
    /// Another node is the same server, so it would vote twice.
    SameServer {
        /// The other node's name.
        other: Arc<str>,
    },
    /// The server's clock jumped, so its keys may have expired too early. It does not vote for
    /// `max_ttl`.
    ClockJumped {
        /// Size of the jump in µs; negative for a jump back.
        by_micros: i64,
    },
    /// The server may evict keys, and the eviction guard refuses such servers.
    Evicts {
        /// Its `maxmemory-policy`.
        policy: Arc<str>,
    },
    /// The TTL is longer than the node's `max_ttl`, which is raised once a quorum votes.
    TtlTooLong,
    /// The node's `max_ttl` was not lowered, or a client with longer TTLs raised it again.
    MaxTtlRaised {
        /// Its `max_ttl`.
        to: Duration,
    },
    /// The release was acknowledged, but an unanswered operation may reach the server after it. The
    /// release is repeated.
    Unsettled,
    /// The operation reached the server after its deadline, and did not run.
    Late,
    /// The proposed fencing token is more than 60 s ahead of the node's clock. Either this clock is
    /// behind the other nodes' clocks, or a clock that was ahead has raised the fences: another
    /// node's clock, or the local one while the nodes' clocks were unknown.
    TokenAhead,
    /// The key expired, was deleted or was overwritten.
    KeyGone,
    /// The node granted the key, but its fence is above all proposed tokens.
    FenceAhead,
    /// A greater fencing token was promised for the job's claim: another client has its lock now.
    Superseded,
    /// The node lost its records, and has not copied all of them from the other nodes yet.
    Incomplete,
    /// The node has claims of the maximum number of jobs.
    TooManyJobs,
    /// The server's kind or mode does not allow it to vote.
    Unfit(UnfitServer),
    /// Another error of the server; the text is the server's.
    Server(Arc<str>),
    /// The answer has an unknown form, or belongs to another operation. The operation may have run.
    Protocol(Cow<'static, str>),
}

impl Reason {
    /// Returns whether the operation may have run on the node.
    ///
    /// False only if it certainly did not run: it was not sent, or the server refused it. An acquire that finds
    /// another tag may have stored its key before.
    pub fn may_have_run(&self) -> bool {
        !matches!(
            self,
            Self::NotConnected(_)
                | Self::NotLocated(_)
                | Self::Tls(_)
                | Self::NoReplicas
                | Self::Stale
                | Self::Overloaded
                | Self::Auth(_)
                | Self::ReadOnly
                | Self::Busy
                | Self::Loading
                | Self::Probation { .. }
                | Self::OtherLayout { .. }
                | Self::SameServer { .. }
                | Self::Displaced
                | Self::Evicts { .. }
                | Self::TtlTooLong
                | Self::Late
                | Self::TokenAhead
                | Self::Superseded
                | Self::TooManyJobs
                | Self::Incomplete
                | Self::Unfit(_)
        )
    }

    /// Returns the command that the server denies, as ACL rules name it, if the answer names one.
    #[doc(hidden)]
    pub fn denied_command(&self) -> Option<Arc<str>> {
        /// Maximum length of a command's name, in bytes.
        const MAX_NAME: usize = 64;
        let Self::NoPermission(text) = self else { return None };
        let (_, rest) = text.split_once("run the '")?;
        let name = rest.split('\'').next()?.to_ascii_lowercase().replace(' ', "|");
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"|-_.".contains(&byte);
        let is_usual = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_name);
        is_usual.then(|| name.into())
    }

    /// Returns whether this answer ends the connection. The address may lead to another server now,
    /// and a new connection authenticates again.
    #[doc(hidden)]
    pub const fn ends_connection(&self) -> bool {
        matches!(self, Self::ReadOnly | Self::Loading | Self::Auth(_) | Self::Moved { .. })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("timed out"),
            Self::NotAwaited => f.write_str("not awaited: the other nodes decided"),
            Self::Disconnected => f.write_str("connection lost before the answer"),
            Self::Unknown => f.write_str("dropped without an answer"),
            Self::NotConnected(why) => write!(f, "not connected ({})", ServerText(why)),
            Self::NotLocated(why) => write!(f, "not located ({})", ServerText(why)),
            Self::Tls(why) => write!(f, "no TLS connection ({})", ServerText(why)),
            Self::Stale => f.write_str("the attempt ended before the operation was sent"),
            Self::Overloaded => f.write_str("too many operations or attempts are in flight"),
            Self::Auth(text) => write!(f, "authentication failed: {}", ServerText(text)),
            Self::NoPermission(text) => write!(f, "permission denied: {}", ServerText(text)),
            Self::ReadOnly => f.write_str("read-only: the server is a replica"),
            Self::OutOfMemory => f.write_str("out of memory: the server is at maxmemory"),
            Self::Busy => f.write_str("busy: the server is running a script"),
            Self::Loading => f.write_str("loading: the server is reading its data"),
            Self::PersistenceFailing => {
                f.write_str("writes refused: the server cannot persist (MISCONF)")
            }
            Self::NoReplicas => {
                f.write_str("writes refused: too few replicas are connected (NOREPLICAS)")
            }
            Self::WrongTag { found } if found.is_empty() => f.write_str("not enrolled"),
            Self::WrongTag { .. } => f.write_str("its enrolment changed; reading it again"),
            Self::Probation { remaining } if remaining.is_zero() => {
                f.write_str("in probation: waiting until enough other nodes vote")
            }
            Self::Probation { remaining } => {
                write!(f, "in probation: it may have forgotten locks, and votes in {remaining:.1?}")
            }
            Self::OtherLayout { found, ours } => {
                let [found, ours] = layouts(found, ours);
                write!(
                    f,
                    "belongs to another set of nodes: it is enrolled for [{}], this client is configured for [{ours}]; give all clients the same nodes, names, prefix and guards, or move the set with adopt",
                    ServerText(found)
                )
            }
            Self::NamesDiffer => f.write_str(
                "disagrees with the other nodes on the owners of their names, so its vote does not count; reading them again",
            ),
            Self::Displaced => f.write_str(
                "another server was enrolled under its name: check that its address leads all clients to one server",
            ),
            Self::Moved { to } => {
                write!(
                    f,
                    "another server has its keys now, {}: nodes with a redis+sentinel:// or redis+cluster:// URL follow",
                    ServerText(to)
                )
            }
            Self::SameServer { other } => {
                write!(f, "is the same server as {other}, and one server must not vote twice")
            }
            Self::ClockJumped { by_micros } => {
                let by = Duration::from_micros(by_micros.unsigned_abs());
                let way = if *by_micros < 0 { "back" } else { "forward" };
                write!(f, "its clock jumped {way} by {by:.1?}: no votes for max_ttl")
            }
            Self::Evicts { policy } => {
                let policy = ServerText(policy);
                write!(f, "may evict locks (maxmemory-policy {policy}); set noeviction")
            }
            Self::TtlTooLong => f.write_str("the TTL is above the node's max_ttl"),
            Self::MaxTtlRaised { to } => write!(
                f,
                "another client raised it to {to:?} meanwhile: first lower ttl and max_ttl in the configuration of all clients"
            ),
            Self::Unsettled => {
                f.write_str("released, but an unanswered operation may arrive after it")
            }
            Self::Late => f.write_str("reached the server after its deadline"),
            Self::TokenAhead => {
                f.write_str(
                    "the fencing token would be more than 60 s ahead of the node's clock: either that clock is behind, or a clock that was ahead (of another node, or of this process) has raised the fences",
                )
            }
            Self::Superseded => {
                f.write_str("another client has claimed the job with a newer fencing token")
            }
            Self::Incomplete => f.write_str(
                "has lost its records, and is copying them from the other nodes",
            ),
            Self::TooManyJobs => f.write_str(
                "has claims of the maximum number of jobs: forget unused jobs with forget_job or `redlock jobs forget --unused-for`",
            ),
            Self::KeyGone => f.write_str("the key is gone"),
            Self::FenceAhead => f.write_str("granted, but its fence is above the proposed token"),
            Self::Unfit(unfit) => write!(f, "not fit to vote: {unfit}"),
            Self::Server(text) => write!(f, "server error: {}", ServerText(text)),
            Self::Protocol(text) => write!(f, "unexpected answer: {}", ServerText(text)),
        }
    }
}

/// Returns the texts of two layouts, as errors show them: the set for which a node is enrolled, and the set of this
/// client.
///
/// A layout ends with its form, and a hint in parentheses for clients of another form. The hint is shown only if
/// the node has such a form.
pub fn layouts<'a>(found: &'a str, ours: &'a str) -> [&'a str; 2] {
    fn form(layout: &str) -> &str {
        layout.rfind(", form ").map_or("", |at| &layout[at..])
    }
    let without_hint = |layout: &'a str| {
        let at = form(layout).find(" (").map(|at| layout.len() - form(layout).len() + at);
        at.map_or(layout, |at| &layout[..at])
    };
    let found = if form(found) == form(ours) { without_hint(found) } else { found };
    [found, without_hint(ours)]
}

/// Which of several sets of nodes. [`Display`](fmt::Display) is `set 2 of 3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SetNumber {
    /// The place of the set in the list of sets, from 1.
    pub number: u16,
    /// Number of sets.
    pub count: u16,
}

impl SetNumber {
    /// Creates the number of a set, from 1, of `count` sets.
    pub const fn new(number: u16, count: u16) -> Self {
        Self { number, count }
    }
}

impl fmt::Display for SetNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set {} of {}", self.number, self.count)
    }
}

/// The votes of all nodes, in their configured order; of the nodes of one set, if there are several.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Votes {
    votes: Arc<[Vote]>,
    set: Option<SetNumber>,
}

impl Votes {
    /// Creates the votes of all nodes, in their order.
    pub fn new(votes: impl IntoIterator<Item = Vote>) -> Self {
        Self { votes: votes.into_iter().collect(), set: None }
    }

    /// Adds which set the nodes are; `None` if there is one.
    #[must_use]
    pub fn in_set(self, set: Option<SetNumber>) -> Self {
        Self { set, ..self }
    }

    /// Returns which set the nodes are; `None` if there is one.
    pub const fn set(&self) -> Option<SetNumber> {
        self.set
    }
}

impl std::ops::Deref for Votes {
    type Target = [Vote];

    fn deref(&self) -> &[Vote] {
        &self.votes
    }
}

impl fmt::Debug for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(set) = self.set {
            write!(f, "{set}: ")?;
        }
        // The long reason of nodes of another set is written once.
        let is_same = |a: &Vote, b: &Vote| {
            matches!(a.outcome, VoteOutcome::NotCounted(Reason::OtherLayout { .. }))
                && a.outcome == b.outcome
        };
        for (i, alike) in self.chunk_by(is_same).enumerate() {
            f.write_str(if i > 0 { "; " } else { "" })?;
            let Some((last, others)) = alike.split_last() else { continue };
            others.iter().try_for_each(|vote| write!(f, "{}, ", vote.node))?;
            write!(f, "{last}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_set_and_groups_nodes_of_another() {
        let other = || Reason::OtherLayout { found: "a".into(), ours: "b".into() };
        let vote = |(node, reason): (&str, Reason)| {
            Vote::new(node.into(), VoteOutcome::NotCounted(reason))
        };
        let votes = [("x", other()), ("y", other()), ("z", Reason::TimedOut), ("v", other())];

        let text = Votes::new(votes.map(vote)).in_set(Some(SetNumber::new(2, 3))).to_string();

        assert!(text.starts_with("set 2 of 3: x, y: belongs to another set"), "{text}");
        assert!(text.contains("; z: timed out; v: belongs to another set"), "{text}");
    }

    #[test]
    fn hint_is_for_clients_of_another_form() {
        let hint = "(upgrade a client that reports this as another set of its own nodes)";
        let layout =
            |nodes: &str, form: &str| format!("2 nodes ({nodes}), prefix p, {form} {hint}");
        let shown = |found: String, ours: String| {
            Reason::OtherLayout { found: found.into(), ours: ours.into() }.to_string()
        };

        let same_form = shown(layout("a, b", "form 2"), layout("a, c", "form 2"));
        let newer = shown(layout("a, b", "form 3"), layout("a, b", "form 2"));
        let older = shown("2 nodes (a, b), prefix p".into(), layout("a, b", "form 2"));

        assert!(!same_form.contains("upgrade"), "{same_form}");
        assert!(
            same_form.contains("[2 nodes (a, b), prefix p, form 2], this client"),
            "{same_form}"
        );
        assert!(same_form.contains("for [2 nodes (a, c), prefix p, form 2];"), "{same_form}");
        assert_eq!(newer.matches(hint).count(), 1, "{newer}");
        assert!(newer.contains(&format!("prefix p, form 3 {hint}], this client")), "{newer}");
        assert!(older.contains("[2 nodes (a, b), prefix p], this client"), "{older}");
        assert!(!older.contains("upgrade"), "{older}");
    }

    /// The texts of Redis 6.2 to 8 and Valkey.
    #[test]
    fn denied_commands_are_named() {
        let named = |text: &str| Reason::NoPermission(text.into()).denied_command();
        let known = [
            ("NOPERM User locks has no permissions to run the 'set' command", "set"),
            (
                "NOPERM this user has no permissions to run the 'hset' command or its subcommand",
                "hset",
            ),
            (
                "ACL failure in script: User app has no permissions to run the 'config|get' command",
                "config|get",
            ),
        ];

        for (text, command) in known {
            assert_eq!(named(text).as_deref(), Some(command));
        }
        for unknown in [
            "The user executing the script can't run this command or subcommand",
            "NOPERM No permissions to access a key",
            "run the '' command",
            "run the 'x\ny' command",
            &format!("run the '{}' command", "x".repeat(65)),
        ] {
            assert_eq!(named(unknown), None, "{unknown}");
        }
    }
}
