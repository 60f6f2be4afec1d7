//! What one node answered to one lease.

use std::{sync::Arc, time::Duration};

use super::token_rounds::TokenRounds;
use crate::{
    protocol::{Answer, GrantedAnswer, HeldAnswer, RaisedAnswer, ReleasedAnswer, views::View},
    timestamp::Timestamp,
    vote::{Reason, VoteOutcome},
};

/// What one node answered to this lease, and what it may store for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ballot {
    /// The node's latest answer about the key's holder; `None` until it answers.
    pub(super) vote: Option<VoteOutcome>,
    /// The start of the latest request by which the node set the key's TTL.
    pub(super) confirmed: Option<Timestamp>,
    /// The view under which the node last granted or confirmed.
    pub(super) view: Option<Arc<View>>,
    /// Upper bound of the jumps of the node's clock since that confirmation, in ns.
    jumped: u64,
    /// Bit r: the node accepted the number of round r; round 0 is the proposal.
    accepted: u8,
    /// Bit r: raise r was sent to the node.
    asked: u8,
    /// Bit r: raise r was sent, and is not answered yet.
    raising: u8,
    /// The node's fence is too far ahead of the proposal for a sound node.
    pub(super) far: bool,
    /// Why the node did not answer the latest raise, or later the release.
    error: Option<Box<Reason>>,
    /// Whether the holder that the node reported may keep its lease after a release.
    pub(super) lingers: bool,
    /// Number of shared leases that the node reported.
    pub(super) readers: usize,
    /// The owner of an exclusive request that waits for these.
    pub(super) waiter: Option<Arc<str>>,
    key: PossibleKey,
    pub(super) release: ReleaseState,
}

/// Whether the node may store a key of the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum PossibleKey {
    #[default]
    None,
    /// The acquire may have stored one.
    Acquired,
    /// An extension may have stored one, whatever the node answers to the acquire.
    Extended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum ReleaseState {
    #[default]
    NotSent,
    Sent,
    Acknowledged {
        existed: bool,
    },
    Failed,
}

impl Ballot {
    pub(super) fn new() -> Self {
        Self { key: PossibleKey::Acquired, ..Self::default() }
    }

    /// Creates the ballot of a node that is sent nothing for now.
    pub(super) fn unasked() -> Self {
        let mut ballot = Self::new();
        ballot.stores_none();
        ballot
    }

