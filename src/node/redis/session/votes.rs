//! How votes fare: shown in the node's health, and tried where nobody asks for one.

use std::{sync::Arc, time::Duration};

use super::Session;
use crate::{
    error::Reason,
    node::{
        Reply,
        redis::{encode::ScriptRef, request::NodeRequest},
    },
    protocol::{AcquireOp, Answer, LeaseId, Nonce, Op},
    resource::Resource,
    time::Timestamp,
};

/// A vote that counted so recently outweighs a refusal that may be its name's alone.
const RECENT: Duration = Duration::from_secs(1);
/// Minimum time between two trials.
const TRIAL_INTERVAL: Duration = Duration::from_secs(1);
/// TTL of a trial's key, which is released along with it.
const TRIAL_TTL: Duration = Duration::from_millis(1);

/// How the latest votes of a connection fared.
#[derive(Debug, Default)]
pub(super) struct VoteHealth {
    /// When one last counted, and stored something.
    counted: Option<Timestamp>,
    /// One was refused for a reason that may be its name's alone: another name is to be tried.
    in_doubt: bool,
    /// When a vote was last tried, and the nonce of the trial until it is answered.
    tried: Option<Timestamp>,
    trial: Option<Nonce>,
}

/// What a refusal says of other votes.
enum RefusalScope {
    /// Every vote would be refused.
    All,
    /// Perhaps only those on this name, or with this token.
    Perhaps,
    Nothing,
}

fn meaning(op: &Op, reason: &Reason) -> RefusalScope {
    match reason {
        Reason::OutOfMemory | Reason::PersistenceFailing | Reason::Busy | Reason::ClockOff => {
            RefusalScope::All
        }
        Reason::NoPermission(_) | Reason::Server(_) | Reason::Protocol(_) | Reason::TokenAhead
            if op.is_vote() =>
        {
            RefusalScope::Perhaps
        }
        _ => RefusalScope::Nothing,
    }
}

/// Whether an answer is that of a vote which counts; and then, whether it stored something.
fn counts(op: &Op, answer: &Answer) -> Option<bool> {
    match answer {
        Answer::Granted(_) | Answer::Raised(_) | Answer::Promised(_) | Answer::Claimed => {
            Some(true)
        }
        Answer::Recorded(_) if matches!(op, Op::Record(_)) => Some(true),
        Answer::Held(_) if matches!(op, Op::Acquire(_)) => Some(false),
        _ => None,
    }
}

impl Session<'_> {
    /// Takes an answer for what it says of the votes to come.
    pub(super) fn note_vote(&mut self, op: &Op, result: &Result<Answer, Reason>, now: Timestamp) {
        let is_trial = matches!(op, Op::Acquire(AcquireOp { lease, .. }) if self.votes.trial == Some(lease.nonce()));
        if is_trial {
            (self.votes.trial, self.votes.in_doubt) = (None, false);
        }
        let reason = match result {
            Ok(answer) => {
                if let Some(stored) = counts(op, answer) {
                    if stored {
                        self.votes.counted = Some(now);
                    }
                    self.status.set_obliging(stored);
                }
                return;
            }
            Err(reason) => reason,
        };
        match meaning(op, reason) {
            RefusalScope::All => self.status.set_refusing(reason, true),
            RefusalScope::Perhaps => {
                let has_counted = self.votes.counted.is_some_and(|at| now.since(at) < RECENT);
                // A trial that is outweighed is made again.
                self.votes.in_doubt = !is_trial || has_counted;
                if !has_counted {
                    self.status.set_refusing(reason, is_trial);
                }
            }
            RefusalScope::Nothing => {}
        }
    }

    /// Tries a vote where the latest ones were refused: others may have stopped to ask for them.
    pub(super) fn try_vote(&mut self, now: Timestamp) {
        let votes = &self.votes;
        let is_wanted = votes.in_doubt || self.status.refuses();
        let is_too_early = votes.tried.is_some_and(|at| now.since(at) < TRIAL_INTERVAL);
        if !is_wanted || is_too_early || self.status.barred().is_some() {
            return;
        }
        let Ok(nonce) = Nonce::random() else { return };
        (self.votes.tried, self.votes.trial) = (Some(now), Some(nonce));
        let wall = self.settings.clock.wall();
        let lease = Arc::new(LeaseId::new(Resource::unnamed(), nonce, "trial".into(), wall));
        // By the server's clock, as of a client whose own is wrong.
        let token = self.link.server_clock.deadline(now, Duration::ZERO);
        let patience = self.settings.node_timeout * 2;
        // Nothing of it is sent a second time: it would come behind the release.
        lease.end();
        let acquire = Op::Acquire(AcquireOp {
            lease: Arc::clone(&lease),
            ttl: TRIAL_TTL,
            token,
            block_end: token,
            expires: now + patience,
            patience,
            waits: false,
        });
        // Apart: what spoils the one must not have both asked for again.
        let apart = |op| vec![NodeRequest::new(op, Reply::from_fn(|_| {}), &self.status.in_flight)];
        let groups = [acquire, Op::Release(lease)].map(apart).into();
        self.write(groups, ScriptRef::Digest, now);
    }
}
