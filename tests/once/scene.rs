//! Two replicas over nodes of one process, and work that can be counted.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tower_redlock::{
    Redlock,
    once::{Once, OnceError, OnceRequest},
    testing::{ManualClock, Nodes, Replica},
};

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const TTL: Duration = Duration::from_secs(10);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const KEY: &str = "order:7";

pub(super) type Ended = Result<Once<usize>, OnceError<Infallible>>;

pub(super) struct Scene {
    pub(super) clock: ManualClock,
    pub(super) nodes: Nodes,
    pub(super) blue: Replica,
    pub(super) at_blue: Redlock,
    pub(super) at_green: Redlock,
    pub(super) runs: Runs,
}

/// How often the work has run.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs(Arc<AtomicUsize>);

impl Runs {
    pub(super) fn run(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Scene {
    pub(super) fn new(nodes: usize) -> Self {
        let clock = ManualClock::new();
        let nodes = Nodes::new(nodes, &clock);
        let (blue, green) = (nodes.replica("blue"), nodes.replica("green"));
        let (at_blue, at_green) = (blue.redlock(), green.redlock());
        Self { clock, nodes, blue, at_blue, at_green, runs: Runs::default() }
    }

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

/// Told as in progress; whether its outcome is unknown.
#[track_caller]
pub(super) fn in_progress_by(ended: &Ended, who: &str) -> (bool, Option<Duration>) {
    let Ok(Once::InProgress { by, unknown, retry_after, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(by.as_deref(), Some(who));
    (*unknown, *retry_after)
}