    pub(super) fn is_granted(&self) -> bool {
        self.vote == Some(VoteOutcome::Granted)
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.vote, Some(VoteOutcome::Held { .. }))
    }

    pub(super) fn is_pending(&self) -> bool {
        self.vote.is_none()
    }

    /// Returns the vote as errors report it.
    pub(super) fn reported(&self) -> VoteOutcome {
        self.vote.clone().unwrap_or(VoteOutcome::NotCounted(Reason::NotAwaited))
    }

    /// Records the answer to the acquire of a lease that `started` then. The first answer counts,
    /// unless the node had been recorded as timed out. Returns whether this one counts.
    pub(super) fn on_acquire_answer(
        &mut self,
        result: Result<Answer, Reason>,
        view: Option<Arc<View>>,
        started: Timestamp,
        rounds: &mut TokenRounds,
    ) -> bool {
        if !self.is_pending() && self.vote != Some(VoteOutcome::NotCounted(Reason::TimedOut)) {
            return false;
        }
        match result {
            Ok(Answer::Granted(GrantedAnswer { accepted, fence })) => {
                self.vote = Some(VoteOutcome::Granted);
                self.confirm(started);
                self.view = view;
                self.accepted |= u8::from(accepted);
                self.far = rounds.see(fence);
            }
            Ok(Answer::Held(held)) => {
                let HeldAnswer { owner, remaining, fence, lingers, readers, waiter, .. } = held;
                self.vote = Some(VoteOutcome::Held { owner, remaining });
                (self.lingers, self.readers, self.waiter) = (lingers, readers, waiter);
                self.rule_out();
                if !self.may_hold() {
                    self.stores_none();
                }
                rounds.see(fence);
            }
            Ok(_) => self.discount(Reason::Protocol("not an answer to an acquire".into())),
            Err(reason) => {
                if !reason.may_have_run() {
                    self.rule_out();
                }
                self.discount(reason);
            }
        }
        true
    }

    /// Records the answer to a raise.
    pub(super) fn on_raise_answer(
        &mut self,
        round: u8,
        result: Result<Answer, Reason>,
        view: Option<&Arc<View>>,
        rounds: &mut TokenRounds,
    ) {
        self.raising &= !bit(round);
        match result {
            // The grant and the fence may come from different servers.
            Ok(Answer::Raised(_)) if self.is_granted() && self.view.as_ref() != view => {
                self.take_back(Reason::NamesDiffer);
            }
            Ok(Answer::Raised(RaisedAnswer { accepted, fence })) => {
                if accepted {
                    self.accepted |= bit(round);
                }
                self.far = rounds.see(fence);
            }
            Err(Reason::KeyGone) => self.take_back(Reason::KeyGone),
            // The release may have failed before.
            Err(reason) if self.release == ReleaseState::NotSent => {
                self.error = Some(Box::new(reason));
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Records the answer to the extension that `started` then.
    pub(super) fn on_extend_answer(
        &mut self,
        started: Timestamp,
        result: Result<Answer, Reason>,
        view: Option<Arc<View>>,
        rounds: &mut TokenRounds,
    ) {
        match result {
            Ok(Answer::Extended(_)) => {
                self.vote = Some(VoteOutcome::Granted);
                if self.confirm(started) {
                    self.view = view;
                }
            }
            // Older than what the node has confirmed since.
            Ok(Answer::Held(_)) if Some(started) < self.confirmed => {}
            Ok(Answer::Held(HeldAnswer { owner, remaining, fence, .. })) => {
                self.vote = Some(VoteOutcome::Held { owner, remaining });
                self.confirmed = None;
                rounds.see(fence);
            }
            Ok(_) => self.discount(Reason::Protocol("not an answer to an extension".into())),
            // What the node confirmed before still stands.
            Err(reason) => self.discount(reason),
        }
    }

    /// Records the first answer to the release. Returns whether it was the first.
    pub(super) fn on_release_answer(&mut self, result: Result<Answer, Reason>) -> bool {
        if self.release != ReleaseState::Sent {
            return false;
        }
        self.release = match result {
            Ok(Answer::Released(ReleasedAnswer { existed, .. })) => {
                self.key = PossibleKey::None;
                ReleaseState::Acknowledged { existed }
            }
            Ok(_) => self.fail_release(Reason::Protocol("not an answer to a release".into())),
            Err(reason) => self.fail_release(reason),
        };
        true
    }

    fn fail_release(&mut self, reason: Reason) -> ReleaseState {
        self.error = Some(Box::new(reason));
        ReleaseState::Failed
    }

    /// Adds a jump of the node's clock of `at_most`. Returns the upper bound of all jumps since the
    /// confirmation.
    pub(super) fn add_jump(&mut self, at_most: Duration) -> Duration {
        let nanos = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
        self.jumped = self.jumped.saturating_add(nanos);
        Duration::from_nanos(self.jumped)
    }

    /// Records that the request that `started` then set the key's TTL. Returns false if a later
    /// request is confirmed already.
    fn confirm(&mut self, started: Timestamp) -> bool {
        let is_latest = self.confirmed <= Some(started);
        if is_latest {
            self.confirmed = Some(started);
            self.jumped = 0;
        }
        is_latest
    }

    /// Returns whether the node may store a key of this lease.
    pub(super) fn may_hold(&self) -> bool {
        self.key != PossibleKey::None
    }

    /// Records that the acquire stored no key. An extension sent meanwhile may store one.
    pub(super) fn rule_out(&mut self) {
        if self.key == PossibleKey::Acquired {
            self.key = PossibleKey::None;
        }
    }

    /// Records that there is nothing to release on the node.
    fn stores_none(&mut self) {
        self.key = PossibleKey::None;
        if self.release == ReleaseState::NotSent {
            self.release = ReleaseState::Acknowledged { existed: false };
        }
    }

    /// Records that an extension is sent.
    pub(super) fn extend(&mut self) {
        (self.key, self.release) = (PossibleKey::Extended, ReleaseState::NotSent);
    }

    fn discount(&mut self, reason: Reason) {
        self.vote = Some(VoteOutcome::NotCounted(reason));
    }

    /// Discounts the node's vote and its confirmation.
    pub(super) fn take_back(&mut self, reason: Reason) {
        self.discount(reason);
        self.confirmed = None;
    }

    /// Records that the node did not answer in time.
    pub(super) fn time_out(&mut self) {
        self.vote.get_or_insert(VoteOutcome::NotCounted(Reason::TimedOut));
        self.raising = 0;
    }

    /// Discounts the confirmation of a node whose answer to a raise is not awaited any more.
    pub(super) fn drop_raises(&mut self) {
        if std::mem::take(&mut self.raising) != 0 {
            self.confirmed = None;
        }
    }

    /// Discounts the node's grant, because no quorum accepted any number.
    pub(super) fn fail_raise(&mut self) {
        let reason = self.error.take().map_or(Reason::FenceAhead, |reason| *reason);
        self.discount(reason);
    }

    pub(super) fn has_accepted(&self, round: u8) -> bool {
        self.is_granted() && self.accepted & bit(round) != 0
    }

    pub(super) fn may_accept(&self, round: u8) -> bool {
        self.is_granted() && (self.accepted | self.raising) & bit(round) != 0
    }

    /// Marks a raise as sent, if the node granted and was not sent it before.
    pub(super) fn ask_to_raise(&mut self, round: u8) -> bool {
        let is_due = self.is_granted() && self.asked & bit(round) == 0;
        if is_due {
            self.asked |= bit(round);
            self.raising |= bit(round);
        }
        is_due
    }

    /// Returns the node's answer to the release, as errors report it.
    pub(super) fn acknowledgement(&self) -> VoteOutcome {
        let reason = match self.release {
            ReleaseState::Acknowledged { existed: true } => return VoteOutcome::Granted,
            ReleaseState::Acknowledged { existed: false } => Reason::KeyGone,
            ReleaseState::Failed => self.error.as_deref().cloned().unwrap_or(Reason::TimedOut),
            ReleaseState::NotSent | ReleaseState::Sent => Reason::TimedOut,
        };
        VoteOutcome::NotCounted(reason)
    }
}

const fn bit(round: u8) -> u8 {
    1 << round
}
