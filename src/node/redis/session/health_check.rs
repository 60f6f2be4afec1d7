//! Health checks: the server's enrolment and its clock.

use std::sync::Arc;

use ::redis::{Pipeline, Value};

use super::{Session, sent_batch::BatchContent};
use crate::{
    error::Reason,
    membership::{
        clock_jump_detector::Sighting,
        offsets::{Interval, Reading},
    },
    node::{
        ClockOffset,
        redis::{
            enrol::{Change, NodeReport, Tag},
            handshake::{self, TimedReport},
            server_clock::ServerClock,
            server_traits,
            status_detail::{VoteBar, VoteBarKind},
        },
    },
    time::Timestamp,
};

/// Number of changes after which a record is left to the next health check.
const MAX_CHANGES: u8 = 3;

impl Session<'_> {
    /// Processes the health check of the handshake.
    pub(super) fn begin(&mut self) {
        let TimedReport { sent, received, report } = std::mem::replace(
            &mut self.link.report,
            TimedReport {
                sent: Timestamp::ZERO,
                received: Timestamp::ZERO,
                report: Err(Reason::Unknown),
            },
        );
        // Whether it may vote is decided before the node is up.
        match &report {
            Ok(report) => {
                self.run_id = Some(Arc::clone(&report.run_id));
                self.reconnect.serve(&report.run_id, self.settings.guards.restart);
                self.observe(sent, received, report.server_micros);
                self.stand((sent, received), report, self.link.location.is_fresh);
            }
            Err(reason) => self.unenrolled(reason),
        }
        let traits = self.member.set.traits(self.member.index);
        let round_trip = received.saturating_duration_since(sent);
        let address = self.link.location.address.to_string().into();
        self.status.set_up(address, traits, round_trip);
        if let Err(reason) = &report {
            self.status.set_refusing(reason);
        }
    }

    /// Records that the server can't be enrolled.
    fn unenrolled(&self, reason: &Reason) {
        self.status.set_bar(VoteBarKind::Enrolment, Some(VoteBar::Reason(reason.clone())));
    }

    /// Sends a health check.
    pub(super) fn check_health(&mut self, now: Timestamp) {
        self.changes = 0;
        self.read_record(now);
    }

    fn read_record(&mut self, now: Timestamp) {
        let mut pipeline = Pipeline::with_capacity(8);
        let tag = self.member.set.latest_tag(self.member.index);
        handshake::add_health_check(&mut pipeline, self.member, &tag);
        self.send_all(&pipeline, now, BatchContent::HealthCheck { tag });
        (self.checking, self.check_now) = (true, false);
    }

    pub(super) fn on_health_check(
        &mut self,
        sent: Timestamp,
        tag: &Tag,
        values: Vec<Value>,
    ) -> Result<(), Reason> {
        let received = self.settings.clock.now();
        self.checking = false;
        match handshake::read_report(&mut values.into_iter(), self.member, tag)? {
            Ok(report) => {
                let begun = &mut self.run_id;
                if begun.as_ref().is_some_and(|begun| *begun != report.run_id) {
                    return Err(server_traits::changed());
                }
                *begun = Some(Arc::clone(&report.run_id));
                self.link.server_clock = ServerClock::new(sent, report.server_micros);
                self.observe(sent, received, report.server_micros);
                match handshake::next_change(&report, self.member, false) {
                    Ok(Some(change)) if self.changes < MAX_CHANGES => {
                        self.change_record((sent, received), report, &change);
                        return Ok(());
                    }
                    Ok(_) => {
                        if self.stand((sent, received), &report, false) {
                            return Err(Reason::Displaced);
                        }
                    }
                    Err(reason) => self.cannot_enrol(&reason),
                }
            }
            Err(reason) => self.cannot_enrol(&reason),
        }
        self.checked();
        Ok(())
    }

    fn cannot_enrol(&self, reason: &Reason) {
        self.unenrolled(reason);
        self.status.set_refusing(reason);
    }

    /// The health check is over: what waited for it goes on.
    fn checked(&mut self) {
        if !self.reconnect.offsets.is_barred(self.settings.clock.now()) {
            self.status.set_bar(VoteBarKind::Clock, None);
        }
        self.send_mistagged();
    }

    /// Sends a change of the record, which is read again afterwards.
    fn change_record(
        &mut self,
        times: (Timestamp, Timestamp),
        report: NodeReport,
        change: &Change,
    ) {
        self.changes += 1;
        self.checking = true;
        let mut pipeline = Pipeline::with_capacity(1);
        handshake::add_change(&mut pipeline, self.member, change);
        let is_optional = change.is_optional;
        let content = BatchContent::Change { times, report: Box::new(report), is_optional };
        self.send_all(&pipeline, self.settings.clock.now(), content);
    }

    /// The answer to a change that was decided by this report.
    pub(super) fn on_change(
        &mut self,
        values: &[Value],
        (sent, received): (Timestamp, Timestamp),
        report: &NodeReport,
        is_optional: bool,
    ) -> Result<(), Reason> {
        let now = self.settings.clock.now();
        match handshake::read_change(values.first().unwrap_or(&Value::Nil)) {
            Ok(()) => {
                self.read_record(now);
                return Ok(());
            }
            Err(_) if is_optional => {
                if self.stand((sent, received), report, false) {
                    return Err(Reason::Displaced);
                }
            }
            Err(reason) if handshake::keeps_keys(&reason) => self.cannot_enrol(&reason),
            Err(reason) => return Err(reason),
        }
        self.checking = false;
        self.checked();
        Ok(())
    }

    /// Applies a report; returns true if the node's name has to be resolved again.
    fn stand(
        &mut self,
        (sent, received): (Timestamp, Timestamp),
        report: &NodeReport,
        is_fresh: bool,
    ) -> bool {
        // Other clients may hold locks for longer.
        let window = report.longest_ttl().max(self.settings.max_ttl);
        self.reconnect.offsets.set_window(window);
        let trip = received.saturating_duration_since(sent);
        // The server read its clock between the two, most likely in the middle.
        let wall = self.settings.clock.wall().saturating_sub(trip / 2);
        let ahead = i128::from(report.server_micros) - wall.as_micros().cast_signed();
        let offset = ClockOffset::new(i64::try_from(ahead).unwrap_or(i64::MAX), trip / 2);
        self.status.set_known(report, offset, trip);
        self.review_refusal(report);
        let admission =
            self.member.set.report(self.member.index, report, (sent, received), is_fresh);
        self.tag = admission.tag.unwrap_or_else(|| Tag::new(""));
        self.fences = self.member.set.keys.voting_fences(&self.tag);
        self.view = admission.view;
        self.member.set.compare_clocks(received);
        admission.reconnect
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
