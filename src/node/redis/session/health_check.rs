//! Health checks: the server's enrolment and its clock. Between them, the clock alone is read.

use std::{sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};
use tokio::time::Instant;

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
            status_detail::{VoteBar, VoteBarKind},
            status_event::StatusEvent,
            values::read_time,
        },
    },
    protocol::formulas,
    time::Timestamp,
};

/// Interval of health checks, and maximum interval between the tests of whether one is due.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of health checks of a server that is not used. Its clock is read each second.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of reads and changes of a record within one health check.
const MAX_CHANGES: u8 = 6;

/// Maximum number of health checks per second. A clock that jumps causes checks of the other nodes,
/// so two clocks that jump at each reading would cause checks without a pause.
const MAX_CHECKS: u32 = 10;

/// The health checks of a session.
pub(super) struct CheckProgress {
    /// Whether the next health check must begin now.
    pub(super) is_due: bool,
    /// Number of reads and changes of the record in the health check under way, if any.
    changes: Option<u8>,
    /// The run id that the server reported first.
    run_id: Option<Arc<str>>,
    /// Number of health checks in the current second.
    begun: u32,
    counted_since: Instant,
    /// When the latest health check began.
    latest: Timestamp,
    /// When operations were last written.
    used: Timestamp,
    /// When TIME was last sent by itself.
    asked_time: Timestamp,
    /// The current interval of health checks.
    interval: Duration,
}

