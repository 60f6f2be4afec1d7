//! A replica: the same job on each, with a wall clock that is ahead of the next one's.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tower_redlock::{Job, JobContext, RedlockBuilder, Schedule, Scheduler};

use crate::stories::{
    Failure,
    member::{Io, Part},
};
use crate::support::hand_clock::HandClock;

pub(crate) const PERIOD: Duration = Duration::from_millis(200);
const WORK: Duration = Duration::from_millis(30);
/// Time for which a crashed replica blocks the others.
const TTL: Duration = Duration::from_millis(500);
/// Time for which a run may continue when the replica stops.
const GRACE: Duration = Duration::from_secs(1);

/// A line of a replica about one of its runs. `at` is the machine's own clock, which is the same
/// for all replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Report {
    /// `tick` is in ms since 1970.
    Began {
        tick: u64,
        token: u64,
        at: Moment,
    },
    Ended {
        token: u64,
        at: Moment,
    },
}

/// A time in µs since 1970.
pub(crate) type Moment = u128;

pub(crate) fn now() -> Moment {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
}

/// Runs the job until the end of the input. The part's argument is how far its clock is ahead, in
/// ms.
pub(crate) async fn replicate(builder: RedlockBuilder, part: Part, io: Io) -> Result<(), Failure> {
    // The wall clock names the ticks, so replicas reach a tick at different times. The validity of
    // locks does not depend on it.
    let redlock = builder.clock(HandClock::skewed(part.arg.parse()?)).build()?;
    let scheduler = Scheduler::new(redlock.clone()).job(job(io.clone())).start()?;
    io.stopped().await;
    scheduler.shutdown(GRACE).await;
    redlock.shutdown().await;
    Ok(())
}

fn job(io: Io) -> Job {
    let work = move |cx: JobContext| {
        let io = io.clone();
        async move {
            let (tick, token) = (cx.tick().as_millis(), cx.fencing_token().get());
            io.print(&Report::Began { tick, token, at: now() });
            tokio::time::sleep(WORK).await;
            io.print(&Report::Ended { token, at: now() });
        }
    };
    Job::new("heartbeat", Schedule::every(PERIOD), work).ttl(TTL)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { tick, token, at } => write!(f, "began {tick} {token} {at}"),
            Self::Ended { token, at } => write!(f, "ended {token} {at}"),
        }
    }
}

impl FromStr for Report {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["began", tick, token, at] => {
                Ok(Self::Began { tick: tick.parse()?, token: token.parse()?, at: at.parse()? })
            }
            ["ended", token, at] => Ok(Self::Ended { token: token.parse()?, at: at.parse()? }),
            _ => Err(format!("unknown line: {line}").into()),
        }
    }
}
