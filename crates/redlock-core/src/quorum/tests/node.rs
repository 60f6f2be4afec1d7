//! One node in memory: one resource, its key and its fence.
//!
//! It behaves as the scripts and the embedded nodes do. Where these differ, it takes the behaviour
//! that is harder on the algorithm: a delayed request still runs while its patience lasts, and an
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
    patience: Duration,
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
    pub(super) fn new(life: Duration, patience: Duration) -> Self {
        let shared = BTreeMap::new();
        Self { key: None, shared, fence: 0, active: true, restarts: 0, life, patience }
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

    /// Runs a command of a shared lease as a server would.
    pub(super) fn run_shared(
        &mut self,
        lease: usize,
        command: LeaseCommand,
        now: Timestamp,
    ) -> Result<Answer, Reason> {
        match command {
            LeaseCommand::Acquire { token, expires } => {
                if now >= expires + self.patience {
                    return Err(Reason::Late);
                }
                self.check_tag()?;
                if let Some(held) = self.held_alone(now) {
                    return Ok(held);
                }
                self.shared.insert(lease, now + self.life);
                let (accepted, fence) = self.accept_shared(token);
                Ok(Answer::Granted(GrantedAnswer { accepted, fence }))
            }
            LeaseCommand::Raise { token, .. } => {
                self.check_tag()?;
                check_lead(token, now)?;
                if !self.is_shared_with(lease, now) {
                    return Err(Reason::KeyGone);
                }
                let (accepted, fence) = self.accept_shared(token);
                Ok(Answer::Raised(RaisedAnswer { accepted, fence }))
            }
            LeaseCommand::Extend { until, .. } => {
                // The exclusive lease with this number becomes the shared one.
                let is_own = self.holds(lease, now);
                if let Some(held) = self.held_alone(now).filter(|_| !is_own) {
                    return Ok(held);
                }
                self.check_tag()?;
                if !is_own && !self.is_shared_with(lease, now) && now >= until {
                    return Err(Reason::Late);
                }
                self.key = self.key.filter(|_| !is_own);
                self.shared.insert(lease, now + self.life);
                Ok(Answer::Extended(ExtendedAnswer::UNAWAITED))
            }
            LeaseCommand::Release => {
                let is_own = self.holds(lease, now);
                self.key = self.key.filter(|_| !is_own);
                let existed = is_own || self.is_shared_with(lease, now);
                self.shared.remove(&lease);
                Ok(Answer::Released(ReleasedAnswer { existed, awaited: false }))
            }
        }
    }

    /// Returns the answer for a shared lease where an exclusive one has the key.
    fn held_alone(&self, now: Timestamp) -> Option<Answer> {
        let key = self.key(now)?;
        let remaining = key.expires.map(|at| at.saturating_duration_since(now));
        Some(Answer::Held(HeldAnswer::new(None, remaining, self.fence)))
    }

    /// Returns whether the token of a shared lease was accepted, and the fence before.
    fn accept_shared(&mut self, token: u64) -> (bool, u64) {
        let before = self.fence;
        self.fence = before.max(token);
        (token >= before, before)
    }

    /// Runs a command as a server would.
    pub(super) fn run(
        &mut self,
        lease: usize,
        command: LeaseCommand,
        now: Timestamp,
    ) -> Result<Answer, Reason> {
        match command {
            LeaseCommand::Acquire { token, expires } => {
                if now >= expires + self.patience {
                    return Err(Reason::Late);
                }
                self.check_tag()?;
                check_lead(token, now)?;
                if let Some(held) = self.held(lease, now) {
                    return Ok(held);
                }
                self.store(lease, now);
                let (accepted, fence) = self.accept(token);
                Ok(Answer::Granted(GrantedAnswer { accepted, fence }))
            }
            LeaseCommand::Raise { token, .. } => {
                self.check_tag()?;
                check_lead(token, now)?;
                if !self.holds(lease, now) {
                    return Err(Reason::KeyGone);
                }
                let (accepted, fence) = self.accept(token);
                Ok(Answer::Raised(RaisedAnswer { accepted, fence }))
            }
            LeaseCommand::Extend { until, .. } => {
                if let Some(held) = self.held(lease, now) {
                    return Ok(held);
                }
                self.check_tag()?;
                if !self.holds(lease, now) && now >= until {
                    return Err(Reason::Late);
                }
                self.store(lease, now);
                Ok(Answer::Extended(ExtendedAnswer::UNAWAITED))
            }
            LeaseCommand::Release => {
                let existed = self.holds(lease, now);
                if existed {
                    self.key = None;
                }
                Ok(Answer::Released(ReleasedAnswer { existed, awaited: false }))
            }
        }
    }

    fn held(&self, lease: usize, now: Timestamp) -> Option<Answer> {
        if let Some(ends) = self.shared.values().filter(|ends| now < **ends).max() {
            let remaining = Some(ends.saturating_duration_since(now));
            return Some(Answer::Held(HeldAnswer::new(None, remaining, self.fence).shared(true)));
        }
        let key = self.key(now).filter(|key| key.lease != Some(lease))?;
        let owner = key.lease.map(|other| format!("lease {other}").into());
        let remaining = key.expires.map(|at| at.saturating_duration_since(now));
        Some(Answer::Held(HeldAnswer::new(owner, remaining, self.fence)))
    }

    fn store(&mut self, lease: usize, now: Timestamp) {
        self.key = Some(ModelKey { lease: Some(lease), expires: Some(now + self.life) });
    }

    /// Returns whether the token was accepted, and the fence before.
    fn accept(&mut self, token: u64) -> (bool, u64) {
        let before = self.fence;
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
