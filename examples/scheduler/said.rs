//! What a replica tells of its runs, in a line each.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tower_redlock::schedule::WallTime;

use crate::Failure;

/// `at` is what the machine's own clock shows, which the replicas have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Said {
    Began { tick: WallTime, token: u64, lateness: Duration, at: Moment },
    Ended { token: u64, at: Moment },
}

/// Finer than ticks are: microseconds since 1970.
pub(crate) type Moment = u128;

pub(crate) fn now() -> Moment {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { tick, token, lateness, at } => {
                let (tick, lateness) = (tick.as_millis(), lateness.as_millis());
                write!(f, "began {tick} {token} {lateness} {at}")
            }
            Self::Ended { token, at } => write!(f, "ended {token} {at}"),
        }
    }
}

impl FromStr for Said {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["began", tick, token, lateness, at] => Ok(Self::Began {
                tick: WallTime::from_millis(tick.parse()?),
                token: token.parse()?,
                lateness: Duration::from_millis(lateness.parse()?),
                at: at.parse()?,
            }),
            ["ended", token, at] => Ok(Self::Ended { token: token.parse()?, at: at.parse()? }),
            _ => Err(format!("a replica said: {line}").into()),
        }
    }
}
