//! The answers that a lease received from one node.

use super::node::op_id;
use crate::{
    protocol::{Answer, GrantedAnswer, OpId, RaisedAnswer, ReleasedAnswer},
    quorum::LeaseCommand,
    timestamp::Timestamp,
    vote::Reason,
};

/// The answers of one node, recorded independently of the lease.
#[derive(Clone, Debug, Default)]
pub(super) struct HeardAnswers {
    pub(super) granted: bool,
    /// The latest start that the lease may count as confirmed.
    pub(super) confirmed: Option<Timestamp>,
    pub(super) accepted: Vec<u64>,
    pub(super) denied: bool,
    /// The command that was sent last.
    pub(super) last_sent: Option<LeaseCommand>,
    /// The first answer to the release: whether the key was there.
    pub(super) release: Option<Result<bool, ()>>,
}

impl HeardAnswers {
    pub(super) fn is_release_sent(&self) -> bool {
        self.last_sent == Some(LeaseCommand::Release)
    }

    /// Returns whether the node refused the only command that it was sent.
    pub(super) fn stores_none(&self) -> bool {
        self.denied && matches!(self.last_sent, Some(LeaseCommand::Acquire { .. }))
    }

    /// Records an answer to a lease that began at `acquire`. Returns whether it is the first answer
    /// to its release.
    pub(super) fn hear(
        &mut self,
        acquire: Timestamp,
        command: LeaseCommand,
        result: &Result<Answer, Reason>,
    ) -> bool {
        match (op_id(command), result) {
            (OpId::Acquire, Ok(Answer::Granted(GrantedAnswer { accepted, .. }))) => {
                self.granted = true;
                self.confirmed = self.confirmed.max(Some(acquire));
                if let (true, LeaseCommand::Acquire { token, .. }) = (*accepted, command) {
                    self.accepted.push(token);
                }
            }
            (OpId::Raise(_), Ok(Answer::Raised(RaisedAnswer { accepted: true, .. }))) => {
                if let LeaseCommand::Raise { token, .. } = command {
                    self.accepted.push(token);
                }
            }
            (OpId::Raise(_), Err(Reason::KeyGone)) => self.granted = false,
            (OpId::Extend(started), Ok(Answer::Extended(_))) => {
                self.confirmed = self.confirmed.max(Some(started));
                self.denied = false;
            }
            (OpId::Acquire, Ok(Answer::Held(_))) => self.denied = true,
            (OpId::Extend(started), Ok(Answer::Held(_))) => {
                self.denied = true;
                if self.confirmed.is_some_and(|confirmed| confirmed <= started) {
                    self.confirmed = None;
                }
            }
            (OpId::Release, result) if self.release.is_none() => {
                self.release = Some(match result {
                    Ok(Answer::Released(ReleasedAnswer { existed, .. })) => Ok(*existed),
                    _ => Err(()),
                });
                return true;
            }
            _ => {}
        }
        false
    }
}
