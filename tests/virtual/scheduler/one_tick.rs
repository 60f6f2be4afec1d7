//! One tick of a job, without a scheduler: programs that cron starts on several hosts.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::future::join_all;
use tower_redlock::{
    LockError, LockOptions, Redlock, Schedule,
    error::Reason,
    node::{EmbeddedNodes, Node, Op, Reply},
    scheduler::{JobConflict, JobRunResult, TickError, TickOutcome, TickRequest},
    testing::{ManualClock, Nodes},
};

use crate::durations::{MINUTE, SECOND};
use crate::support::mock_node::{MockNode, with_nodes};

fn host(nodes: &EmbeddedNodes, owner: &str) -> Redlock {
    let options = LockOptions::new().wait(MINUTE);
    // A busy machine times nothing out.
    let builder = Redlock::builder().nodes_from(nodes).node_timeout(Duration::from_secs(3));
    builder.owner(owner).options(options).build().unwrap()
}

fn hosts() -> (EmbeddedNodes, Redlock, Redlock) {
    let nodes = EmbeddedNodes::new(3);
    let (one, other) = (host(&nodes, "one"), host(&nodes, "other"));
    (nodes, one, other)
}

/// Asserts that the tick was not run, as another program has begun it. Returns the conflict.
async fn conflict(request: TickRequest) -> JobConflict {
    let ended = succeed(request).await;
    let TickOutcome::Conflict { conflict, .. } = ended else { panic!("no conflict: {ended:?}") };
    conflict
}

/// The start of a minute in the past.
fn tick(number: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_040) + MINUTE * u32::try_from(number).unwrap()
}

fn request(redlock: &Redlock, number: u64) -> TickRequest {
    redlock.job_tick("job", Schedule::every(MINUTE)).at(tick(number) + Duration::from_secs(7))
}

async fn succeed(request: TickRequest) -> TickOutcome<u32> {
    request.run(|cx| async move { Ok::<_, String>(cx.attempt()) }).await.unwrap()
}

async fn fail(request: TickRequest) -> Result<TickOutcome<()>, TickError<&'static str>> {
    request.run(|_| async { Err("no disk") }).await
}

#[tokio::test]
async fn each_tick_runs_once() {
    const TICKS: u32 = 60;
    let (_nodes, one, other) = hosts();
    let runs = Arc::new(AtomicU32::new(0));
    for number in 0..u64::from(TICKS) {
        let attempts = [&one, &other].map(|host| {
            let runs = Arc::clone(&runs);
            request(host, number).run(move |cx| async move {
                assert_eq!((cx.tick(), cx.attempt()), (tick(number), 1));
                runs.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok::<_, String>(())
            })
        });
        let ended = join_all(attempts).await;
        let ran = ended.iter().filter(|ended| matches!(ended, Ok(TickOutcome::Ran(())))).count();
        assert_eq!(ran, 1, "{ended:?}");
        let is_done = |ended: &&Result<_, _>| matches!(ended, Ok(TickOutcome::AlreadyDone { .. }));
        assert_eq!(ended.iter().filter(is_done).count(), 1, "{ended:?}");
    }
    assert_eq!(runs.load(Ordering::Relaxed), TICKS);
    let history = other.job_history("job").await.unwrap();
    assert_eq!(history.len(), 50);
    assert!(history.iter().all(|run| run.result == JobRunResult::Finished));
    assert_eq!(history[49].tick, tick(u64::from(TICKS) - 1));
}

#[tokio::test]
async fn done_tick_names_its_host() {
    let (_nodes, one, other) = hosts();
    assert_eq!(succeed(request(&one, 5)).await, TickOutcome::Ran(1));
    let TickOutcome::AlreadyDone { by, ended, .. } = succeed(request(&other, 5)).await else {
        panic!("it ran again");
    };
    assert_eq!(by.as_deref(), Some("one"));
    assert!(ended.is_some());
}

