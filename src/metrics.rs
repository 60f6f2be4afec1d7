//! Metrics, for the `metrics` facade. `metrics.md` has their names and texts: the crate's documentation includes
//! it, and recorders get the texts as descriptions.
//!
//! Names of resources are not used as labels, as there are too many, and some are personal data.

use std::time::Duration;

use crate::error::{LockError, LossCause};

/// Records a value; does nothing without the feature `metrics`.
macro_rules! note {
    ($kind:ident $name:literal $(, $label:literal => $value:expr)*; $do:ident $with:expr) => {{
        crate::sync::assert_unlocked();
        #[cfg(feature = "metrics")]
        ::metrics::$kind!($name $(, $label => $value)*).$do($with);
        #[cfg(not(feature = "metrics"))]
        let _ = || ($($value,)* $with,);
    }};
}

/// The table of all metrics: name, kind, labels, and what it is.
#[cfg(any(feature = "metrics", test))]
const TABLE: &str = include_str!("metrics.md");

/// A row of the table.
#[cfg(any(feature = "metrics", test))]
#[derive(Debug)]
struct MetricRow {
    name: &'static str,
    kind: &'static str,
    text: String,
}

#[cfg(any(feature = "metrics", test))]
fn rows() -> impl Iterator<Item = MetricRow> {
    let rows = TABLE.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    rows.filter_map(|row| {
        let (name, cells) = row.split_once("` | ")?;
        let mut cells = cells.splitn(3, '|').map(str::trim);
        let (kind, text) = (cells.next()?, cells.nth(1)?);
        Some(MetricRow { name, kind, text: plain(text) })
    })
}

/// Returns a text of the table without markup: exporters show it as it is.
#[cfg(any(feature = "metrics", test))]
fn plain(text: &str) -> String {
    let mut parts = text.split('[');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let link = part.split_once("](").and_then(|(shown, rest)| {
            let (_, after) = rest.split_once(')')?;
            Some([shown, after])
        });
        match link {
            Some(shown) => plain.extend(shown),
            None => plain.extend(["[", part]),
        }
    }
    plain.replace('`', "")
}

/// Describes all metrics to the current recorder, with their units.
pub(crate) fn describe() {
    crate::sync::assert_unlocked();
    #[cfg(feature = "metrics")]
    ::metrics::with_recorder(|recorder| {
        use ::metrics::Unit;

        for MetricRow { name, kind, text } in rows() {
            let units = [("_seconds", Unit::Seconds), ("_bytes_total", Unit::Bytes)];
            let unit = units.into_iter().find(|(suffix, _)| name.ends_with(suffix));
            let unit = unit.map_or(Unit::Count, |(_, unit)| unit);
            let (name, unit, text) = (name.into(), Some(unit), text.into());
            match kind {
                "counter" => recorder.describe_counter(name, unit, text),
                "gauge" => recorder.describe_gauge(name, unit, text),
                _ => recorder.describe_histogram(name, unit, text),
            }
        }
    });
}

/// Returns the label that tells shared locks from exclusive ones.
const fn mode(is_shared: bool) -> &'static str {
    if is_shared { "shared" } else { "exclusive" }
}

/// Returns the label for the end of a request.
pub(crate) const fn outcome(result: Result<(), &LockError>) -> &'static str {
    match result {
        Ok(()) => "acquired",
        Err(LockError::Held { .. }) => "held",
        Err(LockError::NoQuorum { .. }) => "no_quorum",
        Err(LockError::TooSlow { .. }) => "too_slow",
        Err(LockError::WaitTimedOut { .. }) => "wait_timed_out",
        Err(_) => "failed",
    }
}

pub(crate) fn acquire(is_shared: bool, result: Result<(), &LockError>, took: Duration) {
    let outcome = outcome(result);
    note!(histogram "redlock_acquire_seconds", "outcome" => outcome, "mode" => mode(is_shared); record took.as_secs_f64());
}

pub(crate) fn held(is_shared: bool, time: Duration) {
    note!(histogram "redlock_hold_seconds", "mode" => mode(is_shared); record time.as_secs_f64());
}

pub(crate) fn waits() {
    note!(gauge "redlock_waiters"; increment 1.0);
}

pub(crate) fn wait_no_more(waiters: usize) {
    let waiters = u32::try_from(waiters).unwrap_or(u32::MAX);
    note!(gauge "redlock_waiters"; decrement f64::from(waiters));
}

pub(crate) fn taken_over() {
    note!(counter "redlock_take_overs_total"; increment 1);
}

pub(crate) fn joined() {
    note!(counter "redlock_joins_total"; increment 1);
}

pub(crate) fn renewed() {
    note!(counter "redlock_renewals_total"; increment 1);
}

/// Returns the label for the cause of a loss.
const fn cause(cause: &LossCause) -> &'static str {
    match cause {
        LossCause::Expired { .. } => "expired",
        LossCause::Stolen { .. } => "stolen",
        LossCause::ClockJumped { .. } => "clock_jumped",
        LossCause::MaxHold { .. } => "max_hold",
        LossCause::Stalled { .. } => "stalled",
        LossCause::NoHeartbeat { .. } => "no_heartbeat",
        LossCause::Released => "released",
    }
}

pub(crate) fn lost(why: &LossCause) {
    note!(counter "redlock_losses_total", "cause" => cause(why); increment 1);
}

