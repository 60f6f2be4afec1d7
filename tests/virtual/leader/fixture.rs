//! Nodes, candidates over them, and a witness of leadership.

use std::{
    future::{Future, pending},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tower_redlock::{
    Leader, LockError, Redlock, Term,
    testing::{ManualClock, Nodes, Replica, Task},
    time::{Clock, Timestamp},
};

/// The default TTL.
pub(crate) const TTL: Duration = Duration::from_secs(10);
/// Maximum time until a released lock is acquired by polling, for the default TTL.
pub(crate) const FOLLOWED: Duration = Duration::from_millis(3_700);

pub(crate) struct Fixture {
    pub(crate) clock: ManualClock,
    pub(crate) nodes: Nodes,
    pub(crate) witness: Witness,
}

pub(crate) struct Candidate {
    pub(crate) replica: Replica,
    pub(crate) redlock: Redlock,
    pub(crate) leader: Leader,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let nodes = Nodes::new(5, &clock);
        let witness = Witness::new(&clock);
        Self { clock, nodes, witness }
    }

    /// The fixture with candidates of these names.
    pub(crate) fn candidates<const N: usize>(names: [&str; N]) -> (Self, [Candidate; N]) {
        let fixture = Self::new();
        let candidates = names.map(|name| fixture.candidate(name));
        (fixture, candidates)
    }

    pub(crate) fn candidate(&self, name: &str) -> Candidate {
        let replica = self.nodes.replica(name);
        let redlock = replica.redlock();
        let leader = redlock.leader("x");
        Candidate { replica, redlock, leader }
    }

    /// Runs a candidate whose work never returns.
    pub(crate) fn run(&self, leader: &Leader) -> Task<Result<Option<()>, LockError>> {
        let task = self.clock.spawn(leader.run(self.witness.work()));
        self.clock.settle();
        task
    }

    /// Begins to resign.
    pub(crate) fn resign(&self, leader: &Leader) -> Task<()> {
        let leader = leader.clone();
        let task = self.clock.spawn(async move { leader.resign().await });
        self.clock.settle();
        task
    }

    /// Begins to stop a candidate.
    pub(crate) fn stop(&self, leader: &Leader) -> Task<()> {
        let leader = leader.clone();
        let task = self.clock.spawn(async move { leader.stop().await });
        self.clock.settle();
        task
    }

    /// Runs a candidate whose work never returns, until the result is dropped.
    pub(crate) fn run_until_dropped(&self, leader: &Leader) -> RunningCandidate {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let run = leader.run(self.witness.work());
        let _task = self.clock.spawn(async move {
            tokio::select! {
                _ = run => {}
                _ = stopped => {}
            }
        });
        self.clock.settle();
        RunningCandidate(stop)
    }
}

/// Takes effect when the clock is moved or settled.
pub(crate) struct RunningCandidate(
    #[expect(dead_code, reason = "held")] tokio::sync::oneshot::Sender<()>,
);

/// Records terms, and panics if two overlap.
#[derive(Clone)]
pub(crate) struct Witness {
    clock: ManualClock,
    inside: Arc<AtomicUsize>,
    elections: Arc<Mutex<Vec<(u64, Timestamp)>>>,
}

impl Witness {
    fn new(clock: &ManualClock) -> Self {
        Self { clock: clock.clone(), inside: Arc::default(), elections: Arc::default() }
    }

    pub(crate) fn enter(&self, term: &Term) -> TermGuard {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two candidates lead");
        let mut elections = self.elections.lock().unwrap();
        let token = term.fencing_token().get();
        assert!(elections.last().is_none_or(|(last, _)| *last < token), "a token is not greater");
        elections.push((token, self.clock.now()));
        TermGuard(Arc::clone(&self.inside))
    }

    /// Work that runs until it is dropped.
    pub(crate) fn work(
        &self,
    ) -> impl Fn(Term) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send + use<> {
        let witness = self.clone();
        move |term| {
            let witness = witness.clone();
            Box::pin(async move {
                let _inside = witness.enter(&term);
                pending::<()>().await;
            })
        }
    }

    /// Number of terms.
    pub(crate) fn terms(&self) -> usize {
        self.elections.lock().unwrap().len()
    }

    /// The beginning of the latest term.
    pub(crate) fn elected_at(&self) -> Timestamp {
        self.elections.lock().unwrap().last().expect("a term has begun").1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inside.load(Ordering::SeqCst) == 0
    }
}

pub(crate) struct TermGuard(Arc<AtomicUsize>);

impl Drop for TermGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
