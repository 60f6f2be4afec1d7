//! Enumerates the locks, records and jobs that the nodes keep (R3).
//!
//! A listing reads the names of one node after the other, as every quorum has one of any N−q+1
//! nodes, and then the keys of each new name on all nodes. A name that a single quorum keeps during
//! the whole listing is found once. With fewer than N−q+1 nodes read to the end the listing fails.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures_util::{Stream, stream::try_unfold};

use super::{Holder, client::Client, inspect::inspect_names, query::ask};
use crate::{
    error::{LockError, Reason, VoteOutcome, Votes},
    protocol::{Answer, JobDocument, Op, ScanKind, ScanOp, ScannedAnswer, formulas},
    resource::Resource,
};

/// Number of keys that a node looks at for one page.
const PAGE: u32 = 100;
/// Maximum number of pages of one node: a server may be full of other keys, or have no last page.
const MAX_PAGES: usize = 100_000;
/// Maximum number of requests for one page or name, because a node may be busy for a moment.
const TRIES: usize = 3;
/// Length of a pause, in durations of the page before it. A listing then takes at most a tenth of a
/// node's time.
const PAUSES: u32 = 9;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Enumerates the holders of locks.
pub(super) fn locks(client: Arc<Client>) -> impl Stream<Item = Result<Holder, LockError>> + Send {
    let names = StoredNames::new(client, ScanKind::Locks);
    try_unfold((names, VecDeque::new()), |(mut names, mut holders)| async move {
        loop {
            if let Some(holder) = holders.pop_front() {
                return Ok(Some((holder, (names, holders))));
            }
            let Some(page) = names.page().await? else { return Ok(None) };
            let (client, begun) = (&names.client, names.client.clock().now());
            let found = holders_of(client, page.into()).await;
            names.busy += client.clock().now().saturating_duration_since(begun);
            let found = found.map_err(|votes| LockError::NoQuorum { votes })?;
            holders.extend(found.into_iter().flatten());
        }
    })
}

async fn holders_of(client: &Client, names: Arc<[Arc<str>]>) -> Result<Vec<Option<Holder>>, Votes> {
    for _ in 1..TRIES {
        if let Ok(holders) = inspect_names(client, &names, |_| false).await {
            return Ok(holders);
        }
    }
    inspect_names(client, &names, |_| false).await
}

/// Enumerates names.
pub(super) fn names(
    client: Arc<Client>,
    kind: ScanKind,
) -> impl Stream<Item = Result<Arc<str>, LockError>> + Send {
    names_of(StoredNames::new(client, kind))
}

/// Enumerates the jobs of which the nodes store data, also those without a claim.
#[cfg(feature = "scheduler")]
pub(super) fn job_registers(
    client: Arc<Client>,
) -> impl Stream<Item = Result<Arc<str>, LockError>> + Send {
    let name_of = |register: &Arc<str>| match JobDocument::job_of(register) {
        Some(job) => name(&job.into()),
        None => name(register),
    };
    names_of(StoredNames { name_of, ..StoredNames::new(client, ScanKind::Jobs) })
}

fn names_of(names: StoredNames) -> impl Stream<Item = Result<Arc<str>, LockError>> + Send {
    try_unfold((names, VecDeque::new()), |(mut names, mut page)| async move {
        loop {
            if let Some(name) = page.pop_front() {
                return Ok(Some((name, (names, page))));
            }
            let Some(next) = names.page().await? else { return Ok(None) };
            page.extend(next);
        }
    })
}

/// The names that the nodes keep, each once: the names of the first node, then the names that only
/// later nodes have.
struct StoredNames {
    client: Arc<Client>,
    kind: ScanKind,
    /// Returns the name that belongs to a key, if any.
    name_of: fn(&Arc<str>) -> Option<Arc<str>>,
    /// The outcome of each node that was read, in order.
    read: Vec<VoteOutcome>,
    /// Cursor of the next page, and its number.
    cursor: Option<Arc<str>>,
    pages: usize,
    seen: HashSet<Arc<str>>,
    /// Time that the nodes took for the last page.
    busy: Duration,
}

impl StoredNames {
    fn new(client: Arc<Client>, kind: ScanKind) -> Self {
        let (seen, busy) = (HashSet::new(), Duration::ZERO);
        Self { client, kind, name_of: name, read: Vec::new(), cursor: None, pages: 0, seen, busy }
    }

    /// Returns new names; `None` at the end.
    ///
    /// Every quorum has one of any N−q+1 nodes, so that fewer are not enough.
    async fn page(&mut self) -> Result<Option<Vec<Arc<str>>>, LockError> {
        let nodes = self.client.nodes.len();
        while self.read.len() < nodes {
            let pause = std::mem::take(&mut self.busy).saturating_mul(PAUSES);
            self.client.sleep(pause.min(LONGEST_PAUSE)).await;
            let begun = self.client.clock().now();
            let scanned = self.scan(self.read.len()).await;
            self.busy = self.client.clock().now().saturating_duration_since(begun);
            let page = match scanned {
                Ok(page) => page,
                Err(reason) => {
                    self.end_node(VoteOutcome::NotCounted(reason));
                    continue;
                }
            };
            (self.cursor, self.pages) = (page.next, self.pages + 1);
            if self.cursor.is_none() {
                self.end_node(VoteOutcome::Granted);
            } else if self.pages == MAX_PAGES {
                let reason = Reason::Protocol("more keys than can be looked through".into());
                self.end_node(VoteOutcome::NotCounted(reason));
            }
            let seen = &mut self.seen;
            let names = page.names.iter().filter_map(self.name_of);
            let new: Vec<_> = names.filter(|name| seen.insert(Arc::clone(name))).collect();
            if !new.is_empty() {
                return Ok(Some(new));
            }
        }
        let needed = nodes - formulas::quorum(nodes) + 1;
        if self.read.iter().filter(|read| **read == VoteOutcome::Granted).count() < needed {
            return Err(LockError::NoQuorum { votes: self.client.votes(self.read.clone()) });
        }
        Ok(None)
    }

    fn end_node(&mut self, read: VoteOutcome) {
        self.read.push(read);
        (self.cursor, self.pages) = (None, 0);
    }

    async fn scan(&self, node: usize) -> Result<ScannedAnswer, Reason> {
        let op = Op::Scan(ScanOp::new(self.kind, self.cursor.clone(), PAGE));
        let mut tries = 1;
        loop {
            match ask(&self.client, node, op.clone()).await {
                Ok(Answer::Scanned(page)) => return Ok(page),
                Ok(_) => return Err(Reason::Protocol("not what was asked for".into())),
                Err(_) if tries < TRIES => tries += 1,
                Err(reason) => return Err(reason),
            }
        }
    }
}

/// Returns the name itself; `None` for keys of test votes, whose names no lock can have.
fn name(name: &Arc<str>) -> Option<Arc<str>> {
    Resource::try_from(&**name).is_ok().then(|| Arc::clone(name))
}
