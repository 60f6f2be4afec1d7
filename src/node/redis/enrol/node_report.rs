//! A node's report on its enrolment, its data and its memory.

use std::{sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};

use super::Tag;
use crate::{
    error::Reason,
    hash::fnv,
    membership::other_sets::ForeignSet,
    node::{
        Memory, Persistence,
        redis::{
            RestartGuard,
            encode::Keys,
            server_error::reason,
            values::{info, int, read_time, text},
        },
    },
    protocol::views::Incarnation,
    stripe::STRIPES,
};

/// Value of `once` on a node that learnt from other nodes in its probation.
pub(super) const LEARNT: &str = "copying";
/// Value of `once` on a node that started together with others. Begins with [`LEARNT`].
pub(super) const BOOTSTRAPPED: &str = "copying bootstrapped";

/// The stored membership of a node, and the properties of its server.
#[derive(Clone, Debug)]
pub(crate) struct NodeReport {
    pub(crate) server_micros: u64,
    pub(crate) is_replica: bool,
    pub(crate) run_id: Arc<str>,
    /// Run and history of the server's current data.
    pub(crate) run: Arc<str>,
    pub(crate) tag: Tag,
    /// The longest TTL that the node grants.
    pub(crate) max_ttl: Duration,
    /// The value of `max_ttl` before it was lowered, in ms, and the client that lowered it; empty
    /// once all locks with that TTL have expired.
    pub(crate) previous_max_ttl: Arc<str>,
    pub(crate) floor: u64,
    /// Whether the fences are missing under the key that the tag names; false if that was not read.
    pub(crate) lacks_fences: bool,
    /// The stored layout, for display.
    pub(crate) layout: Arc<str>,
    /// Whether long-lived records are still being copied to the node.
    pub(crate) copying: bool,
    /// The owners of the other names, in the order of the names.
    pub(crate) owners: Vec<Option<Incarnation>>,
    /// Time at which a client of its set last marked the node as in use, in µs of the server's clock.
    pub(crate) seen: Arc<str>,
    /// Number of nodes of its set; zero if unknown.
    pub(crate) size: usize,
    /// The layout of the set that the node was moved from, and the number of its nodes.
    pub(crate) moved_from: (Arc<str>, usize),
    pub(crate) memory: Option<Memory>,
    pub(crate) persistence: Option<Persistence>,
    /// Whether the latest snapshot and the latest write to the append-only file succeeded.
    pub(crate) persists: Option<bool>,
}

/// The fields of a node's record, before the owners of the other names.
const FIELDS: [&str; 10] =
    ["tag", "max_ttl", "floor", "layout", "once", "seen", "size", "from", "from_size", "longer"];

/// Adds the commands that read a node's report. `tag` is the tag that the node had before, which
/// names the key of its fences; `others` are the names of the other nodes, sorted.
///
/// The record is read first. If the server's history changes in between, the report has another run
/// than the record.
pub(crate) fn add_check(pipeline: &mut Pipeline, keys: &Keys, tag: &Tag, others: &[&str]) {
    let record = pipeline.cmd("HMGET").arg(&keys.meta).arg(&FIELDS[..]);
    for name in others {
        record.arg(format!("owner:{name}"));
    }
    pipeline.cmd("ZCARD").arg(keys.fences(tag));
    pipeline.cmd("TIME");
    pipeline.cmd("INFO").arg("server");
    pipeline.cmd("INFO").arg("replication");
    pipeline.cmd("INFO").arg("memory");
    pipeline.cmd("INFO").arg("persistence");
    pipeline.cmd("CONFIG").arg("GET").arg("save");
}

/// Returns the run of a server and the history of its data in the form of a tag: 16 digits of each.
///
/// A restart changes the run, and a promotion the history. Without the restart guard neither
/// counts.
pub(crate) fn run(server: &Value, replication: &Value, restart: RestartGuard) -> Option<Arc<str>> {
    if restart == RestartGuard::Off {
        return Some("0".repeat(32).into());
    }
    let [run, history] = [info(server, "run_id")?, info(replication, "master_replid")?];
    Some(format!("{}{}", digits(&run), digits(&history)).into())
}

/// Returns the first 16 digits of an id, or of its hash if the id has another form.
fn digits(id: &str) -> String {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_usual = id.len() == 40 && id.bytes().all(is_hex);
    if is_usual { id[..16].to_owned() } else { format!("{:016x}", fnv(id)) }
}

