//! The locks of the fleet.

use std::{borrow::Cow, sync::Arc, time::SystemTime};

use futures_util::TryStreamExt as _;
use serde::Serialize;
use tower_redlock::{
    Redlock, Resource,
    error::{Reason, VoteOutcome},
    lock::{Holder, SharedHolder},
};

use super::cached_value::Reading;
use crate::text::{serialize_time, unix_millis};

/// Maximum number of locks that are read.
const MAX_LOCKS: usize = 100_000;
/// Number of locks after which the first ones are shown.
const FIRST_SHOWN: usize = 1_000;

/// All locks, sorted by name, the slots of a name together, as far as they were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockListing {
    pub(crate) locks: Vec<ShownLock>,
    /// There are more than were read.
    pub(crate) more: bool,
    /// Why locks may be missing.
    pub(crate) error: Option<String>,
}

/// What the servers say of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ShownLock {
    pub(crate) name: Arc<str>,
    /// The number of the slot, if it is one.
    pub(crate) slot: Option<u32>,
    /// The name that the slot belongs to.
    slot_of: Option<Arc<str>>,
    /// `None`: a key that the library did not write.
    pub(crate) owner: Option<Arc<str>>,
    /// Zero without fencing.
    pub(crate) token: u64,
    #[serde(rename = "since_unix_ms", serialize_with = "serialize_time")]
    pub(crate) since: Option<SystemTime>,
    /// By the wall clock of this process. `None`: without a TTL.
    #[serde(rename = "ends_unix_ms", serialize_with = "serialize_time")]
    pub(crate) ends: Option<SystemTime>,
    #[serde(rename = "quorum")]
    pub(crate) is_quorum: bool,
    #[serde(rename = "awaited")]
    pub(crate) is_awaited: bool,
    pub(crate) lingers: bool,
    /// Number of nodes that keep the key of this lease.
    pub(crate) kept: usize,
    pub(crate) nodes: usize,
    /// `shared`, or `exclusive`.
    mode: &'static str,
    /// Number of processes that share it; zero if it is exclusive. What is shown of its owner and times is about
    /// the one that lasts longest.
    pub(crate) readers: usize,
    /// The first 16 of them.
    pub(crate) shared_by: Vec<ShownReader>,
    /// Its names and owners in lower case. Changing the case of 100,000 names at each search would take longer than
    /// the search itself.
    #[serde(skip)]
    folded: Box<str>,
}

/// One process that shares a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ShownReader {
    pub(crate) owner: Arc<str>,
    #[serde(rename = "since_unix_ms", serialize_with = "serialize_time")]
    pub(crate) since: Option<SystemTime>,
}

impl ShownLock {
    /// Returns its name as people read it.
    pub(crate) fn display_name(&self) -> Cow<'_, str> {
        Resource::display_name(&self.name)
    }

    /// Returns whether its name, as it is or as it is shown, or one of its owners contains a text, which is in
    /// lower case.
    pub(crate) fn has(&self, wanted: &str) -> bool {
        self.folded.contains(wanted)
    }

    /// Returns a text that differs from the text of each later holder. All holders of a shared lock have the same,
    /// as the lock is taken from all of them.
    pub(crate) fn mark(&self) -> String {
        if self.readers > 0 {
            return self.mode.into();
        }
        format!("{}-{}", self.token, self.since.and_then(unix_millis).unwrap_or(0))
    }
}

impl From<&Holder> for ShownLock {
    fn from(holder: &Holder) -> Self {
        let (slot, slot_of) = Resource::slot_of(&holder.name).unzip();
        let reader =
            |of: &SharedHolder| ShownReader { owner: Arc::clone(&of.owner), since: of.since };
        Self {
            name: Arc::clone(&holder.name),
            slot,
            slot_of: slot_of.map(Arc::from),
            owner: holder.owner.clone(),
            token: holder.token.get(),
            since: holder.since,
            ends: holder.remaining.and_then(|left| SystemTime::now().checked_add(left)),
            is_quorum: holder.is_quorum,
            is_awaited: holder.is_awaited,
            lingers: holder.lingers,
            kept: holder.kept,
            nodes: holder.votes.len(),
            mode: if holder.is_shared() { "shared" } else { "exclusive" },
            readers: holder.readers,
            shared_by: holder.shared_by.iter().map(reader).collect(),
            folded: fold(holder),
        }
    }
}

/// Returns a name, as it is and as it is shown, and its owners in lower case, separated so that no search matches
/// across them.
fn fold(holder: &Holder) -> Box<str> {
    let name = &*holder.name;
    let other = Some(Resource::display_name(name)).filter(|shown| shown != name);
    let readers = holder.shared_by.iter().map(|reader| &*reader.owner);
    let owner = holder.owner.as_deref().filter(|_| holder.shared_by.is_empty());
    let texts = [Some(name), other.as_deref(), owner].into_iter().flatten();
    texts.chain(readers).map(str::to_lowercase).collect::<Vec<_>>().join("\n").into()
}

