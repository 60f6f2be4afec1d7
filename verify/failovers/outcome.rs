//! The outcome of the failovers.

use std::fmt;
use std::time::Duration;

use crate::plan::Planned;
use tower_redlock_verify::checker::{check, leases};
use tower_redlock_verify::history::Hold;

/// Minimum number of acquisitions per second. With fewer, the locks may have kept their promises by
/// being idle.
const LEAST_RATE: f64 = 5.0;

/// One failover. Times are nanoseconds of the clock that all processes of the machine share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) planned: Planned,
    /// Whether it began while the node that failed over before was in its probation.
    pub(crate) is_within_probation: bool,
    pub(crate) struck: u64,
    /// The time at which the first server of the directory reported the new master.
    pub(crate) named: u64,
    /// The time at which all workers were connected to it.
    pub(crate) connected: u64,
    /// The time at which it voted for all workers.
    pub(crate) voting: u64,
}

/// The whole run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    pub(crate) holds: Vec<Hold>,
    /// The holds of the control.
    pub(crate) control: Vec<Hold>,
    pub(crate) time: Duration,
}

impl Row {
    /// Time from the strike to a later moment.
    pub(crate) fn until(&self, moment: u64) -> Duration {
        Duration::from_nanos(moment.saturating_sub(self.struck))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Planned { name, kind, .. } = self.planned;
        let within = if self.is_within_probation { " in a probation" } else { "" };
        write!(
            f,
            "{:8}  {:38} named after {:.2?}, connected {:.2?}, voting {:.2?}",
            name.as_str(),
            format!("{}{within}", kind.as_str()),
            self.until(self.named),
            self.until(self.connected),
            self.until(self.voting),
        )
    }
}

impl Outcome {
    /// Returns why the run failed, if it did.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let findings = check(&self.holds);
        if !findings.overlaps.is_empty() {
            problems.push(format!("{} overlapping holds", findings.overlaps.len()));
        }
        if !findings.disorders.is_empty() {
            problems.push(format!("{} tokens out of order", findings.disorders.len()));
        }
        let rate = f64::from(u32::try_from(leases(&self.holds)).unwrap_or(u32::MAX))
            / self.time.as_secs_f64();
        if rate < LEAST_RATE {
            problems.push(format!("only {rate:.1} acquisitions a second"));
        }
        if check(&self.control).overlaps.is_empty() {
            problems.push("the control had no overlap: these failovers prove nothing".into());
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_redlock_verify::history::Lease;

    fn hold(worker: usize, acquired: u64, until: u64, token: u64) -> Hold {
        Hold {
            lease: Lease { worker, number: acquired },
            resource: "a".into(),
            is_shared: false,
            token: Some(token),
            asked: acquired,
            acquired,
            from: acquired,
            until,
        }
    }

    #[test]
    fn control_must_be_caught() {
        let sound = vec![hold(0, 10, 20, 1), hold(1, 30, 40, 2)];
        let overlapping = vec![hold(0, 10, 20, 1), hold(1, 15, 40, 2)];
        let disordered = vec![hold(0, 10, 20, 2), hold(1, 30, 40, 2)];
        let time = Duration::from_millis(100);

        let problems = |holds: &[Hold], control: &[Hold]| {
            let (holds, control) = (holds.to_vec(), control.to_vec());
            Outcome { rows: Vec::new(), holds, control, time }.problems()
        };

        assert_eq!(problems(&sound, &overlapping), Vec::<String>::new());
        assert_eq!(problems(&sound, &sound).len(), 1);
        assert_eq!(problems(&overlapping, &overlapping), ["1 overlapping holds"]);
        assert_eq!(problems(&disordered, &overlapping), ["1 tokens out of order"]);
        assert_eq!(problems(&[], &overlapping), ["only 0.0 acquisitions a second"]);
    }
}
