//! The holders of names, their beliefs, and their tokens.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{HeldSlot, Oracle, Promise};

/// Returns whether a holder believes at this moment that it holds its names.
pub(super) type Belief = Arc<dyn Fn() -> bool + Send + Sync>;

#[derive(Debug, Default)]
pub(super) struct Holds {
    next: u64,
    current: BTreeMap<u64, Hold>,
    /// The grants of each name, with the greatest token up to each grant.
    tokens: BTreeMap<String, Vec<Granted>>,
    /// The same for the exclusive grants.
    exclusive: BTreeMap<String, Vec<Granted>>,
    /// The last exclusive and the last shared grant of each name to each client.
    own: BTreeMap<(String, usize, bool), Granted>,
    /// Start and end of the latest suspension of each client's machine.
    suspended: BTreeMap<usize, (u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Granted {
    at: u64,
    token: u64,
    client: usize,
    /// Grants before this time need not have smaller tokens.
    before: u64,
}

/// Time after a suspension in which a grant may belong to a request from before it, in µs.
const LATE: u64 = 5_000_000;

#[derive(Clone)]
pub(super) struct Hold {
    pub(super) client: usize,
    pub(super) names: Vec<String>,
    pub(super) slot: Option<HeldSlot>,
    /// Whether other shared holders may hold the names as well.
    pub(super) is_shared: bool,
    pub(super) token: u64,
    pub(super) belief: Belief,
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("client", &self.client).finish_non_exhaustive()
    }
}

/// A hold that the oracle knows until it is dropped.
#[derive(Debug)]
pub struct HoldGuard {
    pub(super) oracle: Oracle,
    id: u64,
}

impl Oracle {
    /// Records that a client holds these names from now on, while `belief` returns true. Token 0
    /// means no fencing.
    pub fn held(
        &self,
        client: usize,
        names: &[&str],
        token: u64,
        belief: impl Fn() -> bool + Send + Sync + 'static,
    ) -> HoldGuard {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.event(format!("c{client} holds {} token {token}", names.join("+")));
        self.count("holds");
        let (slot, is_shared) = (None, false);
        self.add(Hold { client, names, slot, is_shared, token, belief: Arc::new(belief) })
    }

    /// Records the same of a name that is shared.
    pub fn shared_held(
        &self,
        client: usize,
        name: &str,
        token: u64,
        belief: impl Fn() -> bool + Send + Sync + 'static,
    ) -> HoldGuard {
        self.event(format!("c{client} shares {name} token {token}"));
        self.count("shared");
        let (names, slot, is_shared) = (vec![name.to_owned()], None, true);
        let guard =
            self.add(Hold { client, names, slot, is_shared, token, belief: Arc::new(belief) });
        if guard.has_company() {
            self.count("shared by several");
        }
        guard
    }

    /// Adds a hold, after a check of its token.
    pub(super) fn add(&self, hold: Hold) -> HoldGuard {
        let Hold { client, token, is_shared, .. } = hold;
        if self.lock().forbidden == Some(client) {
            self.broken(Promise::Sets, format!("c{client} got {}", hold.names.join("+")));
        }
        // A grant that a stopped process detects late has no effect.
        let is_believed = (hold.belief)();
        let mut broken = Vec::new();
        let id = {
            let mut records = self.lock();
            let now = self.now();
            // A machine whose clock was stopped believes in earlier grants, and tokens only have to
            // be above tokens that were granted before they were requested.
            let requested = match records.holds.suspended.get(&client) {
                Some((from, until)) if now < until + LATE => *from,
                _ => now + 1,
            };
            let is_time_sound = !records.excused.contains(&Promise::Exclusion);
            for name in hold.names.iter().filter(|_| token > 0) {
                // If holds may overlap, a lease that is handed over within its process, that a
                // further request joins, or that becomes a shared one, is ordered like the first one
                // of its block.
                let own = |is_shared| (name.clone(), client, is_shared);
                let last = |of, step| {
                    let last = records.holds.own.get(&own(of));
                    last.filter(|last| last.token + step == token)
                };
                let last =
                    if is_shared { last(true, 0).or(last(false, 0)) } else { last(false, 1) };
                let before = match last.filter(|_| !is_time_sound) {
                    Some(last) => last.before.min(requested),
                    None => requested,
                };
                let granted = Granted { at: now, token, client, before };
                records.holds.own.insert(own(is_shared), granted);
                // Shared leases of one time have equal tokens.
                let earlier =
                    if is_shared { &records.holds.exclusive } else { &records.holds.tokens };
                let known = earlier.get(name).map_or(&[][..], Vec::as_slice);
                let greatest = known[..known.partition_point(|granted| granted.at < before)].last();
                let reaches = token + u64::from(is_shared);
                if let Some(greatest) = greatest.filter(|of| reaches <= of.token && is_believed) {
                    let Granted { token: other, client: of, .. } = *greatest;
                    let how = if is_shared { "shared " } else { "" };
                    broken.push(format!(
                        "c{client} got {how}token {token} for {name}, after {other} of c{of}"
                    ));
                }
                push(records.holds.tokens.entry(name.clone()).or_default(), granted);
                if !is_shared {
                    push(records.holds.exclusive.entry(name.clone()).or_default(), granted);
                }
            }
            records.holds.next += 1;
            let id = records.holds.next;
            records.holds.current.insert(id, hold);
            id
        };
        for text in broken {
            self.broken(Promise::Fencing, text);
        }
        let guard = HoldGuard { oracle: self.clone(), id };
        guard.check();
        guard
    }