#[tokio::test]
async fn tick_of_other_work_is_a_conflict() {
    let (_nodes, one, other) = hosts();
    assert_eq!(succeed(request(&one, 5).work_id("eu")).await, TickOutcome::Ran(1));
    // The second one comes for an earlier tick as well.
    for number in [5, 4] {
        let found = conflict(request(&other, number).work_id("us")).await;
        assert!(matches!(&found, JobConflict::Work { .. }), "{found:?}");
        assert_eq!((found.by(), found.name()), ("one", "work"));
    }
    let of_schedule =
        other.job_tick("job", Schedule::every(MINUTE * 2)).at(tick(4) + Duration::from_secs(7));
    let found = conflict(of_schedule.work_id("eu")).await;
    assert!(matches!(&found, JobConflict::Schedule { by, .. } if &**by == "one"), "{found:?}");
    let history = other.job_history("job").await.unwrap();
    let conflicts: Vec<_> = history
        .iter()
        .filter(|run| run.result == JobRunResult::Conflict)
        .map(|run| run.tick)
        .collect();
    assert_eq!(conflicts, [tick(5), tick(4)], "one for each tick");
}

/// As of an earlier version of the program.
#[tokio::test]
async fn work_without_an_id_may_be_the_same() {
    let (_nodes, one, other) = hosts();
    assert_eq!(succeed(request(&one, 5)).await, TickOutcome::Ran(1));
    let ended = succeed(request(&other, 5).work_id("eu")).await;
    assert!(matches!(ended, TickOutcome::AlreadyDone { .. }), "{ended:?}");
    assert_eq!(succeed(request(&other, 6).work_id("eu")).await, TickOutcome::Ran(1));
    let ended = succeed(request(&one, 6)).await;
    assert!(matches!(ended, TickOutcome::AlreadyDone { .. }), "{ended:?}");
}

#[tokio::test]
async fn interval_is_the_time_to_the_next_tick() {
    let (_nodes, one, _other) = hosts();
    assert_eq!(request(&one, 5).interval(), Some(MINUTE));
    let single = one.job_tick("job", Schedule::at(tick(1))).at(tick(3));
    assert_eq!((single.tick(), single.interval()), (Some(tick(1)), None));
}

#[tokio::test]
async fn later_tick_supersedes() {
    let (_nodes, one, other) = hosts();
    assert!(fail(request(&one, 5)).await.is_err());
    let TickOutcome::Superseded { tick: later, by, .. } = succeed(request(&other, 4)).await else {
        panic!("it ran");
    };
    assert_eq!((later, by.as_deref()), (tick(5), Some("one")));
}

#[tokio::test]
async fn tick_given_back_is_no_attempt() {
    let (_nodes, one, other) = hosts();
    let given_back = request(&one, 5).run(|cx| async move {
        cx.give_back();
        Err::<(), _>("no such program")
    });
    assert_eq!(given_back.await, Err(TickError::Work("no such program")));
    assert_eq!(other.job_history("job").await.unwrap(), []);
    assert_eq!(succeed(request(&other, 5)).await, TickOutcome::Ran(1));
}

#[tokio::test]
async fn failed_tick_is_given_up() {
    let (_nodes, one, other) = hosts();
    assert_eq!(fail(request(&one, 1)).await, Err(TickError::Work("no disk")));
    let TickOutcome::GivenUp { by, attempts, .. } = succeed(request(&other, 1)).await else {
        panic!("it ran again");
    };
    assert_eq!((by.as_deref(), attempts), (Some("one"), 1));
    assert_eq!(succeed(request(&other, 2)).await, TickOutcome::Ran(1));
}

