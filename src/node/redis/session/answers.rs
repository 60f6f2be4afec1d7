//! Handles the replies to a batch.

use std::sync::Arc;

use ::redis::Value;

use super::{
    Session, SessionEnd,
    sent_batch::{BatchContent, OperationBatch, SentBatch},
    voting_tag::VotingTag,
};
use crate::{
    error::Reason,
    node::redis::{
        decode::{Decoded, NoAnswer, NoScript, decode, decode_plain},
        encode::ScriptRef,
        handshake,
        request::NodeRequest,
        scripts,
        server_clock::ServerClock,
        values::{digest, read_time},
    },
    protocol::{Answer, Op},
    time::Timestamp,
};

impl Session<'_> {
    /// Handles the answers of a batch.
    pub(super) fn on_answers(&mut self, batch: SentBatch) -> Result<(), Reason> {
        debug_assert!(batch.is_answered(), "a batch is handled once all its answers are there");
        let SentBatch { sent, content, answers: values, .. } = batch;
        match content {
            BatchContent::Operations(operations) => {
                return self.on_operations(sent, operations, values);
            }
            BatchContent::HealthCheck { tag } => return self.on_health_check(sent, &tag, values),
            BatchContent::Clock => {
                self.on_clock(sent, values.into_iter().next().unwrap_or(Value::Nil));
            }
            BatchContent::Change { tag, trip, report, kind } => {
                return self.on_change(&values, tag, trip, &report, kind);
            }
            BatchContent::AdminRequest(waiting) => {
                // The caller may have stopped waiting.
                let _ = waiting.send(Ok(values));
            }
            BatchContent::Login => {
                self.link.login.answered(values.first().unwrap_or(&Value::Nil));
            }
            BatchContent::Scripts(scripts) => {
                for (script, value) in scripts.into_iter().zip(values) {
                    Arc::make_mut(&mut self.link.digests).learn(script, digest(value).ok());
                }
            }
        }
        Ok(())
    }

    /// Delivers the answers of operations, and repeats operations that have to be sent again.
    fn on_operations(
        &mut self,
        sent: Timestamp,
        operations: OperationBatch,
        mut values: Vec<Value>,
    ) -> Result<(), Reason> {
        let OperationBatch { requests, by, vote, server_clock } = operations;
        let sent_tag = vote.as_deref().map_or("", VotingTag::text);
        let received = self.settings.clock.now();
        // The server's TIME follows the operations.
        let commands: usize = requests.iter().map(NodeRequest::commands).sum();
        debug_assert!((0..=1).contains(&(values.len() - commands)), "TIME is the only extra");
        let time = (values.len() > commands).then(|| values.pop().unwrap_or(Value::Nil));
        let (end, no_time) = match time.map(read_time).transpose() {
            Ok(end) => (end, None),
            Err(reason) if handshake::keeps_keys(&reason) => (None, Some(reason)),
            Err(reason) => {
                self.status.set_down(reason.clone());
                self.lose(requests.into_iter(), sent, server_clock, &reason);
                return Err(reason);
            }
        };
        let mut is_sound = end.is_none_or(|micros| {
            self.read_clock(sent, micros);
            self.observe(sent, received, micros)
        });
        let mut unusable = None;
        let (mut forgotten, mut refused) = (Vec::new(), Vec::new());
        let mut at = 0;
        for mut request in requests {
            let replies = &mut values[at..at + request.commands()];
            at += request.commands();
            let decoded = if request.is_plain() {
                match decode_plain(&request.op, replies) {
                    Ok(answered) => Ok(answered),
                    Err(NoAnswer { stored }) => {
                        // For example, the user may not call the command.
                        if let (Op::Release(_), [Value::ServerError(_)]) = (&request.op, replies) {
                            self.deletes = None;
                        }
                        request.use_script(stored);
                        refused.push(request);
                        continue;
                    }
                }
            } else {
                let reply = std::mem::replace(&mut replies[0], Value::Nil);
                decode(&self.member.set.keys, &request.op, reply)
            };
            let mut decoded = match decoded {
                Ok(decoded) => decoded,
                Err(NoScript(_)) if by == ScriptRef::Digest => {
                    forgotten.push(request);
                    continue;
                }
                Err(NoScript(reason)) => Decoded::timeless(Err(reason)),
            };
            if let Some(micros) = decoded.server_micros {
                self.read_clock(sent, micros);
                is_sound = self.observe(sent, received, micros);
            }
            // Without the time, the remaining life of the key is unknown.
            if let (Op::Acquire(_), Some(reason)) = (&request.op, &no_time)
                && decoded.granted
            {
                decoded = Decoded { result: Err(reason.clone()), granted: false, ..decoded };
            }
            self.judge(&request.op, &mut decoded, is_sound, server_clock);
            match decoded.result {
                Ok(_) => self.runs_scripts |= decoded.granted,
                Err(Reason::NoPermission(_)) => self.runs_scripts = false,
                Err(_) => {}
            }
            // The operation was sent although the node had no vote.
            if let Err(Reason::WrongTag { .. }) = &decoded.result
                && vote.is_none()
                && let Some(reason) = self.status.barred()
            {
                request.answer(Err(reason), None);
                continue;
            }
            self.refusals.note_vote(self.status, &request.op, &decoded.result, received);
            self.refusals.note_permission(self.status, &request.op, &decoded.result);
            if self.note(&decoded.result) {
                unusable = decoded.result.clone().err();
            }
            if let Err(Reason::WrongTag { found }) = &decoded.result
                && **found != *sent_tag
                && request.begin_again()
            {
                self.mistagged.push(request);
                continue;
            }
            request.answer(decoded.result, vote.as_ref().and_then(|vote| vote.view.clone()));
        }
        // For example, a server that became a replica is down until it votes again.
        if let Some(reason) = unusable {
            let unanswered = forgotten.into_iter().chain(refused);
            self.lose(unanswered, sent, server_clock, &reason);
            return Err(reason);
        }
        self.resend(forgotten);
        // The script finds the holder, and tells the views apart.
        self.send_again(refused, ScriptRef::Digest, self.settings.clock.now());
        Ok(())
    }

    /// Rejects a grant by a server whose clock jumped, and a release after which an unanswered
    /// grant may still run.
    fn judge(&mut self, op: &Op, decoded: &mut Decoded, sound: bool, sent_by: ServerClock) {
        if decoded.granted && !sound {
            let by_micros = match self.status.barred() {
                Some(Reason::ClockJumped { by_micros }) => by_micros,
                _ => 0,
            };
            decoded.result = Err(Reason::ClockJumped { by_micros });
        }
        if let (Op::Release(lease) | Op::Withdraw(lease), Ok(_)) = (op, &decoded.result)
            && !self.reconnect.settles(lease.nonce(), sent_by.earliest())
        {
            decoded.result = Err(Reason::Unsettled);
        }
    }

    /// Records the consequences of an answer for the server; returns whether the connection is
    /// unusable.
    fn note(&mut self, result: &Result<Answer, Reason>) -> bool {
        match result {
            // Recorded before the answer is sent, so that its receiver finds the node down.
            Err(reason) if reason.ends_connection() => {
                self.status.set_down(reason.clone());
                return true;
            }
            Err(Reason::WrongTag { .. } | Reason::TtlTooLong) => self.checks.is_due = true,
            _ => {}
        }
        false
    }

    /// Repeats operations by script text, as the server lacks the scripts. Drops operations that
    /// have ended, which must not run after their release.
    fn resend(&mut self, forgotten: Vec<NodeRequest>) {
        if forgotten.is_empty() {
            return;
        }
        let now = self.settings.clock.now();
        // A server that lacks one script lacks all of them. They are loaded now, or their texts are
        // sent, as operations that are repeated later would run after operations written meanwhile.
        if Arc::make_mut(&mut self.link.digests).lose() {
            self.load(scripts::OPERATIONS.to_vec(), now);
        }
        self.send_again(forgotten, ScriptRef::Text, now);
    }

    fn send_again(&mut self, requests: Vec<NodeRequest>, by: ScriptRef, now: Timestamp) {
        let (over, again): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|request| request.op.is_over());
        for request in over {
            request.not_sent(Reason::Stale);
        }
        self.write_fresh(again.into_iter(), by, now);
    }

    /// Sends operations that met another tag, and so did not run, once more with the current tag,
    /// so that a change on one server fails no request.
    pub(super) fn send_mistagged(&mut self) {
        let mistagged = std::mem::take(&mut self.mistagged);
        if self.vote.is_none() {
            for request in mistagged {
                request.not_sent(Reason::WrongTag { found: "".into() });
            }
            return;
        }
        let now = self.settings.clock.now();
        self.send_again(mistagged, ScriptRef::Digest, now);
    }

    pub(super) fn break_off(mut self, reason: Reason) -> SessionEnd {
        self.take_back();
        let reason = self.link.login.hide(reason);
        // Later operations fail at once.
        self.status.set_down(reason.clone());
        for request in std::mem::take(&mut self.mistagged) {
            request.not_sent(reason.clone());
        }
        for batch in self.batches.drain() {
            match batch.content {
                BatchContent::Operations(OperationBatch { requests, server_clock, .. }) => {
                    self.lose(requests.into_iter(), batch.sent, server_clock, &reason);
                }
                BatchContent::AdminRequest(waiting) => {
                    let _ = waiting.send(Err(of_written(&reason)));
                }
                BatchContent::HealthCheck { .. }
                | BatchContent::Clock
                | BatchContent::Change { .. }
                | BatchContent::Login
                | BatchContent::Scripts(_) => {}
            }
        }
        for request in self.send_queue.drain() {
            request.not_sent(reason.clone());
        }
        SessionEnd::Broken(reason)
    }

    /// Ends written operations whose answers were lost with the connection.
    fn lose(
        &mut self,
        requests: impl Iterator<Item = NodeRequest>,
        sent: Timestamp,
        server_clock: ServerClock,
        reason: &Reason,
    ) {
        for request in requests {
            self.reconnect.unanswered(&request.op, sent, server_clock, self.settings.node_timeout);
            request.answer(Err(of_written(reason)), None);
        }
    }
}

/// Returns the reason for operations that were written: they may have run, regardless of what ended
/// the connection.
fn of_written(reason: &Reason) -> Reason {
    if reason.may_have_run() { reason.clone() } else { Reason::Disconnected }
}
