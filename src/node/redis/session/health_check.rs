//! Health checks: the server's enrolment and its clock.

use std::sync::Arc;

use ::redis::{Pipeline, Value};
use tokio::time::Instant;

use super::{Session, sent_batch::BatchContent, session::CHECK_INTERVAL};
use crate::{
    error::Reason,
    membership::{
        clock_jump_detector::Sighting,
        offsets::{Interval, Reading},
    },
    node::{
        ClockOffset,
        redis::{
            enrol::{Change, ChangeKind, Membership, NodeReport, Tag, add_check, next_change},
            handshake,
            server_clock::ServerClock,
            server_error::reason,
            server_traits,
            status_detail::{VoteBar, VoteBarKind},
            status_event::StatusEvent,
        },
    },
    time::Timestamp,
};

/// Maximum number of reads and changes of a record within one health check.
const MAX_CHANGES: u8 = 6;

/// Maximum number of health checks per second. A clock that jumps causes checks of the other nodes,
/// so two clocks that jump at each reading would cause checks without a pause.
const MAX_CHECKS: u32 = 10;

/// The health checks of a session.
pub(super) struct CheckProgress {
    /// Whether the first health check has ended, so that operations are sent.
    pub(super) has_begun: bool,
    pub(super) is_under_way: bool,
    /// Whether the next health check must begin now.
    pub(super) is_due: bool,
    /// Number of reads and changes of the record in the current health check.
    changes: u8,
    /// Number of health checks in the current second.
    begun: u32,
    counted_since: Instant,
}

impl Default for CheckProgress {
    fn default() -> Self {
        Self {
            has_begun: false,
            is_under_way: false,
            is_due: true,
            changes: 0,
            begun: 0,
            counted_since: Instant::now(),
        }
    }
}

impl CheckProgress {
    /// Returns whether a health check must begin now. A check beyond the maximum rate is due in the
    /// next second.
    pub(super) fn may_begin(&self) -> bool {
        self.is_due && !self.is_under_way && self.begun < MAX_CHECKS
    }

    /// Resets the count if a second is over.
    pub(super) fn count_anew(&mut self) {
        if self.counted_since.elapsed() >= CHECK_INTERVAL {
            (self.begun, self.counted_since) = (0, Instant::now());
        }
    }
}