#[tokio::test]
async fn attempts_are_counted_over_hosts() {
    let (_nodes, one, other) = hosts();
    assert!(fail(request(&one, 1).attempts(3)).await.is_err());
    let interrupted = request(&other, 1).attempts(3);
    let (started, is_running) = tokio::sync::oneshot::channel();
    let endless = interrupted.run(|_| async {
        started.send(()).unwrap();
        std::future::pending::<Result<(), String>>().await
    });
    tokio::select! {
        biased;
        _ = endless => panic!("it ended"),
        running = is_running => running.unwrap(),
    }
    assert_eq!(succeed(request(&one, 1).attempts(3)).await, TickOutcome::Ran(3));
    let history = one.job_history("job").await.unwrap();
    let results: Vec<_> = history.iter().map(|run| (run.attempt, run.result)).collect();
    let expected =
        [(1, JobRunResult::Failed), (2, JobRunResult::Interrupted), (3, JobRunResult::Finished)];
    assert_eq!(results, expected);
    assert_eq!(history[0].error.as_deref(), Some("no disk"));
    assert_eq!(&*history[1].owner, "other");
}

#[tokio::test]
async fn paused_job_runs_no_tick() {
    let (_nodes, one, other) = hosts();
    other.pause_job("job").by("ann").why("repairs").await.unwrap();
    let TickOutcome::Paused(pause) = succeed(request(&one, 1)).await else { panic!("it ran") };
    assert_eq!((&*pause.by, pause.why.as_deref()), ("ann", Some("repairs")));
    other.resume_job("job").await.unwrap();
    assert_eq!(succeed(request(&one, 1)).await, TickOutcome::Ran(1));
}

#[tokio::test]
async fn held_job_is_not_waited_for() {
    let (_nodes, one, other) = hosts();
    let (started, is_running) = tokio::sync::oneshot::channel();
    let running = tokio::spawn(request(&one, 1).run(|_| async {
        started.send(()).unwrap();
        std::future::pending::<Result<(), String>>().await
    }));
    is_running.await.unwrap();
    let at_once = request(&other, 1).options(LockOptions::new().wait(Duration::ZERO));
    let refused = fail(at_once).await.unwrap_err();
    assert!(matches!(&refused, TickError::Lock(LockError::Held { .. })), "{refused}");
    running.abort();
}

#[tokio::test]
async fn wrong_times_run_nothing() {
    let (_nodes, one, _other) = hosts();
    let later = SystemTime::now() + Duration::from_secs(3_600);
    let ahead = fail(one.job_tick("job", Schedule::every(MINUTE)).at(later)).await;
    assert!(matches!(ahead, Err(TickError::ClockAhead { by }) if by > MINUTE * 50), "{ahead:?}");
    let never = fail(one.job_tick("job", Schedule::at(later))).await;
    assert!(matches!(never, Err(TickError::NoTick { .. })), "{never:?}");
    let zero = fail(one.job_tick("job", Schedule::every(Duration::ZERO))).await;
    assert!(matches!(zero, Err(TickError::Schedule(_))), "{zero:?}");
}

#[tokio::test]
async fn lost_lock_is_in_history() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let [one, other] = ["one", "other"].map(|owner| nodes.replica(owner).redlock());
    let endless = request(&one, 1).options(LockOptions::new().max_hold(SECOND));
    let mut lost =
        clock.spawn(endless.run(|_| std::future::pending::<Result<(), String>>()).into_future());
    clock.advance(2 * SECOND);
    let lost = lost.take().expect("the lock ends");
    assert!(matches!(lost, Err(TickError::Lock(LockError::Lost { .. }))), "{lost:?}");
    let history = other.job_history("job").await.unwrap();
    assert_eq!(history.iter().map(|run| run.result).collect::<Vec<_>>(), [JobRunResult::Lost]);
    assert_eq!(succeed(request(&other, 1).attempts(2)).await, TickOutcome::Ran(2));
}

