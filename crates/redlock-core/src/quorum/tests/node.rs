//! One node in memory: one resource, its key and its fence.
//!
//! It behaves as the scripts and the embedded nodes do. Where these differ, it takes the behaviour
//! that is harder on the algorithm: a delayed request still runs while its `max_delay` lasts, and an
//! extension of a key that is still there always runs.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    protocol::{
        Answer, ExtendedAnswer, GrantedAnswer, HeldAnswer, OpId, RaisedAnswer, ReleasedAnswer,
    },
    quorum::LeaseCommand,
    timestamp::Timestamp,
    token::block_end,
    vote::Reason,
};

/// The wall clock of the nodes at [`Timestamp::ZERO`], in µs.
const WALL: u64 = 1_000_000_000;
pub(super) const TOKEN_LEAD: u64 = 60_000_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelNode {
    pub(super) key: Option<ModelKey>,
    /// The leases that share the key, and when each ends, in the order of their numbers.
    pub(super) shared: BTreeMap<usize, Timestamp>,
    pub(super) fence: u64,
    /// Whether it votes; after a restart it does not until it is activated.
    pub(super) active: bool,
    /// Counts the restarts: names a probation.
    pub(super) restarts: u32,
    /// How long a key lives here: the TTL by a clock that may be as fast as the drift allows.
    life: Duration,
    max_delay: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelKey {
    /// The lease that stored it; none for a key that this crate did not write.
    pub(super) lease: Option<usize>,
    /// None for a key without a TTL.
    pub(super) expires: Option<Timestamp>,
}

impl ModelKey {
    fn lives(self, now: Timestamp) -> bool {
        self.expires.is_none_or(|at| now < at)
    }
}

impl ModelNode {
    pub(super) fn new(life: Duration, max_delay: Duration) -> Self {
        let shared = BTreeMap::new();
        Self { key: None, shared, fence: 0, active: true, restarts: 0, life, max_delay }
    }

    /// It forgets its key, and its fence unless that was saved.
    pub(super) fn restart(&mut self, keeps_fence: bool) {
        self.key = None;
        self.shared.clear();
        self.fence = if keeps_fence { self.fence } else { 0 };
        self.active = false;
        self.restarts += 1;
    }

    fn check_tag(&self) -> Result<(), Reason> {
        if self.active { Ok(()) } else { Err(Reason::WrongTag { found: "".into() }) }
    }

    /// Returns the key, if it has not expired.
    pub(super) fn key(&self, now: Timestamp) -> Option<ModelKey> {
        self.key.filter(|key| key.lives(now))
    }

    pub(super) fn holds(&self, lease: usize, now: Timestamp) -> bool {
        self.key(now).is_some_and(|key| key.lease == Some(lease))
    }

    /// Returns whether a shared lease has the key.
    pub(super) fn is_shared_with(&self, lease: usize, now: Timestamp) -> bool {
        self.shared.get(&lease).is_some_and(|ends| now < *ends)
    }

    /// Returns whether it has the key, alone or shared, until then at least.
    pub(super) fn holds_until(&self, lease: usize, until: Timestamp) -> bool {
        self.key.is_some_and(|key| key.lease == Some(lease) && key.expires >= Some(until))
            || self.shared.get(&lease) >= Some(&until)
    }

    /// Removes what has ended, so that states which differ only in it are equal.
    pub(super) fn expire(&mut self, now: Timestamp) {
        self.key = self.key(now);
        self.shared.retain(|_, ends| now < *ends);
    }

    /// Runs a command of an exclusive lease as a server would.
    pub(super) fn run(
        &mut self,
        lease: usize,
        command: LeaseCommand,
        now: Timestamp,
    ) -> Result<Answer, Reason> {
        self.run_as(lease, command, now, false)
    }

    /// Runs a command of a lease, which is shared or exclusive.
    pub(super) fn run_as(
        &mut self,
        lease: usize,
        command: LeaseCommand,
        now: Timestamp,
        shared: bool,
    ) -> Result<Answer, Reason> {
        match command {
            LeaseCommand::Acquire { token, expires } => {
                if now >= expires + self.max_delay {
                    return Err(Reason::Late);
                }
                self.check_tag()?;
                if !shared {
                    check_lead(token, now)?;
                }
                if let Some(held) = self.held(lease, now, shared) {
                    return Ok(held);
                }
                self.store(lease, now, shared);
                let (accepted, fence) = self.accept(token, shared);
                Ok(Answer::Granted(GrantedAnswer { accepted, fence }))
            }
            LeaseCommand::Raise { token, .. } => {
                self.check_tag()?;
                check_lead(token, now)?;
                let is_held =
                    if shared { self.is_shared_with(lease, now) } else { self.holds(lease, now) };
                if !is_held {
                    return Err(Reason::KeyGone);
                }
                let (accepted, fence) = self.accept(token, shared);
                Ok(Answer::Raised(RaisedAnswer { accepted, fence }))
            }
            LeaseCommand::Extend { until, .. } => {
                // The exclusive lease with this number may become the shared one.
                let is_own = self.holds(lease, now);
                if !(shared && is_own)
                    && let Some(held) = self.held(lease, now, shared)
                {
                    return Ok(held);
                }
                self.check_tag()?;
                let is_held = is_own || (shared && self.is_shared_with(lease, now));
                if !is_held && now >= until {
                    return Err(Reason::Late);
                }
                if shared && is_own {
                    self.key = None;
                }
                self.store(lease, now, shared);
                Ok(Answer::Extended(ExtendedAnswer::UNAWAITED))
            }
            LeaseCommand::Release => {
                let is_own = self.holds(lease, now);
                let existed = is_own || (shared && self.is_shared_with(lease, now));
                if is_own {
                    self.key = None;
                }
                if shared {
                    self.shared.remove(&lease);
                }
                Ok(Answer::Released(ReleasedAnswer { existed, awaited: false }))
            }
        }
    }

    /// Returns the answer where another lease has the key: an exclusive one, or for an exclusive
    /// lease also a shared one.
    fn held(&self, lease: usize, now: Timestamp, shared: bool) -> Option<Answer> {
        let remaining = |ends: Timestamp| ends.saturating_duration_since(now);
        if shared {
            let key = self.key(now)?;
            return Some(Answer::Held(HeldAnswer::new(
                None,
                key.expires.map(remaining),
                self.fence,
            )));
        }
        if let Some(ends) = self.shared.values().filter(|ends| now < **ends).max() {
            let held = HeldAnswer::new(None, Some(remaining(*ends)), self.fence);
            return Some(Answer::Held(held.shared(true)));
        }
        let key = self.key(now).filter(|key| key.lease != Some(lease))?;
        let owner = key.lease.map(|other| format!("lease {other}").into());
        Some(Answer::Held(HeldAnswer::new(owner, key.expires.map(remaining), self.fence)))
    }

    fn store(&mut self, lease: usize, now: Timestamp, shared: bool) {
        if shared {
            self.shared.insert(lease, now + self.life);
        } else {
            self.key = Some(ModelKey { lease: Some(lease), expires: Some(now + self.life) });
        }
    }

    /// Returns whether the token was accepted, and the fence before.
    fn accept(&mut self, token: u64, shared: bool) -> (bool, u64) {
        let before = self.fence;
        if shared {
            self.fence = before.max(token);
            return (token >= before, before);
        }
        let accepted = token > before;
        if accepted {
            self.fence = block_end(token, 256);
        }
        (accepted, before)
    }
}

/// Returns the wall clock, in µs.
pub(super) fn wall(now: Timestamp) -> u64 {
    WALL + now.as_nanos() / 1_000
}

fn check_lead(token: u64, now: Timestamp) -> Result<(), Reason> {
    if token > wall(now) + TOKEN_LEAD { Err(Reason::TokenAhead) } else { Ok(()) }
}

/// Returns the name under which a command is answered.
pub(super) fn op_id(command: LeaseCommand) -> OpId {
    match command {
        LeaseCommand::Acquire { .. } => OpId::Acquire,
        LeaseCommand::Raise { round, .. } => OpId::Raise(round),
        LeaseCommand::Extend { started, .. } => OpId::Extend(started),
        LeaseCommand::Release => OpId::Release,
    }
}

/// Every kind of reason for which a vote does not count.
pub(super) fn reasons() -> Vec<Reason> {
    vec![
        Reason::TimedOut,
        Reason::Disconnected,
        Reason::Unknown,
        Reason::NotConnected("refused".into()),
        Reason::Overloaded,
        Reason::Auth("WRONGPASS".into()),
        Reason::NoPermission("NOPERM".into()),
        Reason::NotAwaited,
        Reason::ReadOnly,
        Reason::OutOfMemory,
        Reason::Busy,
        Reason::Loading,
        Reason::PersistenceFailing,
        Reason::WrongTag { found: "other".into() },
        Reason::Late,
        Reason::TokenAhead,
        Reason::KeyGone,
        Reason::FenceAhead,
        Reason::Server("ERR".into()),
        Reason::Protocol("?".into()),
    ]
}
