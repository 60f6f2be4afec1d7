//! A node's report on its enrolment, its data and its memory.

use std::{sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};

use super::{Layout, Tag};
use crate::{
    error::Reason,
    node::{
        Memory, Persistence,
        redis::{
            RestartGuard,
            decode::{self, int, text},
            scripts,
            server_error::reason,
            server_traits::{self, ServerTraits},
        },
    },
    protocol::views::Incarnation,
    stripe::STRIPES,
};

/// Value of `once` on a node that learnt from others in its probation.
pub(super) const LEARNT: &str = "copying";
/// Value of `once` on a node that started with others. Begins with [`LEARNT`].
pub(super) const BOOTSTRAPPED: &str = "copying bootstrapped";

/// A node's report.
#[derive(Clone, Debug)]
pub(crate) struct NodeReport {
    pub(crate) server_micros: u64,
    pub(crate) is_replica: bool,
    pub(crate) run_id: Arc<str>,
    /// Run and history of the data that the server has now.
    pub(crate) run: Arc<str>,
    pub(crate) tag: Tag,
    /// The longest TTL that it grants.
    pub(crate) max_ttl: Duration,
    /// The longest TTL of any lock that it may store: `max_ttl`, or its earlier value.
    pub(crate) longest_ttl: Duration,
    pub(crate) floor: u64,
    /// The layout that is stored, for people to read.
    pub(crate) layout: Arc<str>,
    /// Long-lived records are still being taken over.
    pub(crate) copying: bool,
    /// The owners of the other names, in the order of the names.
    pub(crate) owners: Vec<Option<Incarnation>>,
    /// A mark that clients of its set change.
    pub(crate) seen: Arc<str>,
    /// Number of nodes of its set; zero if unknown.
    pub(crate) size: usize,
    /// The layout, and how many nodes it has, of the set that the node was moved from.
    pub(crate) moved_from: (Arc<str>, usize),
    pub(crate) memory: Option<Memory>,
    pub(crate) persistence: Option<Persistence>,
}

/// The parameters of a health check.
pub(crate) struct EnrolCheck<'a> {
    pub(crate) meta: &'a str,
    pub(crate) layout: &'a Layout,
    pub(crate) restart: RestartGuard,
    pub(crate) max_ttl: Duration,
    /// Whether the node's `max_ttl` may be raised.
    pub(crate) raise: bool,
    /// Whether the node may be enrolled where it has no tag of the present run.
    pub(crate) enrol: bool,
    /// What a probe found out about the server.
    pub(crate) traits: ServerTraits,
    /// The least epoch of a new enrolment.
    pub(crate) least_epoch: u32,
    /// The incarnation that is to be enrolled anew, as another one owns its name.
    pub(crate) reclaims: Option<Incarnation>,
    /// The names of the other nodes, sorted.
    pub(crate) others: Vec<&'a str>,
}

/// Adds a health check, which enrols a node that has no tag or that of an earlier incarnation.
pub(crate) fn add_check(pipeline: &mut Pipeline, check: &EnrolCheck<'_>) {
    let nonce = format!("{:016x}", crate::random::number());
    pipeline
        .cmd("EVAL")
        .arg(scripts::ENROL.text(check.traits.knows_flags))
        .arg(1)
        .arg(check.meta)
        .arg(&*check.layout.hash)
        .arg(&*check.layout.description)
        .arg(nonce)
        .arg(millis(check.max_ttl))
        .arg(check.restart.to_string())
        .arg(if check.raise { "raise" } else { "" })
        .arg(STRIPES)
        .arg(if check.enrol { "enrol" } else { "" })
        .arg(check.least_epoch)
        .arg(check.reclaims.map(|incarnation| incarnation.to_string()).unwrap_or_default())
        .arg(&check.others)
        .arg(check.traits.told_text());
    pipeline.cmd("INFO").arg("memory");
    pipeline.cmd("INFO").arg("persistence");
    pipeline.cmd("CONFIG").arg("GET").arg("save");
    if check.traits.told.is_some() {
        // Whether it is still the server whose INFO the script was given.
        server_traits::add_identity(pipeline);
    }
}