/// What the servers say of one name. `Ok(None)`: the lock is free.
pub(crate) type LockDetails = Result<Option<HeldLock>, String>;

/// A holder, as it was read.
#[derive(Clone, Debug)]
pub(crate) struct HeldLock {
    pub(crate) holder: Holder,
    pub(crate) shown: ShownLock,
}

impl From<Holder> for HeldLock {
    fn from(holder: Holder) -> Self {
        Self { shown: ShownLock::from(&holder), holder }
    }
}

impl HeldLock {
    /// Returns what each node keeps, in words.
    pub(crate) fn votes(&self) -> Vec<(Arc<str>, String)> {
        let words = |outcome: &VoteOutcome| match outcome {
            VoteOutcome::Held { owner, remaining } => {
                let owner = owner.as_deref().unwrap_or("a foreign key");
                match remaining {
                    Some(left) => format!("{owner}, with {left:.1?} left when it was read"),
                    None => format!("{owner}, without a TTL"),
                }
            }
            VoteOutcome::NotCounted(Reason::KeyGone) => "no key".into(),
            VoteOutcome::NotCounted(reason) => format!("unknown: {reason}"),
            _ => "unknown".into(),
        };
        let votes = self.holder.votes.iter();
        votes.map(|vote| (Arc::clone(&vote.node), words(&vote.outcome))).collect()
    }
}

pub(super) async fn read(redlock: Redlock, reading: Arc<Reading<LockListing>>) -> LockListing {
    let mut listing = LockListing::default();
    let mut next = FIRST_SHOWN;
    let mut locks = std::pin::pin!(redlock.locks());
    loop {
        match locks.try_next().await {
            Ok(Some(_)) if listing.locks.len() == MAX_LOCKS => listing.more = true,
            Ok(Some(holder)) => {
                listing.locks.push(ShownLock::from(&holder));
                if listing.locks.len() == next {
                    next *= 2;
                    if reading.is_wanted() {
                        reading.show(sorted(listing.clone()));
                    }
                }
                continue;
            }
            Ok(None) => {}
            Err(error) => listing.error = Some(error.to_string()),
        }
        return sorted(listing);
    }
}

fn sorted(mut listing: LockListing) -> LockListing {
    listing.locks.sort_by(|a, b| place(a).cmp(&place(b)));
    listing
}

/// Returns what locks are sorted by.
fn place(lock: &ShownLock) -> (&str, Option<u32>) {
    (lock.slot_of.as_ref().unwrap_or(&lock.name), lock.slot)
}

pub(super) async fn read_one(redlock: Redlock, name: String) -> LockDetails {
    let holder = redlock.inspect(name).await.map_err(|error| error.to_string())?;
    Ok(holder.map(HeldLock::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn search_ignores_case() {
        let redlock = Redlock::builder()
            .nodes_from(&tower_redlock::node::EmbeddedNodes::new(3))
            .owner("Worker-7")
            .build()
            .unwrap();
        let _held = redlock.lock("Invoice:ÜB").await.unwrap();
        let lock = ShownLock::from(&redlock.inspect("Invoice:ÜB").await.unwrap().unwrap());
        for wanted in ["", "invoice", "voice:üb", "worker-7"] {
            assert!(lock.has(wanted), "{wanted}");
        }
        assert!(!lock.has("worker-8") && !lock.has("übworker"));
    }

    #[tokio::test]
    async fn slots_are_found_by_both_names() {
        let redlock = Redlock::embedded();
        let _held = redlock.lock("Export").slots(1).await.unwrap();
        let holder = redlock.inspect("slot:0:Export").await.unwrap().unwrap();
        let lock = ShownLock::from(&holder);

        for wanted in ["slot:0:export", "export, slot 0", "export"] {
            assert!(lock.has(wanted), "{wanted}");
        }
        assert!(!lock.has("export, slot 1"));
    }

    #[tokio::test]
    async fn slots_of_a_name_stand_together() {
        let redlock = Redlock::embedded();
        let mut held = Vec::new();
        for name in ["exports", "export"] {
            held.push(redlock.lock(name).await.unwrap());
        }
        for _ in 0..11 {
            held.push(redlock.lock("export").slots(11).await.unwrap());
        }
        let mut listing = LockListing::default();
        for lock in &held {
            let holder = redlock.inspect(lock.resource()).await.unwrap().unwrap();
            listing.locks.push(ShownLock::from(&holder));
        }

        let names: Vec<_> =
            sorted(listing).locks.iter().map(|lock| lock.display_name().into_owned()).collect();

        let slots = (0..11).map(|slot| format!("export, slot {slot}"));
        let expected: Vec<_> =
            std::iter::once("export".into()).chain(slots).chain(["exports".into()]).collect();
        assert_eq!(names, expected);
    }
}
