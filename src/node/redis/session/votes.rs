//! Records refused operations: whether the server refuses all votes and for how long, and the
//! commands that it denies.

use std::time::Duration;

use crate::{
    error::Reason,
    node::redis::{enrol::NodeReport, status::Status},
    protocol::{Answer, Op},
    time::Timestamp,
};

/// Time for which a vote that counted outweighs a refusal that may concern one name only.
const VOTE_WEIGHT_TIME: Duration = Duration::from_secs(1);
/// Time after the latest refusal for which a server is reported as refusing, if a health check does
/// not show whether it would refuse again. Clients may have stopped sending votes.
const REFUSAL_TTL: Duration = Duration::from_secs(1);

/// Returns whether a refusal concerns every vote, or perhaps only its name or token; `None` if the
/// reason is not a refusal.
fn concerns_all(op: &Op, reason: &Reason) -> Option<bool> {
    match reason {
        Reason::OutOfMemory | Reason::PersistenceFailing | Reason::Busy | Reason::NoReplicas => {
            Some(true)
        }
        Reason::NoPermission(_) | Reason::Server(_) | Reason::Protocol(_) | Reason::TokenAhead => {
            op.is_vote().then_some(false)
        }
        _ => None,
    }
}

/// Returns whether the vote stored something.
fn has_stored(op: &Op, answer: &Answer) -> bool {
    match answer {
        Answer::Granted(_) | Answer::Raised(_) | Answer::Promised(_) | Answer::Claimed => true,
        Answer::Recorded(_) => matches!(op, Op::Record(_)),
        _ => false,
    }
}

/// Returns whether a server is no longer reported as refusing for this reason. `report` is a health
/// check after the refusal; `silence` is the time since the latest refusal.
fn is_over(reason: &Reason, report: &NodeReport, silence: Duration) -> bool {
    let is_cause_gone = match reason {
        // A server that evicts may be above its limit, and still vote.
        Reason::OutOfMemory => {
            let memory = report.memory.as_ref().filter(|memory| !memory.evicts());
            memory.map(|memory| !memory.is_full())
        }
        // A server that can't persist may still vote, with `stop-writes-on-bgsave-error no`.
        Reason::PersistenceFailing => report.persists.filter(|persists| *persists),
        // The server answered the health check.
        Reason::Busy => Some(true),
        _ => None,
    };
    is_cause_gone.unwrap_or(silence >= REFUSAL_TTL)
}

/// The state by which refusals on a connection are judged.
pub(super) struct RefusalRecord {
    /// The time at which a vote last stored something.
    stored: Option<Timestamp>,
    /// Whether the server may deny commands to operations.
    may_be_denied: bool,
}

impl RefusalRecord {
    pub(super) const fn new() -> Self {
        // An earlier connection may have met a denied command.
        Self { stored: None, may_be_denied: true }
    }

    /// Records the outcome of a vote.
    pub(super) fn note_vote(
        &mut self,
        status: &Status,
        op: &Op,
        result: &Result<Answer, Reason>,
        now: Timestamp,
    ) {
        match result {
            Ok(answer) if has_stored(op, answer) => {
                self.stored = Some(now);
                status.end_refusing(|_, _| true);
            }
            Ok(_) => {}
            Err(reason) => {
                let is_recent = |at| now.saturating_duration_since(at) < VOTE_WEIGHT_TIME;
                let is_outweighed = self.stored.is_some_and(is_recent);
                if concerns_all(op, reason).is_some_and(|all| all || !is_outweighed) {
                    status.set_refusing(reason);
                }
            }
        }
    }

    /// Records a command that the server denies, until an operation of the kind succeeds.
    pub(super) fn note_permission(
        &mut self,
        status: &Status,
        op: &Op,
        result: &Result<Answer, Reason>,
    ) {
        match result {
            // Such an operation may not have reached the denied command.
            Ok(Answer::Held(_)) => {}
            Ok(_) if self.may_be_denied => {
                self.may_be_denied = status.denied(|denied| denied.succeeded(op));
            }
            Ok(_) => {}
            Err(reason) => {
                if let Some(command) = reason.denied_command() {
                    self.may_be_denied = true;
                    status.denied(|denied| denied.refused(op, command));
                }
            }
        }
    }
}

/// Ends the refusal of a server if a health check shows that it is over.
pub(super) fn review_refusal(status: &Status, report: &NodeReport) {
    status.end_refusing(|reason, silence| is_over(reason, report, silence));
}

#[cfg(test)]
mod tests {
    use ::redis::Value;

    use super::*;
    use crate::node::redis::{RestartGuard, enrol::Tag};

    const INSTANT: Duration = Duration::ZERO;

    /// A health check with these lines of INFO memory and INFO persistence.
    fn report(memory: &str, persistence: &str) -> NodeReport {
        let bulk = |text: &str| Value::BulkString(text.into());
        let time = Value::Array(vec![bulk("1"), bulk("0")]);
        let (server, history) = (bulk("run_id:a"), bulk("role:master\nmaster_replid:b"));
        let record = Value::Array(Vec::new());
        let answers = [record, Value::Nil, time, server, history, bulk(memory), bulk(persistence)];
        NodeReport::parse(&mut answers.into_iter(), &Tag::new(""), RestartGuard::Off)
            .expect("a report")
    }

    #[test]
    fn full_server_refuses_until_below_limit() {
        let reads = |used, policy| {
            let memory = format!("maxmemory:100\nmaxmemory_policy:{policy}\nused_memory:{used}");
            report(&format!("{memory}\nmem_not_counted_for_evict:10"), "")
        };
        let reason = Reason::OutOfMemory;
        let is_over = |report: &_, silence| is_over(&reason, report, silence);

        assert!(!is_over(&reads(111, "noeviction"), REFUSAL_TTL * 60));
        assert!(is_over(&reads(110, "noeviction"), INSTANT));
        for (silence, expected) in [(INSTANT, false), (REFUSAL_TTL, true)] {
            assert_eq!(is_over(&reads(111, "allkeys-lru"), silence), expected);
            assert_eq!(is_over(&report("", ""), silence), expected, "unknown");
        }
    }

    #[test]
    fn persistence_restored_ends_refusal() {
        let reads = |snapshots, log| {
            report("", &format!("rdb_last_bgsave_status:{snapshots}\naof_last_write_status:{log}"))
        };
        let reason = Reason::PersistenceFailing;
        let is_over = |report: &_, silence| is_over(&reason, report, silence);

        assert!(is_over(&reads("ok", "ok"), INSTANT));
        for failing in [reads("err", "ok"), reads("ok", "err"), report("", "")] {
            assert!(!is_over(&failing, INSTANT));
            assert!(is_over(&failing, REFUSAL_TTL));
        }
    }

    #[test]
    fn answered_health_check_ends_busy() {
        assert!(is_over(&Reason::Busy, &report("", ""), INSTANT));
    }

    #[test]
    fn other_refusals_end_after_silence() {
        for reason in [Reason::TokenAhead, Reason::Server("no".into())] {
            assert!(!is_over(&reason, &report("", ""), INSTANT));
            assert!(is_over(&reason, &report("", ""), REFUSAL_TTL));
        }
    }
}