/// Two of three nodes refuse the first claim; then one of them does not answer.
#[tokio::test]
async fn unstored_claim_is_no_attempt() {
    let nodes = EmbeddedNodes::new(3);
    let is_refusing = Arc::new(AtomicBool::new(true));
    let of = |number: usize, node: &Arc<dyn Node>| {
        let is_refusing = Arc::clone(&is_refusing);
        let is_claim =
            |op: &Op| matches!(op, Op::Claim(op) if &*op.job == "job" && op.claim.number == 0);
        MockNode::refusing(node, Reason::TimedOut, move |op| match number {
            0 => false,
            1 => is_refusing.load(Ordering::Relaxed) && is_claim(op),
            _ if is_refusing.load(Ordering::Relaxed) => is_claim(op),
            _ => matches!(op, Op::Prepare(_) | Op::Claim(_) | Op::Claims(_)),
        })
    };
    let inner = Redlock::builder().nodes_from(&nodes).build().unwrap();
    let mocks: Vec<_> = inner.nodes().iter().enumerate().map(|(i, node)| of(i, node)).collect();
    let redlock = with_nodes(Redlock::builder(), mocks).build().unwrap();
    let refused = fail(request(&redlock, 1)).await.unwrap_err();
    assert!(matches!(&refused, TickError::Lock(LockError::NoQuorum { .. })), "{refused}");
    is_refusing.store(false, Ordering::Relaxed);
    assert_eq!(succeed(request(&redlock, 1)).await, TickOutcome::Ran(1));
}

/// The history is not read at the start: the runs that it has are kept.
#[tokio::test]
async fn unread_history_is_kept() {
    let nodes = EmbeddedNodes::new(3);
    let one = host(&nodes, "one");
    assert_eq!(succeed(request(&one, 1)).await, TickOutcome::Ran(1));
    let mocks: Vec<_> = one
        .nodes()
        .iter()
        .map(|node| {
            let is_first = AtomicBool::new(true);
            MockNode::refusing(node, Reason::TimedOut, move |op| match op {
                Op::Prepare(op) if &*op.job != "job" => is_first.swap(false, Ordering::Relaxed),
                _ => false,
            })
        })
        .collect();
    let other = with_nodes(Redlock::builder(), mocks).build().unwrap();
    assert_eq!(succeed(request(&other, 2)).await, TickOutcome::Ran(1));
    let history = one.job_history("job").await.unwrap();
    assert_eq!(history.iter().map(|run| run.tick).collect::<Vec<_>>(), [tick(1), tick(2)]);
}

/// The lock ends while the nodes withhold the answers to the claim.
#[tokio::test]
async fn lost_claim_is_taken_back() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let inner = nodes.replica("inner").redlock();
    let is_silent = Arc::new(AtomicBool::new(true));
    let withheld = Arc::<Mutex<Vec<Reply>>>::default();
    let mocks: Vec<_> = inner
        .nodes()
        .iter()
        .map(|node| {
            let (is_silent, withheld) = (Arc::clone(&is_silent), Arc::clone(&withheld));
            MockNode::over(node, move |op, reply, inner| {
                let is_claim = |op: &Op| matches!(op, Op::Claim(op) if &*op.job == "job" && op.claim.number == 0);
                if is_claim(&op) && is_silent.load(Ordering::Relaxed) {
                    // Stored, and not answered.
                    withheld.lock().unwrap().push(reply);
                    inner.send(op, Reply::from_fn(|_| {}));
                } else {
                    inner.send(op, reply);
                }
            })
        })
        .collect();
    let builder = Redlock::builder().clock(clock.clone()).spawner(clock.spawner());
    let redlock = with_nodes(builder, mocks).node_timeout(3 * SECOND).build().unwrap();
    let short = LockOptions::new().max_hold(SECOND);
    let mut lost = clock.spawn(fail(request(&redlock, 1).options(short)));
    clock.advance(2 * SECOND);
    let lost = lost.take().expect("the lock ends").unwrap_err();
    assert!(matches!(&lost, TickError::Lock(LockError::Lost { .. })), "{lost}");
    is_silent.store(false, Ordering::Relaxed);
    assert_eq!(succeed(request(&redlock, 1)).await, TickOutcome::Ran(1));
}