    /// Returns the number of holds of a name.
    pub fn holds_of(&self, name: &str) -> usize {
        self.lock().holds.tokens.get(name).map_or(0, Vec::len)
    }

    /// Returns the number of exclusive holds of a name.
    pub fn exclusive_holds_of(&self, name: &str) -> usize {
        self.lock().holds.exclusive.get(name).map_or(0, Vec::len)
    }

    /// Returns the present holds, by their numbers, for which `is_wanted` returns true.
    pub(super) fn holds_where(&self, is_wanted: impl Fn(u64, &Hold) -> bool) -> Vec<Hold> {
        let records = self.lock();
        let wanted = records.holds.current.iter().filter(|(id, hold)| is_wanted(**id, hold));
        wanted.map(|(_, hold)| hold.clone()).collect()
    }

    /// Records that a client's machine was suspended, with its clock, from this moment until now.
    pub fn was_suspended(&self, client: usize, from: u64) {
        let now = self.now();
        self.lock().holds.suspended.insert(client, (from, now));
    }

    /// Records that the processes of a client have ended, and their beliefs with them.
    pub fn gone(&self, client: usize) {
        self.lock().holds.current.retain(|_, hold| hold.client != client);
        self.once_gone(client);
    }
}

/// Adds a grant with the greatest token up to it.
fn push(known: &mut Vec<Granted>, granted: Granted) {
    let greatest = known.last().filter(|of| of.token > granted.token);
    known.push(greatest.map_or(granted, |of| Granted { at: granted.at, ..*of }));
}

impl HoldGuard {
    /// Checks that no other holder believes that it holds a name of this hold, if this holder does,
    /// unless both share it, and that no more holders believe in slots of a name than there are.
    pub fn check(&self) {
        self.check_slots();
        let Some(own) = self.hold() else { return };
        if !(own.belief)() {
            return;
        }
        let excludes = |hold: &Hold| {
            let is_exclusive = !(hold.is_shared && own.is_shared);
            is_exclusive && hold.names.iter().any(|name| own.names.contains(name))
        };
        for other in self.oracle.holds_where(|id, hold| id != self.id && excludes(hold)) {
            if (other.belief)() {
                self.oracle.broken(
                    Promise::Exclusion,
                    format!(
                        "c{} ({}) and c{} ({}) both hold {}",
                        own.client,
                        own.token,
                        other.client,
                        other.token,
                        own.names.join("+")
                    ),
                );
            }
        }
    }

    /// Returns whether another client shares a name.
    fn has_company(&self) -> bool {
        let Some(own) = self.hold() else { return false };
        let is_beside =
            |hold: &Hold| hold.is_shared && hold.client != own.client && hold.names == own.names;
        self.oracle.holds_where(|_, hold| is_beside(hold)).iter().any(|hold| (hold.belief)())
    }

    pub(super) fn hold(&self) -> Option<Hold> {
        self.oracle.lock().holds.current.get(&self.id).cloned()
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.oracle.lock().holds.current.remove(&self.id);
    }
}
