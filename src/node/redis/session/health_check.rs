//! Health checks: the server's enrolment and its clock. Between them, the clock alone is read.

use std::{sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};

use super::{
    Session,
    sent_batch::{BatchContent, RoundTrip},
    votes::review_refusal,
    voting_tag::VotingTag,
};
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
            status_detail::{VoteObstacle, VoteObstacleKind},
            status_event::StatusEvent,
            values::read_time,
        },
    },
    time::Timestamp,
};

impl Session<'_> {
    /// Begins a health check later if its interval is over; reads the clock if the latest reading gets
    /// too old (R10). This is called at intervals of `interval`.
    pub(super) fn update_checks(&mut self, now: Timestamp, interval: Duration) {
        self.checks.count_anew();
        let longest = self.reconnect.offsets.window();
        self.checks.update_interval(now, longest, self.member.set.all_vote());
        let read = self.link.server_clock.sent();
        if self.phase.is_serving() && self.checks.must_read(now, read, interval) {
            let mut pipeline = Pipeline::with_capacity(1);
            pipeline.cmd("TIME");
            self.send_all(&pipeline, now, BatchContent::Clock);
        }
    }

    /// Records a reading of the clock by itself. A health check finds out what an error means.
    pub(super) fn on_clock(&mut self, sent: Timestamp, time: Value) {
        match read_time(time) {
            Ok(micros) => {
                let received = self.settings.clock.now();
                self.read_clock(sent, micros);
                self.observe(sent, received, micros);
            }
            Err(_) => self.checks.is_due = true,
        }
    }

    /// Sends a health check.
    pub(super) fn check_health(&mut self, now: Timestamp) {
        self.checks.begin(now);
        if self.link.digests.needs_review() {
            Arc::make_mut(&mut self.link.digests).review();
        }
        self.read_record(self.member.set.latest_tag(self.member.index), now);
    }

    /// Reads the record, and the fences that are stored under this tag.
    fn read_record(&mut self, tag: Tag, now: Timestamp) {
        let Membership { set, index } = self.member;
        let mut pipeline = Pipeline::with_capacity(8);
        add_check(&mut pipeline, &set.keys, &tag, &set.other_names(*index));
        self.checks.is_due = false;
        self.send_all(&pipeline, now, BatchContent::HealthCheck { tag });
    }

    pub(super) fn on_health_check(
        &mut self,
        sent: Timestamp,
        asked: &Tag,
        values: Vec<Value>,
    ) -> Result<(), Reason> {
        debug_assert!(self.checks.is_under_way(), "a report belongs to a health check");
        let received = self.settings.clock.now();
        let trip = RoundTrip { sent, received };
        let restart = self.settings.guards.restart;
        let report = match handshake::parse_report(&mut values.into_iter(), asked, restart)? {
            Ok(report) => report,
            Err(reason) => {
                self.finish_check(trip, Err(&reason));
                return Ok(());
            }
        };
        match &self.checks.run_id {
            Some(begun) if *begun != report.run_id => return Err(server_traits::changed()),
            Some(_) => {}
            None => self.reconnect.serve(&report.run_id, restart),
        }
        self.checks.run_id = Some(Arc::clone(&report.run_id));
        self.read_clock(sent, report.server_micros);
        self.observe(sent, received, report.server_micros);
        if self.checks.may_change() {
            if self.phase.is_greeting() && report.tag != *asked {
                // Reads the record once more, with its fences.
                self.read_record(report.tag, received);
                return Ok(());
            }
            let is_fresh = self.phase.is_greeting() && self.link.location.is_fresh;
            match next_change(&report, &self.member.set.terms(self.member.index, is_fresh)) {
                Ok(Some(change)) => {
                    self.change_record(trip, report, &change);
                    return Ok(());
                }
                Ok(None) => {}
                Err(reason) => {
                    self.finish_check(trip, Err(&reason));
                    return Ok(());
                }
            }
        }
        self.apply_report(trip, &report);
        Ok(())
    }

    /// Sends a change of the record, which is read again afterwards.
    fn change_record(&mut self, trip: RoundTrip, report: NodeReport, change: &Change) {
        let Membership { set, index } = self.member;
        let call = change.call(&set.keys, set.traits(*index).knows_flags);
        let (tag, kind) = (change.after.clone(), change.kind);
        let content = BatchContent::Change { tag, trip, report: Box::new(report), kind };
        self.send_all(&call, self.settings.clock.now(), content);
    }

    /// Handles the answer to a change that was decided by this report. Whether the change was made,
    /// or another client was faster, shows when the record is read again.
    pub(super) fn on_change(
        &mut self,
        values: &[Value],
        tag: Tag,
        trip: RoundTrip,
        report: &NodeReport,
        kind: ChangeKind,
    ) -> Result<(), Reason> {
        let name = self.status.name();
        let reason = match (values.first(), kind) {
            (Some(Value::Int(made)), _) => {
                if let (1, ChangeKind::Takeover(_)) = (*made, kind) {
                    let former = Arc::clone(&report.layout);
                    let ours = Arc::clone(&self.member.set.layout.description);
                    self.status.report(StatusEvent::TakenOver { former, ours });
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
                self.finish_check(trip, Err(&reason));
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
        self.apply_report(trip, report);
        if kind == ChangeKind::NameOwners {
            // Other nodes may store the owners already, so the votes of this node must not count
            // with theirs.
            let obstacle = VoteObstacle::Reason(Reason::NamesDiffer);
            self.status.set_obstacle(VoteObstacleKind::Names, Some(obstacle));
        }
        Ok(())
    }

    /// Ends the health check, with the reason for which the server can't be enrolled, if any.
    /// Operations that waited for the check are sent.
    fn finish_check(&mut self, trip: RoundTrip, result: Result<(), &Reason>) {
        self.checks.end();
        if let Err(reason) = result {
            self.status.set_obstacle(
                VoteObstacleKind::Enrolment,
                Some(VoteObstacle::Reason(reason.clone())),
            );
        }
        // Whether the server may vote is decided before the node is reported as up.
        if self.phase.is_greeting() {
            self.phase.greeted();
            let traits = self.member.set.traits(self.member.index);
            let address = self.link.location.address.to_string().into();
            self.status.set_up(address, traits, trip.duration());
        }
        if let Err(reason) = result {
            self.status.set_refusing(reason);
        }
        if !self.reconnect.offsets.is_barred(trip.received) {
            self.status.set_obstacle(VoteObstacleKind::Clock, None);
        }
        self.send_mistagged();
    }

    /// Applies a report.
    fn apply_report(&mut self, trip: RoundTrip, report: &NodeReport) {
        let is_first = self.phase.is_greeting();
        // Other clients may hold locks with longer TTLs.
        let window = report.longest_ttl().max(self.settings.max_ttl);
        self.reconnect.offsets.set_window(window);
        let duration = trip.duration();
        // The server read its clock between the two times, most likely in the middle.
        let wall = self.settings.clock.wall().saturating_sub(duration / 2);
        let ahead = i128::from(report.server_micros) - wall.as_micros().cast_signed();
        let offset = ClockOffset::new(i64::try_from(ahead).unwrap_or(i64::MAX), duration / 2);
        self.status.set_known(report, offset, duration);
        review_refusal(self.status, report);
        let admission = self.member.set.report(
            self.member.index,
            report,
            trip.sent,
            trip.received,
            is_first && self.link.location.is_fresh,
        );
        let must_reconnect = admission.reconnect && !is_first;
        self.vote = VotingTag::of(admission, &self.member.set.keys);
        self.member.set.compare_clocks(trip.received);
        self.finish_check(trip, Ok(()));
        if must_reconnect {
            // A pause before the next connection applies, as for any broken connection.
            self.phase.leave(Reason::Displaced);
        }
    }

    /// Records the latest reading of the server's clock, for the deadlines of later commands.
    pub(super) fn read_clock(&mut self, sent: Timestamp, server_micros: u64) {
        let drift_factor = self.settings.drift_factor;
        self.link.server_clock = ServerClock::new(sent, server_micros, drift_factor);
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