pub(crate) fn hard_stop(why: &LossCause) {
    note!(counter "redlock_hard_stops_total", "cause" => cause(why); increment 1);
}

pub(crate) fn overrun() {
    note!(counter "redlock_overruns_total"; increment 1);
}

pub(crate) fn once(outcome: &'static str) {
    note!(counter "redlock_once_total", "outcome" => outcome; increment 1);
}

/// Adds to the number of ends that this process owes to the nodes.
pub(crate) fn owed(more: f64) {
    note!(gauge "redlock_owed_ends"; increment more);
}

/// Counts that a limit on records, responses or bodies was reached; `limit` is its name.
pub(crate) fn over_quota(limit: &'static str) {
    note!(counter "redlock_over_quota_total", "limit" => limit; increment 1);
}

/// Records a run of a job. Job names are labels, as they are few and come from the program.
#[cfg(feature = "scheduler")]
pub(crate) fn job_run(job: &str, outcome: &'static str, took: Duration) {
    note!(histogram "redlock_job_run_seconds", "job_name" => job.to_owned(), "outcome" => outcome; record took.as_secs_f64());
}

#[cfg(feature = "scheduler")]
pub(crate) fn job_skipped(job: &str, reason: &'static str) {
    note!(counter "redlock_job_skips_total", "job_name" => job.to_owned(), "reason" => reason; increment 1);
}

#[cfg(feature = "scheduler")]
pub(crate) fn job_missed(job: &str, reason: &'static str, ticks: u64) {
    note!(counter "redlock_job_missed_ticks_total", "job_name" => job.to_owned(), "reason" => reason; increment ticks);
}

#[cfg(feature = "scheduler")]
pub(crate) fn job_outcome_dropped() {
    note!(counter "redlock_job_outcomes_dropped_total"; increment 1);
}

#[cfg(feature = "scheduler")]
pub(crate) fn job_conflict(job: &str, kind: &'static str) {
    note!(counter "redlock_job_conflicts_total", "job_name" => job.to_owned(), "kind" => kind; increment 1);
}

/// `at` is the time since the Unix epoch.
#[cfg(feature = "scheduler")]
pub(crate) fn job_succeeded(job: &str, at: Duration) {
    note!(gauge "redlock_job_last_success_timestamp_seconds", "job_name" => job.to_owned(); set at.as_secs_f64());
}

/// `at` is the time since the Unix epoch; `None` is recorded as zero.
#[cfg(feature = "scheduler")]
pub(crate) fn job_next_tick(job: &str, at: Option<Duration>) {
    let seconds = at.map_or(0.0, |at| at.as_secs_f64());
    note!(gauge "redlock_job_next_tick_timestamp_seconds", "job_name" => job.to_owned(); set seconds);
}

/// Records whether this process leads. Leaders' names are labels, as they are few and come from the
/// program.
#[cfg(feature = "scheduler")]
pub(crate) fn leads(leader: &str, leads: bool) {
    let number = if leads { 1.0 } else { 0.0 };
    note!(gauge "redlock_leader", "leader" => leader.to_owned(); set number);
}

pub(crate) fn failed_activation(node: &str) {
    note!(counter "redlock_failed_activations_total", "node" => node.to_owned(); increment 1);
}

pub(crate) fn dropped_release(node: &str) {
    note!(counter "redlock_dropped_releases_total", "node" => node.to_owned(); increment 1);
}

pub(crate) fn copying(name: &str, is_copying: bool) {
    let number = if is_copying { 1.0 } else { 0.0 };
    note!(gauge "redlock_node_copying", "node" => name.to_owned(); set number);
}

pub(crate) fn copied(name: &str, records: u64, bytes: u64) {
    note!(counter "redlock_copied_records_total", "node" => name.to_owned(); increment records);
    note!(counter "redlock_copied_bytes_total", "node" => name.to_owned(); increment bytes);
}

/// The state of a node, as its gauges show it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeGauges {
    pub(crate) is_up: bool,
    pub(crate) is_voting: bool,
    pub(crate) is_in_probation: bool,
}

pub(crate) fn node(name: &str, gauges: NodeGauges) {
    let NodeGauges { is_up, is_voting, is_in_probation } = gauges;
    let number = |is: bool| if is { 1.0 } else { 0.0 };
    note!(gauge "redlock_node_up", "node" => name.to_owned(); set number(is_up));
    note!(gauge "redlock_node_voting", "node" => name.to_owned(); set number(is_voting));
    note!(gauge "redlock_node_probation", "node" => name.to_owned(); set number(is_in_probation));
}

pub(crate) fn queue_delay(name: &str, delay: Duration) {
    note!(gauge "redlock_node_queue_seconds", "node" => name.to_owned(); set delay.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_no_markup() {
        let texts = ["1 while it [leads](Leader), `0` else", "[`a`](B) and [c] or [d"];
        let expected = ["1 while it leads, 0 else", "a and [c] or [d"];

        assert_eq!(texts.map(plain), expected);
    }

    #[test]
    fn every_row_is_read() {
        let lines = TABLE.lines().filter(|line| line.contains("redlock_")).count();
        let rows: Vec<_> = rows().collect();

        assert!(rows.len() > 25 && rows.len() == lines, "{} of {lines}", rows.len());
        for MetricRow { name, kind, text } in rows {
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{name}: {kind}");
            assert!(!text.is_empty() && !text.contains(['`', '|']), "{name}: {text}");
        }
    }
}
