//! Giving back: to every node, answered or not, behind every other operation of the lease.

use super::{
    ballot::{Ballot, Release, count},
    event::{Action, Command, ReleaseVerdict},
    lease::{Lease, Phase},
};
use crate::{
    error::{Reason, VoteOutcome},
    protocol::{Answer, ReleasedAnswer},
    time::Timestamp,
};

impl Lease {
    pub(super) fn release(&mut self, awaited: bool, now: Timestamp, out: &mut Vec<Action>) {
        self.phase = Phase::Ended;
        self.asked_lead = None;
        if awaited {
            self.release_timeout = Some(now + self.terms.node_timeout);
        }
        self.send_releases(out);
    }

    pub(super) fn send_releases(&mut self, out: &mut Vec<Action>) {
        for (node, ballot) in self.ballots.iter_mut().enumerate() {
            if ballot.release == Release::NotSent {
                ballot.release = Release::Sent;
                Self::send(node, Command::Release, out);
            }
        }
    }

    pub(super) fn on_release_answer(
        &mut self,
        node: usize,
        result: Result<Answer, Reason>,
        out: &mut Vec<Action>,
    ) {
        let ballot = &mut self.ballots[node];
        if ballot.release != Release::Sent {
            return;
        }
        ballot.release = match result {
            Ok(Answer::Released(ReleasedAnswer { existed, .. })) => {
                ballot.may_hold = false;
                Release::Acknowledged { existed }
            }
            Ok(_) => Release::Failed(Reason::Protocol("not an answer to a release".into())),
            Err(reason) => Release::Failed(reason),
        };
        if ballot.may_hold {
            out.push(Action::Orphaned { node });
        }
        self.judge_release(false, out);
    }

    pub(super) fn on_release_wake(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        if self.release_timeout.is_some_and(|at| now >= at) {
            self.judge_release(true, out);
        }
    }

    fn judge_release(&mut self, late: bool, out: &mut Vec<Action>) {
        if self.release_timeout.is_none() {
            return;
        }
        let deleted =
            count(&self.ballots, |b| b.release == Release::Acknowledged { existed: true });
        let missing =
            count(&self.ballots, |b| b.release == Release::Acknowledged { existed: false });
        let pending = count(&self.ballots, |b| b.release == Release::Sent);
        let verdict = if deleted >= self.quorum {
            ReleaseVerdict::Released
        } else if missing > self.ballots.len() - self.quorum {
            ReleaseVerdict::AlreadyLost
        } else if late || pending == 0 {
            ReleaseVerdict::NoQuorum { votes: self.ballots.iter().map(acknowledgement).collect() }
        } else {
            return;
        };
        self.release_timeout = None;
        out.push(Action::Released(verdict));
    }
}

fn acknowledgement(ballot: &Ballot) -> VoteOutcome {
    match &ballot.release {
        Release::Acknowledged { existed: true } => VoteOutcome::Granted,
        Release::Acknowledged { existed: false } => VoteOutcome::NotCounted(Reason::KeyGone),
        Release::Failed(reason) => VoteOutcome::NotCounted(reason.clone()),
        Release::NotSent | Release::Sent => VoteOutcome::NotCounted(Reason::TimedOut),
    }
}
