//! A candidate: leads when it is its turn, and tells of each step of its work.

use std::{fmt, pin::pin, str::FromStr, time::Duration};

use tower_redlock::{
    LockError, Redlock, Term,
    time::{Clock, SystemClock},
};

pub(crate) const NAME: &str = "billing";
/// Short, so that nobody waits for long until a dead leader is followed.
pub(crate) const TTL: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(5);

/// A step of a leader's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick {
    /// In ns since the machine was started: the same for all of its processes.
    pub(crate) at: u64,
    pub(crate) token: u64,
}

pub(crate) fn now() -> u64 {
    SystemClock::new().now().as_nanos()
}

/// Stands for election until `leave` completes; then it hands over in good order.
pub(crate) async fn stand(
    redlock: &Redlock,
    tell: impl Fn(Tick),
    leave: impl Future<Output = ()>,
) -> Result<(), LockError> {
    let leader = redlock.leader(NAME).ttl(TTL);
    let tell = &tell;
    let run = leader.run(|term: Term| async move {
        let mut stopping = pin!(term.stopping());
        loop {
            tell(Tick { at: now(), token: term.fencing_token().get() });
            tokio::select! {
                () = tokio::time::sleep(STEP) => {}
                () = &mut stopping => return,
            }
        }
    });
    let leaves = async {
        leave.await;
        leader.stop().await;
    };
    tokio::select! {
        ended = run => ended.map(drop),
        () = leaves => Ok(()),
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.token)
    }
}

impl FromStr for Tick {
    type Err = crate::Failure;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let (at, token) = line.split_once(' ').ok_or("a candidate speaks in riddles")?;
        Ok(Self { at: at.parse()?, token: token.parse()? })
    }
}
