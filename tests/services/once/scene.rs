//! Two replicas over nodes of one process, and work that can be counted.

use std::{convert::Infallible, time::Duration};

use futures_util::FutureExt;
use tower_redlock::once::{Once, OnceError, OnceRequest};

pub(super) use crate::pair::{Pair as Scene, Runs};

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const TTL: Duration = Duration::from_secs(10);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const KEY: &str = "order:7";

pub(super) type Ended = Result<Once<usize>, OnceError<Infallible>>;

impl Scene {
    /// Runs the work, which takes no time.
    #[track_caller]
    pub(super) fn does(&self, request: OnceRequest) -> Ended {
        let runs = self.runs.clone();
        let run = request.run(|_| async move { Ok(runs.run()) });
        run.now_or_never().expect("every node answers at once, or is known to be down")
    }

    pub(super) fn blue_does(&self) -> Ended {
        self.does(self.at_blue.once(KEY))
    }

    pub(super) fn green_does(&self) -> Ended {
        self.does(self.at_green.once(KEY))
    }
}

#[track_caller]
pub(super) fn assert_ran(ended: &Ended, run: usize) {
    assert!(matches!(ended, Ok(Once::Ran(ran)) if *ran == run), "{ended:?}");
}

#[track_caller]
pub(super) fn assert_done_by<T: std::fmt::Debug, E: std::fmt::Debug>(
    ended: &Result<Once<T>, OnceError<E>>,
    who: &str,
) {
    let Ok(Once::AlreadyDone { by, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(&**by, who);
}

/// Asserts that the key is in progress. Returns whether its outcome is unknown, and the time to retry.
#[track_caller]
pub(super) fn in_progress_by(ended: &Ended, who: &str) -> (bool, Option<Duration>) {
    let Ok(Once::InProgress { by, unknown, retry_after, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(by.as_deref(), Some(who));
    (*unknown, *retry_after)
}
