//! Two replicas over nodes of one process, and work that can be counted.

use std::{convert::Infallible, time::Duration};

use futures_util::FutureExt;
use tower_redlock::{
    once::{Once, OnceError, OnceRequest},
    testing::Task,
};

pub(super) use crate::pair::{Pair as Fixture, Runs};

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const TTL: Duration = Duration::from_secs(10);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const KEY: &str = "order:7";

pub(super) type Ended = Result<Once<usize>, OnceError<Infallible>>;

impl Fixture {
    /// Runs the work, which takes no time.
    #[track_caller]
    pub(super) fn does(&self, request: OnceRequest) -> Ended {
        let runs = self.runs.clone();
        let run = request.run(|_| async move { Ok(runs.run()) });
        run.now_or_never().expect("every node answers at once, or is known to be down")
    }

    /// Starts work that does not end.
    pub(super) fn stuck(&self, request: OnceRequest) -> Task<Ended> {
        let work = self.clock.spawn(request.run(|_| std::future::pending()));
        self.clock.settle();
        work
    }

    /// Starts work of blue that takes this time.
    pub(super) fn works_for(&self, time: Duration) -> Task<Ended> {
        let (runs, sleep) = (self.runs.clone(), self.clock.sleep(time));
        let work = self.clock.spawn(self.at_blue.once(KEY).run(|_| async move {
            sleep.await;
            Ok(runs.run())
        }));
        self.clock.settle();
        work
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
