//! Handles the replies to a batch.

use std::iter;

use ::redis::{Pipeline, Value};

use super::{
    Session, SessionEnd,
    sent_batch::{BatchContent, SentBatch},
};
use crate::{
    error::Reason,
    node::redis::{
        decode::{Decoded, Unanswered, decode},
        encode::ScriptRef,
        permissions,
        request::NodeRequest,
        scripts,
        server_clock::ServerClock,
    },
    protocol::{Answer, Op},
    time::Timestamp,
};

impl Session<'_> {
    /// Passes the answers of a batch on, and repeats what has to be sent again.
    pub(super) fn on_answers(&mut self, batch: SentBatch) -> Result<(), Reason> {
        let SentBatch { sent, server_clock, content, view, tag, answers: values, .. } = batch;
        let groups = match content {
            BatchContent::Operations(groups) => {
                self.unanswered -= groups.iter().map(Vec::len).sum::<usize>();
                groups
            }
            BatchContent::HealthCheck => return self.on_health_check(sent, values),
            BatchContent::Change { times, report, is_optional } => {
                return self.on_change(&values, times, &report, is_optional);
            }
            BatchContent::AdminRequest(waiting) => {
                // The caller may have given up.
                let _ = waiting.send(Ok(values));
                return Ok(());
            }
            BatchContent::Permissions => {
                if let Some(denied) = permissions::answer(values) {
                    self.status.set_denied(|known| known.found(denied));
                }
                return Ok(());
            }
            BatchContent::Scripts => return Ok(()),
        };
        let received = self.settings.clock.now();
        let mut unusable = None;
        let (mut forgotten, mut apart) = (Vec::new(), Vec::new());
        let mut values = values.into_iter();
        let mut groups = groups.into_iter();
        while let Some(group) = groups.next() {
            match decode(&self.member.set.keys, &group, values.next().unwrap_or(Value::Nil)) {
                Ok(answers) => {
                    // All answers of a call share one reading of the clock.
                    let micros = answers.iter().find_map(|answer| answer.server_micros);
                    let sound = micros.is_none_or(|micros| {
                        self.link.server_clock = ServerClock::new(sent, micros);
                        self.observe(sent, received, micros)
                    });
                    for (mut request, mut decoded) in group.into_iter().zip(answers) {
                        self.judge(&request.op, &mut decoded, sound);
                        // The operation was sent although the node had no vote.
                        if let Err(Reason::WrongTag { .. }) = &decoded.result
                            && tag.text().is_empty()
                            && let Some(reason) = self.status.barred()
                        {
                            request.answer(Err(reason), None);
                            continue;
                        }
                        self.note_vote(&request.op, &decoded.result, received);
                        if self.note(&decoded.result) {
                            unusable = decoded.result.clone().err();
                        }
                        if let Err(Reason::WrongTag { found }) = &decoded.result
                            && found != tag.text()
                            && request.begin_again()
                        {
                            self.mistagged.push(request);
                            continue;
                        }
                        request.answer(decoded.result, view.clone());
                    }
                }
                Err(Unanswered::NoScript) => forgotten.extend(group),
                Err(Unanswered::Failed) => {
                    self.last_spoilt = Some(self.settings.clock.now());
                    apart.extend(group);
                }
                Err(Unanswered::OtherCall) => {
                    let reason = Reason::Protocol("an answer to another call".into());
                    self.status.set_down(reason.clone());
                    apart.extend(iter::once(group).chain(groups.by_ref()).flatten());
                    unusable = Some(reason);
                }
            }
        }
        // For example a server that became a replica: down until it votes again.
        if let Some(reason) = unusable {
            let unsettled = forgotten.into_iter().chain(apart);
            self.lose(unsettled, (sent, server_clock), &reason);
            return Err(reason);
        }
        self.resend(forgotten, apart);
        self.try_vote(received);
        Ok(())
    }

    /// Rejects a grant by a server whose clock jumped, and a release after which an unanswered
    /// grant may still run.
    fn judge(&mut self, op: &Op, decoded: &mut Decoded, sound: bool) {
        if decoded.granted && !sound {
            let by_micros = match self.status.barred() {
                Some(Reason::ClockJumped { by_micros }) => by_micros,
                _ => 0,
            };
            decoded.result = Err(Reason::ClockJumped { by_micros });
        }
        if let (Op::Release(lease), Ok(_), Some(micros)) =
            (op, &decoded.result, decoded.server_micros)
            && !self.reconnect.settles(lease.nonce(), micros)
        {
            decoded.result = Err(Reason::Unsettled);
        }
    }

    /// Notes what an answer says about the server; returns whether the connection is unusable.
    fn note(&mut self, result: &Result<Answer, Reason>) -> bool {
        match result {
            // Before the answer is sent: its receiver finds the node down.
            Err(reason) if reason.ends_connection() => {
                self.status.set_down(reason.clone());
                return true;
            }
            Err(Reason::WrongTag { .. } | Reason::TtlTooLong) => self.check_now = true,
            Err(Reason::NoPermission(_)) => self.permissions_doubted = true,
            _ => {}
        }
        false
    }

    /// Repeats operations: by script text where the server lacks the scripts, one by one where one
    /// operation failed a call for all. Keeps their order, and drops ended ones, which must not run
    /// after their release.
    fn resend(&mut self, forgotten: Vec<NodeRequest>, apart: Vec<NodeRequest>) {
        let now = self.settings.clock.now();
        // If both apply, which is rare, all are sent by text.
        let by = if forgotten.is_empty() { ScriptRef::Digest } else { ScriptRef::Text };
        if !forgotten.is_empty() {
            // A server that lacks one script lacks all. They are loaded now, as operations repeated
            // later would run after those written meanwhile.
            let mut scripts = Pipeline::new();
            scripts::load(&mut scripts);
            self.send_all(&scripts, now, BatchContent::Scripts);
        }
        let again = forgotten.into_iter().chain(apart);
        let (over, again): (Vec<_>, Vec<_>) =
            again.partition(|request: &NodeRequest| request.op.is_over());
        for request in over {
            request.not_sent(Reason::Stale);
        }
        let requests = Self::fresh(again.into_iter(), now);
        if !requests.is_empty() {
            self.write(self.group(requests, now), by, now);
        }
    }

    /// Sends operations that met another tag, and so did not run, once more with the tag known now:
    /// a change at one server fails no request.
    pub(super) fn send_mistagged(&mut self) {
        let mistagged = std::mem::take(&mut self.mistagged);
        if self.tag.text().is_empty() {
            for request in mistagged {
                request.not_sent(Reason::WrongTag { found: "".into() });
            }
            return;
        }
        self.resend(Vec::new(), mistagged);
    }

    pub(super) fn break_off(mut self, reason: Reason) -> SessionEnd {
        // Later operations fail at once.
        self.status.set_down(reason.clone());
        for request in std::mem::take(&mut self.mistagged) {
            request.not_sent(reason.clone());
        }
        for batch in std::mem::take(&mut self.batches) {
            match batch.content {
                BatchContent::Operations(groups) => {
                    let requests = groups.into_iter().flatten();
                    self.lose(requests, (batch.sent, batch.server_clock), &reason);
                }
                BatchContent::AdminRequest(waiting) => {
                    let _ = waiting.send(Err(of_written(&reason)));
                }
                BatchContent::HealthCheck
                | BatchContent::Change { .. }
                | BatchContent::Permissions
                | BatchContent::Scripts => {}
            }
        }
        for request in self.send_queue.drain() {
            request.not_sent(reason.clone());
        }
        SessionEnd::Broken(reason)
    }

    /// Ends written operations whose answers are lost with the connection.
    fn lose(
        &mut self,
        requests: impl Iterator<Item = NodeRequest>,
        (sent, server_clock): (Timestamp, ServerClock),
        reason: &Reason,
    ) {
        for request in requests {
            self.reconnect.unanswered(&request.op, sent, server_clock);
            request.answer(Err(of_written(reason)), None);
        }
    }
}

/// The reason for operations that were written: they may have run, whatever ended the connection.
fn of_written(reason: &Reason) -> Reason {
    if reason.may_have_run() { reason.clone() } else { Reason::Disconnected }
}
