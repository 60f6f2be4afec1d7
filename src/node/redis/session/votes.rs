//! Tracks refused votes, and tries one where no client does.

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

/// Time for which a vote that counted outweighs a refusal that may concern its name only.
const RECENT: Duration = Duration::from_secs(1);
/// Minimum interval between trials.
const TRIAL_INTERVAL: Duration = Duration::from_secs(1);
/// TTL of a trial's key, which is released with it.
const TRIAL_TTL: Duration = Duration::from_millis(1);

/// Outcomes of the latest votes on a connection.
#[derive(Debug, Default)]
pub(super) struct VoteHealth {
    /// When a vote last stored something.
    counted: Option<Timestamp>,
    /// A refusal may concern its name only: try another name.
    in_doubt: bool,
    /// The latest trial, and its nonce until it is answered.
    tried: Option<Timestamp>,
    trial: Option<Nonce>,
}

/// Which votes a refusal concerns.
enum RefusalScope {
    /// Every vote.
    All,
    /// Perhaps only this name or token.
    Perhaps,
    Nothing,
}

fn meaning(op: &Op, reason: &Reason) -> RefusalScope {
    match reason {
        Reason::OutOfMemory | Reason::PersistenceFailing | Reason::Busy => RefusalScope::All,
        Reason::NoPermission(_) | Reason::Server(_) | Reason::Protocol(_) | Reason::TokenAhead
            if op.is_vote() =>
        {
            RefusalScope::Perhaps
        }
        _ => RefusalScope::Nothing,
    }
}

/// Returns whether the vote stored something; `None` if it does not count.
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
    /// Records the outcome of a vote.
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
                let has_counted =
                    self.votes.counted.is_some_and(|at| now.saturating_duration_since(at) < RECENT);
                // Repeats a trial that is outweighed.
                self.votes.in_doubt = !is_trial || has_counted;
                if !has_counted {
                    self.status.set_refusing(reason, is_trial);
                }
            }
            RefusalScope::Nothing => {}
        }
    }

    /// Tries a vote after refusals: clients may have stopped to ask.
    pub(super) fn try_vote(&mut self, now: Timestamp) {
        let votes = &self.votes;
        let is_wanted = votes.in_doubt || self.status.refuses();
        let is_too_early =
            votes.tried.is_some_and(|at| now.saturating_duration_since(at) < TRIAL_INTERVAL);
        if !is_wanted || is_too_early || self.status.barred().is_some() {
            return;
        }
        let Ok(nonce) = Nonce::random() else { return };
        (self.votes.tried, self.votes.trial) = (Some(now), Some(nonce));
        let wall = self.settings.clock.wall();
        let lease = Arc::new(LeaseId::new(Resource::of_invalid(""), nonce, "trial".into(), wall));
        // Made from the server's clock: the local one may be wrong.
        let token = self.link.server_clock.deadline(now, Duration::ZERO);
        let patience = self.settings.node_timeout * 2;
        // Never sent twice: it would run after the release.
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
        let request = |op| NodeRequest::new(op, Reply::from_fn(|_| {}), &self.status.in_flight);
        let requests = [acquire, Op::Release(lease)].map(request).into();
        self.write(requests, ScriptRef::Digest, now);
    }
}
