//! Work that hangs, or sends no heartbeats.

use std::{
    pin::pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Waker},
    thread,
    time::Duration,
};

use tower_redlock::{Leader, Term, error::LossCause, testing::Task};

use super::fixture::{Fixture, TTL};

const LIMIT: Duration = Duration::from_secs(8);
const HANG_GUARD: Duration = Duration::from_secs(60);

type Causes = Arc<Mutex<Vec<LossCause>>>;

fn notes(causes: &Causes) -> impl Fn(LossCause) + Send + Sync + use<> {
    let causes = Arc::clone(causes);
    move |cause| causes.lock().unwrap().push(cause)
}

/// Runs a candidate on a thread of its own, which blocks inside the first poll of the work.
struct Hanging {
    thread: thread::JoinHandle<()>,
    go_on: mpsc::Sender<()>,
}

impl Hanging {
    fn start(leader: &Leader) -> Self {
        let leader = leader.clone();
        let (begun, begins) = mpsc::channel();
        let (go_on, blocked) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let run = leader.run(|_| {
                // Later terms do not block: the receiver is gone.
                if begun.send(()).is_ok() {
                    blocked.recv_timeout(HANG_GUARD).unwrap();
                }
                std::future::pending::<()>()
            });
            assert!(pin!(run).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        });
        begins.recv_timeout(HANG_GUARD).unwrap();
        Self { thread, go_on }
    }

    fn end(self) {
        self.go_on.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

#[test]
fn default_stall_limit_is_a_minute() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let causes = Causes::default();
    let hanging = Hanging::start(&a.leader.clone().on_lost(notes(&causes)));
    fixture.clock.advance(Duration::from_secs(60));
    assert!(a.leader.is_leader());
    fixture.clock.advance(Duration::from_secs(15) + TTL);
    assert!(!a.leader.is_leader());
    hanging.end();
    let limit = Duration::from_secs(60);
    assert_eq!(*causes.lock().unwrap(), [LossCause::Stalled { limit }]);
}

fn run_beating(
    fixture: &Fixture,
    causes: &Causes,
    beats: u32,
) -> (super::fixture::Candidate, Task<Result<Option<()>, tower_redlock::LockError>>) {
    let a = fixture.candidate("a");
    let leader = a.leader.clone().heartbeat_within(LIMIT).on_lost(notes(causes));
    let clock = fixture.clock.clone();
    let run = fixture.clock.spawn(leader.run(move |term: Term| {
        let clock = clock.clone();
        async move {
            for _ in 0..beats {
                clock.sleep(LIMIT / 2).await;
                term.heartbeat();
            }
            std::future::pending::<()>().await;
        }
    }));
    (a, run)
}

#[test]
fn heartbeats_keep_the_term() {
    let fixture = Fixture::new();
    let causes = Causes::default();
    let (a, _run) = run_beating(&fixture, &causes, 20);
    fixture.clock.advance(LIMIT * 10);
    assert!(a.leader.is_leader());
    assert!(causes.lock().unwrap().is_empty());
    fixture.clock.advance(LIMIT * 5 / 4 + TTL);
    assert_eq!(*causes.lock().unwrap(), [LossCause::NoHeartbeat { limit: LIMIT }]);
}

/// The task of the candidate is polled, and would otherwise be the first to campaign again.
#[test]
fn missing_heartbeats_let_another_candidate_lead() {
    let fixture = Fixture::new();
    let causes = Causes::default();
    let (a, _run) = run_beating(&fixture, &causes, 0);
    let b = fixture.candidate("b");
    let _b = fixture.run(&b.leader);
    fixture.clock.advance(LIMIT * 5 / 4 + TTL + TTL / 10);
    assert!(b.leader.is_leader() && !a.leader.is_leader());
}
