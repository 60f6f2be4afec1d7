//! The next holder within the process: the lease goes on under another holder, without a message.
//!
//! To the nodes nothing happens: the key stays, its renewal goes on, and the end of the validity is
//! the one that a quorum confirmed. What belongs to a holder starts anew: the token, the limit for
//! holding, and whether the lease renews itself.

use std::time::Duration;

use super::lease::{Lease, Phase};
use crate::time::Timestamp;

/// Who is to hold the lease next; the TTL is the same.
#[derive(Clone, Copy, Debug)]
pub struct NextHolder {
    /// Maximum hold time, renewals included.
    pub max_hold: Duration,
    /// Whether the lease renews itself from now on.
    pub auto_extend: bool,
}

/// What the next holder gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOff {
    /// The fencing token: above those of all holders before; zero without fencing.
    pub token: u64,
    /// The end of its validity.
    pub until: Timestamp,
}

impl Lease {
    /// Whether the lease may go on under another holder: it is held, nothing stands against its
    /// renewal, a quorum still confirms its end, half of its validity is left, and a token of its
    /// block.
    ///
    /// Every token of the block is this lease's alone: a quorum has stored the block's end, and no
    /// other lease gets a token at or below what a quorum stored.
    pub fn can_be_handed_on(&self, now: Timestamp) -> bool {
        let is_sound = self.phase == Phase::Held
            && self.halted.is_none()
            && !self.is_disputed
            && now < self.end();
        let has_token = self.terms.proposal.is_none() || self.token < self.last_token;
        is_sound
            && has_token
            && self.valid_until.saturating_duration_since(now) >= self.terms.validity / 2
    }

    /// The holder gives back, and `next` holds the lease from `now` on. `None`, and nothing is
    /// changed, where that [can't be](Self::can_be_handed_on).
    pub fn hand_on(&mut self, next: NextHolder, now: Timestamp) -> Option<HandOff> {
        if !self.can_be_handed_on(now) {
            return None;
        }
        if self.terms.proposal.is_some() {
            self.token += 1;
        }
        self.held_from = now;
        self.terms.max_hold = next.max_hold;
        self.terms.auto_extend = next.auto_extend;
        // Nobody waits for it any more.
        self.extension = None;
        let is_scheduled = self.renew_at < Timestamp::MAX;
        if !is_scheduled || !self.wants_renewal() {
            // A round that is due or under way is left alone: heirs that come quickly one after the
            // other must not start one each.
            self.schedule_renewal();
        }
        Some(HandOff { token: self.token, until: self.end() })
    }
}