impl Session<'_> {
    /// Sends a health check.
    pub(super) fn check_health(&mut self, now: Timestamp) {
        assert!(self.checks.may_begin(), "health checks do not overlap");
        self.checks.changes = 0;
        self.checks.begun += 1;
        self.link.digests.review();
        self.read_record(self.member.set.latest_tag(self.member.index), now);
    }

    /// Reads the record, and the fences that are stored under this tag.
    fn read_record(&mut self, tag: Tag, now: Timestamp) {
        let Membership { set, index } = self.member;
        let mut pipeline = Pipeline::with_capacity(8);
        add_check(&mut pipeline, &set.keys, &tag, &set.other_names(*index));
        (self.checks.is_under_way, self.checks.is_due) = (true, false);
        self.send_all(&pipeline, now, BatchContent::HealthCheck { tag });
    }

    pub(super) fn on_health_check(
        &mut self,
        sent: Timestamp,
        asked: &Tag,
        values: Vec<Value>,
    ) -> Result<(), Reason> {
        debug_assert!(self.checks.is_under_way && self.checks.changes <= MAX_CHANGES);
        let received = self.settings.clock.now();
        let restart = self.settings.guards.restart;
        let report = match handshake::parse_report(&mut values.into_iter(), asked, restart)? {
            Ok(report) => report,
            Err(reason) => {
                self.finish_check((sent, received), Err(&reason));
                return Ok(());
            }
        };
        match &self.run_id {
            Some(begun) if *begun != report.run_id => return Err(server_traits::changed()),
            Some(_) => {}
            None => self.reconnect.serve(&report.run_id, restart),
        }
        self.run_id = Some(Arc::clone(&report.run_id));
        self.link.server_clock = ServerClock::new(sent, report.server_micros);
        self.observe(sent, received, report.server_micros);
        if self.checks.changes < MAX_CHANGES {
            self.checks.changes += 1;
            if !self.checks.has_begun && report.tag != *asked {
                // Reads the record once more, with its fences.
                self.read_record(report.tag, received);
                return Ok(());
            }
            let is_fresh = !self.checks.has_begun && self.link.location.is_fresh;
            match next_change(&report, &self.member.set.terms(self.member.index, is_fresh)) {
                Ok(Some(change)) => {
                    self.change_record((sent, received), report, &change);
                    return Ok(());
                }
                Ok(None) => {}
                Err(reason) => {
                    self.finish_check((sent, received), Err(&reason));
                    return Ok(());
                }
            }
        }
        self.apply_report((sent, received), &report);
        Ok(())
    }

    /// Sends a change of the record, which is read again afterwards.
    fn change_record(
        &mut self,
        times: (Timestamp, Timestamp),
        report: NodeReport,
        change: &Change,
    ) {
        let Membership { set, index } = self.member;
        let call = change.call(&set.keys, set.traits(*index).knows_flags);
        let (tag, kind) = (change.after.clone(), change.kind);
        let content = BatchContent::Change { tag, times, report: Box::new(report), kind };
        self.send_all(&call, self.settings.clock.now(), content);
    }

    /// Handles the answer to a change that was decided by this report. Whether the change was made,
    /// or another client was faster, shows when the record is read again.
    pub(super) fn on_change(
        &mut self,
        values: &[Value],
        tag: Tag,
        times: (Timestamp, Timestamp),
        report: &NodeReport,
        kind: ChangeKind,
    ) -> Result<(), Reason> {
        let name = self.status.name();
        let reason = match (values.first(), kind) {
            (Some(Value::Int(made)), _) => {
                if let (1, ChangeKind::Takeover(nodes)) = (*made, kind) {
                    self.status.report(StatusEvent::TakenOver { nodes });
                }
                self.read_record(tag, self.settings.clock.now());
                return Ok(());
            }
            (Some(Value::ServerError(error)), _) => reason(error),
            _ => {
                let text = "a change of the record did not answer with a number";
                return Err(Reason::Protocol(text.into()));
            }
        };
        match kind {
            ChangeKind::Vote if handshake::keeps_keys(&reason) => {
                self.finish_check(times, Err(&reason));
                return Ok(());
            }
            ChangeKind::Vote => return Err(reason),
            ChangeKind::NameOwners => {
                crate::log::debug!(node = %name, %reason, "the owners of the other names are not stored yet");
            }
            ChangeKind::Takeover(_) | ChangeKind::Start => {
                crate::log::debug!(node = %name, %reason, "the node is not moved yet");
            }
            ChangeKind::InUse => {}
        }
        self.apply_report(times, report);
        if kind == ChangeKind::NameOwners {
            // Other nodes may store the owners already, so the votes of this node must not count
            // with theirs.
            let bar = VoteBar::Reason(Reason::NamesDiffer);
            self.status.set_bar(VoteBarKind::Names, Some(bar));
        }
        Ok(())
    }

    /// Ends the health check, with the reason for which the server can't be enrolled, if any.
    /// Operations that waited for the check are sent.
    fn finish_check(
        &mut self,
        (sent, received): (Timestamp, Timestamp),
        result: Result<(), &Reason>,
    ) {
        assert!(std::mem::take(&mut self.checks.is_under_way), "a health check ends once");
        if let Err(reason) = result {
            self.status.set_bar(VoteBarKind::Enrolment, Some(VoteBar::Reason(reason.clone())));
        }
        // Whether the server may vote is decided before the node is reported as up.
        if !self.checks.has_begun {
            self.checks.has_begun = true;
            let traits = self.member.set.traits(self.member.index);
            let address = self.link.location.address.to_string().into();
            let round_trip = received.saturating_duration_since(sent);
            self.status.set_up(address, traits, round_trip);
        }
        if let Err(reason) = result {
            self.status.set_refusing(reason);
        }
        if !self.reconnect.offsets.is_barred(received) {
            self.status.set_bar(VoteBarKind::Clock, None);
        }
        self.send_mistagged();
    }

    /// Applies a report.
    fn apply_report(&mut self, (sent, received): (Timestamp, Timestamp), report: &NodeReport) {
        let is_first = !self.checks.has_begun;
        // Other clients may hold locks with longer TTLs.
        let window = report.longest_ttl().max(self.settings.max_ttl);
        self.reconnect.offsets.set_window(window);
        let trip = received.saturating_duration_since(sent);
        // The server read its clock between the two times, most likely in the middle.
        let wall = self.settings.clock.wall().saturating_sub(trip / 2);
        let ahead = i128::from(report.server_micros) - wall.as_micros().cast_signed();
        let offset = ClockOffset::new(i64::try_from(ahead).unwrap_or(i64::MAX), trip / 2);
        self.status.set_known(report, offset, trip);
        self.review_refusal(report);
        let admission = self.member.set.report(
            self.member.index,
            report,
            (sent, received),
            is_first && self.link.location.is_fresh,
        );
        self.tag = admission.tag.unwrap_or_else(|| Tag::new(""));
        self.fences = self.member.set.keys.voting_fences(&self.tag);
        self.view = admission.view;
        self.member.set.compare_clocks(received);
        self.finish_check((sent, received), Ok(()));
        // A pause before the next connection applies, as for any broken connection.
        self.leaving = (admission.reconnect && !is_first).then_some(Reason::Displaced);
    }

    /// Records a reading of the server's clock; returns false if the server must not grant.
    pub(super) fn observe(
        &mut self,
        sent: Timestamp,
        received: Timestamp,
        server_micros: u64,
    ) -> bool {
        let (nodes, offsets) = (&self.member.set, &mut self.reconnect.offsets);
        let corrections = nodes.corrections(self.member.index);
        if self.reconnect.corrections != corrections {
            self.reconnect.corrections = corrections;
            offsets.forgive();
        }
        let overestimate = nodes.overestimate();
        offsets.widen(overestimate.saturating_sub(self.reconnect.overestimate));
        self.reconnect.overestimate = overestimate;
        let reading = Interval::new(sent, received, server_micros);
        let shift =
            nodes.is_deciding_jumps(received).then(|| offsets.shift(reading, sent, received));
        let reading = offsets.observe(reading, sent, received);
        if let Some(ahead) = offsets.ahead() {
            self.status.set_ahead(ahead);
        }
        match reading {
            Reading::Jumped { by, since } => {
                let jump = Sighting { by, since, seen: received };
                nodes.jumped(self.member.index, jump, offsets.barred_until());
            }
            Reading::Steady => {
                if let Some(shift) = shift.flatten() {
                    nodes.steady(self.member.index, shift, received);
                }
            }
        }
        !self.reconnect.offsets.is_barred(received)
    }
}