impl NodeReport {
    /// Parses the replies to [`add_check`].
    pub(crate) fn parse(
        answers: &mut impl Iterator<Item = Value>,
        asked: &Tag,
        restart: RestartGuard,
    ) -> Result<Self, Reason> {
        let mut next = || answers.next().unwrap_or(Value::Nil);
        let (record, fences, time) = (next(), next(), next());
        let (server, replication) = (next(), next());
        let (memory, persistence, save) = (next(), next(), next());
        let items = match record {
            Value::Array(items) => items,
            Value::ServerError(error) => return Err(reason(&error)),
            _ => return Err(Reason::Protocol("HMGET did not answer with a list".into())),
        };
        for answer in [&server, &replication] {
            if let Value::ServerError(error) = answer {
                return Err(reason(error));
            }
        }
        let text = |i: usize| items.get(i).map(text).unwrap_or_default();
        let number = |i: usize| text(i).parse::<u64>().unwrap_or(0);
        let count = |i: usize| usize::try_from(number(i)).unwrap_or(0);
        let owners = items.get(FIELDS.len()..).unwrap_or_default();
        let owner = |value: &Value| Incarnation::parse(&crate::node::redis::values::text(value));
        let Some(run) = run(&server, &replication, restart) else {
            let text = "INFO did not answer with a run id and a replication id";
            return Err(Reason::Protocol(text.into()));
        };
        Ok(Self {
            server_micros: read_time(time)?,
            is_replica: info(&replication, "role").as_deref() != Some("master"),
            run_id: info(&server, "run_id").unwrap_or_default(),
            run,
            tag: Tag::new(text(0)),
            max_ttl: Duration::from_millis(number(1)),
            floor: number(2),
            lacks_fences: *text(0) == **asked.text()
                && int(&fences).is_some_and(|stripes| stripes < STRIPES as u64),
            layout: text(3),
            copying: text(4).starts_with(LEARNT),
            seen: text(5),
            size: count(6),
            moved_from: (text(7), count(8)),
            previous_max_ttl: text(9),
            owners: owners.iter().map(owner).collect(),
            memory: memory_of(&memory),
            persistence: persistence_of(&persistence, &save),
            persists: persists(&persistence),
        })
    }

    /// Returns the longest TTL of any lock that the node may store: `max_ttl`, or its earlier
    /// value.
    pub(crate) fn longest_ttl(&self) -> Duration {
        self.max_ttl.max(Duration::from_millis(leading_number(&self.previous_max_ttl)))
    }

    /// Returns whether the record shows no vote, in this set or in another: each activation stores a
    /// floor above zero.
    pub(super) fn never_voted(&self) -> bool {
        self.floor == 0 && self.moved_from.0.is_empty() && !self.copying && self.tag.is_probation()
    }

    /// Returns the set that the node belongs to.
    pub(super) fn other_set(&self) -> ForeignSet {
        ForeignSet {
            layout: self.tag.layout().into(),
            size: self.size,
            seen: Arc::clone(&self.seen),
            max_ttl: self.longest_ttl(),
        }
    }

    /// Returns the stored `max_ttl`; empty if none is stored.
    pub(super) fn raw_max_ttl(&self) -> String {
        if self.max_ttl.is_zero() { String::new() } else { millis(self.max_ttl).to_string() }
    }

    pub(super) fn run_number(&self) -> u128 {
        u128::from_str_radix(&self.run, 16).unwrap_or(0)
    }
}

pub(super) fn leading_number(text: &str) -> u64 {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().unwrap_or(0)
}

fn memory_of(value: &Value) -> Option<Memory> {
    let number = |name| info(value, name)?.parse().ok();
    let (limit, used) = (number("maxmemory")?, number("used_memory").unwrap_or(0));
    let uncounted = number("mem_not_counted_for_evict").unwrap_or(0);
    Some(Memory { uncounted, ..Memory::new(limit, info(value, "maxmemory_policy")?, used) })
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

fn persists(value: &Value) -> Option<bool> {
    let status = |name| Some(&*info(value, name)? == "ok");
    Some(status("rdb_last_bgsave_status")? && status("aof_last_write_status")?)
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