impl NodeReport {
    /// Parses the replies to a health check.
    pub(crate) fn parse(answers: &mut impl Iterator<Item = Value>) -> Result<Self, Reason> {
        let mut next = || answers.next().unwrap_or(Value::Nil);
        let (enrolled, memory, persistence, save) = (next(), next(), next(), next());
        let items = match enrolled {
            Value::Array(items) => items,
            Value::ServerError(error) => return Err(reason(&error)),
            _ => return Err(Reason::Protocol("the enrolment did not answer with a list".into())),
        };
        let number = |i: usize| items.get(i).and_then(int).unwrap_or(0);
        let text = |i: usize| items.get(i).map(text).unwrap_or_default();
        let count = |i: usize| usize::try_from(number(i)).unwrap_or(0);
        let owner = |value: &Value| Incarnation::parse(&decode::text(value));
        let owners = match items.get(9) {
            Some(Value::Array(owners)) => owners.iter().map(owner).collect(),
            _ => Vec::new(),
        };
        let report = Self {
            server_micros: number(0),
            is_replica: &*text(1) != "master",
            run_id: text(2),
            run: text(3),
            tag: Tag::new(text(4)),
            max_ttl: Duration::from_millis(number(5)),
            longest_ttl: Duration::from_millis(number(5).max(number(14))),
            floor: number(6),
            layout: text(7),
            copying: text(8).starts_with(LEARNT),
            owners,
            seen: text(10),
            size: count(11),
            moved_from: (text(12), count(13)),
            memory: memory_of(&memory),
            persistence: persistence_of(&persistence, &save),
        };
        if report.run.len() != 32 {
            let text = "the enrolment did not answer with a run id and a replication id";
            return Err(Reason::Protocol(text.into()));
        }
        Ok(report)
    }
}

/// A field of an answer to INFO.
pub(crate) fn info(value: &Value, name: &str) -> Option<Arc<str>> {
    let text = match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes),
        Value::VerbatimString { text, .. } => text.as_str().into(),
        _ => return None,
    };
    let field = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().into());
    text.lines().find_map(field)
}

fn memory_of(value: &Value) -> Option<Memory> {
    let number = |name| info(value, name)?.parse().ok();
    let (limit, used) = (number("maxmemory")?, number("used_memory").unwrap_or(0));
    Some(Memory::new(limit, info(value, "maxmemory_policy")?, used))
}

fn persistence_of(value: &Value, save: &Value) -> Option<Persistence> {
    let aof = &*info(value, "aof_enabled")? == "1";
    // CONFIG GET may be denied.
    let snapshots = match save {
        Value::Array(pair) => pair.get(1).map(|rules| !text(rules).is_empty()),
        Value::Map(pairs) => pairs.first().map(|(_, rules)| !text(rules).is_empty()),
        _ => None,
    };
    Some(Persistence::new(aof, snapshots))
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn info_is_read_from_both_texts() {
        let text = "# Memory\r\nused_memory:17\r\nused_memory_rss:19\r\n";
        let format = ::redis::VerbatimFormat::Text;
        for value in [bulk(text), Value::VerbatimString { format, text: text.into() }] {
            assert_eq!(info(&value, "used_memory").as_deref(), Some("17"));
            assert_eq!(info(&value, "used"), None);
        }
        assert_eq!(info(&Value::Nil, "used_memory"), None);
    }

    #[test]
    fn memory_needs_limit_and_policy() {
        let policy = "maxmemory_policy:noeviction";
        let read = |text: &str| memory_of(&bulk(text));
        let of = |limit, used| Some(Memory::new(limit, "noeviction".into(), used));
        assert_eq!(read(&format!("maxmemory:7\nused_memory:5\n{policy}")), of(7, 5));
        assert_eq!(read(&format!("maxmemory:7\n{policy}")), of(7, 0));
        assert_eq!((read("maxmemory:7"), read(policy)), (None, None));
    }

    #[test]
    fn persistence_is_read_from_both_replies() {
        let read = |aof: &str, save| persistence_of(&bulk(&format!("aof_enabled:{aof}")), &save);
        let array = |rules| Value::Array(vec![bulk("save"), bulk(rules)]);
        let map = |rules| Value::Map(vec![(bulk("save"), bulk(rules))]);
        let of = |aof, snapshots| Some(Persistence::new(aof, snapshots));
        assert_eq!(read("1", array("3600 1")), of(true, Some(true)));
        assert_eq!(read("0", array("")), of(false, Some(false)));
        assert_eq!(read("0", map("3600 1")), of(false, Some(true)));
        assert_eq!(read("1", map("")), of(true, Some(false)));
        assert_eq!(read("1", Value::Nil), of(true, None));
        assert_eq!(persistence_of(&Value::Nil, &Value::Nil), None);
    }
}