impl CheckProgress {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            is_due: true,
            changes: None,
            run_id: None,
            begun: 0,
            counted_since: Instant::now(),
            latest: now,
            used: now,
            asked_time: now,
            interval: CHECK_INTERVAL,
        }
    }

    /// Returns whether a health check must begin now. A check beyond the maximum rate is due in the
    /// next second.
    pub(super) fn may_begin(&self) -> bool {
        self.is_due && self.changes.is_none() && self.begun < MAX_CHECKS
    }

    fn begin(&mut self, now: Timestamp) {
        assert!(self.may_begin(), "health checks do not overlap");
        self.changes = Some(0);
        self.begun += 1;
        self.latest = now;
    }

    /// Returns whether the health check may read or change the record once more, and counts that.
    fn may_change(&mut self) -> bool {
        let Some(changes) = &mut self.changes else { unreachable!("a check is under way") };
        debug_assert!(*changes <= MAX_CHANGES, "changes are limited");
        let may_change = *changes < MAX_CHANGES;
        *changes += u8::from(may_change);
        may_change
    }

    fn end(&mut self) {
        assert!(self.changes.take().is_some(), "a health check ends once");
    }

    /// Records that operations are written. The first one of an unused server is followed by a
    /// health check.
    pub(super) fn note_use(&mut self, now: Timestamp) {
        self.used = now;
        self.is_due |= self.interval > CHECK_INTERVAL;
        self.interval = CHECK_INTERVAL;
    }

    /// Updates the interval, and whether it has passed since the latest health check. `longest` is the longest
    /// TTL of a lock.
    ///
    /// After that time without an operation, no lock of this client depends on the server, and the
    /// next vote is judged by its own TIME, and by its own view. Two readings of the clock within
    /// `longest` show each jump that may have expired keys of others.
    fn update_interval(&mut self, now: Timestamp, longest: Duration, all_vote: bool) {
        let is_idle = all_vote && now.saturating_duration_since(self.used) > longest;
        self.interval = if is_idle {
            (longest / 2).clamp(CHECK_INTERVAL, IDLE_CHECK_INTERVAL)
        } else {
            CHECK_INTERVAL
        };
        self.is_due |= now.saturating_duration_since(self.latest) >= self.interval;
    }

    /// Returns whether the clock is to be read by itself: no check is due, and a reading was last sent
    /// at `read`, [`READ_INTERVAL`] ago or almost. This is called at intervals of `interval`.
    fn must_read(&mut self, now: Timestamp, read: Timestamp, interval: Duration) -> bool {
        let latest = read.max(self.asked_time);
        let must_read = !self.is_due
            && self.changes.is_none()
            && now.saturating_duration_since(latest) + interval / 2 >= formulas::READ_INTERVAL;
        if must_read {
            self.asked_time = now;
        }
        must_read
    }

    /// Resets the count if a second is over.
    pub(super) fn count_anew(&mut self) {
        if self.counted_since.elapsed() >= CHECK_INTERVAL {
            (self.begun, self.counted_since) = (0, Instant::now());
        }
    }
}

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
        debug_assert!(self.checks.changes.is_some(), "a report belongs to a health check");
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
            let bar = VoteBar::Reason(Reason::NamesDiffer);
            self.status.set_bar(VoteBarKind::Names, Some(bar));
        }
        Ok(())
    }

    /// Ends the health check, with the reason for which the server can't be enrolled, if any.
    /// Operations that waited for the check are sent.
    fn finish_check(&mut self, trip: RoundTrip, result: Result<(), &Reason>) {
        self.checks.end();
        if let Err(reason) = result {
            self.status.set_bar(VoteBarKind::Enrolment, Some(VoteBar::Reason(reason.clone())));
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
            self.status.set_bar(VoteBarKind::Clock, None);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_server_is_checked_less_often() {
        let at = |seconds: f64| Timestamp::ZERO + Duration::from_secs_f64(seconds);
        let longest = Duration::from_secs(8);
        let mut checks = CheckProgress::new(at(0.0));
        // Looks each second, and returns the seconds in which checks began.
        let mut begun = |seconds: std::ops::Range<u32>, all_vote, used_at: u32| {
            seconds
                .filter(|second| {
                    let now = at(f64::from(*second));
                    if *second == used_at {
                        checks.note_use(now);
                    }
                    checks.update_interval(now, longest, all_vote);
                    let is_due = std::mem::take(&mut checks.is_due);
                    if is_due {
                        checks.latest = now;
                    }
                    is_due
                })
                .collect::<Vec<_>>()
        };

        assert_eq!(begun(0..9, true, 0), [0, 1, 2, 3, 4, 5, 6, 7, 8], "it may have locks");
        assert_eq!(begun(9..22, true, 0), [12, 16, 20], "half of the longest TTL");
        assert_eq!(begun(22..25, true, 22), [22, 23, 24], "at once when it is used");
        assert_eq!(begun(25..35, true, 0), [25, 26, 27, 28, 29, 30, 34]);
        assert_eq!(begun(35..37, false, 0), [35, 36], "a node begins its probation");
    }

    #[test]
    fn first_use_after_idleness_is_checked_at_once() {
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let mut checks = CheckProgress::new(at(0));
        (checks.is_due, checks.latest) = (false, at(100));
        checks.update_interval(at(100), Duration::from_secs(60), true);
        assert!(!checks.is_due);

        checks.note_use(at(100));

        assert!(std::mem::take(&mut checks.is_due), "the server may have changed meanwhile");
        checks.note_use(at(100));
        assert!(!checks.is_due, "it is in use");
    }

    #[test]
    fn clock_is_read_each_second_between_checks() {
        let at = |millis| Timestamp::ZERO + Duration::from_millis(millis);
        for interval in [200, 500, 1_000].map(Duration::from_millis) {
            let mut checks = CheckProgress::new(at(0));
            checks.is_due = false;
            let (mut read, mut longest) = (at(0), Duration::ZERO);

            // Looks come up to 1 ms late, and are answered after 10 ms. A check begins each 5 s.
            for number in 1..100_u32 {
                let now = Timestamp::ZERO
                    + interval * number
                    + Duration::from_millis(u64::from(number % 2));
                checks.update_interval(now, Duration::from_secs(10), true);
                checks.interval = IDLE_CHECK_INTERVAL;
                let begins = std::mem::take(&mut checks.is_due);
                if begins {
                    checks.latest = now;
                }
                if begins || checks.must_read(now, read, interval) {
                    longest = longest.max(now.saturating_duration_since(read));
                    read = now;
                }
            }

            assert!(longest <= Duration::from_millis(1_010), "{interval:?}: {longest:?}");
            assert!(longest >= Duration::from_millis(990), "{interval:?}: {longest:?}");
        }
    }

    #[test]
    fn votes_and_checks_spare_readings() {
        let at = |millis| Timestamp::ZERO + Duration::from_millis(millis);
        let interval = Duration::from_millis(500);
        let mut checks = CheckProgress::new(at(0));

        assert!(!checks.must_read(at(5_000), at(0), interval), "a check is due");
        checks.is_due = false;
        assert!(!checks.must_read(at(5_000), at(4_500), interval), "a vote read it");
        assert!(checks.must_read(at(5_000), at(4_000), interval));
        assert!(!checks.must_read(at(5_500), at(4_000), interval), "it is being read");
        checks.changes = Some(0);
        assert!(!checks.must_read(at(9_000), at(4_000), interval), "a check is under way");
    }

    #[test]
    fn short_ttls_keep_the_interval() {
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let is_due = |longest: u64, seconds: u64| {
            let mut checks = CheckProgress::new(at(0));
            checks.is_due = false;
            checks.latest = at(100);
            checks.update_interval(at(100 + seconds), Duration::from_secs(longest), true);
            checks.is_due
        };

        assert!(is_due(1, 1) && is_due(2, 1));
        assert!(!is_due(60, 4) && is_due(60, 5));
    }
}
