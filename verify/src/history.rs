//! The workers' reports about their locks.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A stretch of time in which a holder believed that it held a resource.
///
/// Times are nanoseconds of the clock that all processes of the machine share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The holder.
    pub lease: Lease,
    /// The name of the lock.
    pub resource: String,
    /// Whether other shared holders may hold it as well.
    pub is_shared: bool,
    /// The token; `None` without fencing.
    pub token: Option<u64>,
    /// A time before the request for the lock.
    pub asked: u64,
    /// A time after it was granted.
    pub acquired: u64,
    /// The library reported the lock as valid at `from`, at `until`, and in between.
    pub from: u64,
    /// See `from`.
    pub until: u64,
}

/// The holder: stretches of the same lease belong to one holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    /// The worker process.
    pub worker: usize,
    /// Number of the lease within its worker.
    pub number: u64,
}

impl Lease {
    /// The next lease of this process.
    pub fn next(worker: usize) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { worker, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

/// A hold for display, with times in seconds since the given time.
#[derive(Debug)]
pub struct Moments<'a>(pub &'a Hold, pub u64);

impl fmt::Display for Moments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(hold, origin) = *self;
        let seconds = |at: u64| Duration::from_nanos(at.saturating_sub(origin)).as_secs_f64();
        let (from, until) = (seconds(hold.from), seconds(hold.until));
        let (name, worker) = (&hold.resource, hold.lease.worker);
        write!(f, "{name} by worker {worker} from {from:.3} to {until:.3} s")?;
        hold.token.map_or(Ok(()), |token| write!(f, " under {token}"))
    }
}

impl Hold {
    /// Formats the hold as a line without a line break.
    pub fn to_line(&self) -> String {
        let token = self.token.map_or_else(|| "-".into(), |token| token.to_string());
        format!(
            "{} {} {} {} {token} {} {} {} {}",
            if self.is_shared { "share" } else { "hold" },
            self.lease.worker,
            self.lease.number,
            self.resource,
            self.asked,
            self.acquired,
            self.from,
            self.until
        )
    }

    /// Parses a hold; `None` if the line is not a hold.
    pub fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let is_shared = match words.next()? {
            "hold" => false,
            "share" => true,
            _ => return None,
        };
        let lease = Lease { worker: next(&mut words)?, number: next(&mut words)? };
        let resource = words.next()?.to_owned();
        let token = match words.next()? {
            "-" => None,
            token => Some(token.parse().ok()?),
        };
        let hold = Self {
            lease,
            resource,
            is_shared,
            token,
            asked: next(&mut words)?,
            acquired: next(&mut words)?,
            from: next(&mut words)?,
            until: next(&mut words)?,
        };
        words.next().is_none().then_some(hold)
    }
}

fn next<'a, T: FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Option<T> {
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hold_round_trips_through_line() {
        let mut hold = Hold {
            lease: Lease { worker: 2, number: 7 },
            resource: "slow-1".into(),
            is_shared: false,
            token: Some(1_700_000_000_000_000),
            asked: 1,
            acquired: 2,
            from: 3,
            until: 4,
        };

        assert_eq!(Hold::from_line(&hold.to_line()), Some(hold.clone()));

        (hold.token, hold.is_shared) = (None, true);
        assert_eq!(Hold::from_line(&hold.to_line()), Some(hold));
    }

    #[test]
    fn other_lines_are_not_holds() {
        for line in ["", "ready", "hold", "hold 1 2 a - 1 2 3", "hold 1 2 a - 1 2 3 4 5", "hold x"]
        {
            assert_eq!(Hold::from_line(line), None, "{line}");
        }
    }
}
