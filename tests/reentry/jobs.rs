//! A scheduler and leaders, on a manual clock.

use std::{future::pending, sync::Arc, time::Duration};

use tower_redlock::{
    Job, JobContext, Redlock, Schedule, Scheduler, SchedulerHandle,
    scheduler::Missed,
    testing::{ManualClock, Nodes},
};

use crate::reenter::{assert_told, at_every_event, poll_once, use_manager, without_deadlock};

const SECOND: Duration = Duration::from_secs(1);

fn use_handle(handle: &Arc<SchedulerHandle>) {
    let handle = Arc::clone(handle);
    at_every_event(move || {
        let _ = (handle.jobs(), handle.is_active(), handle.events());
        let _ = (handle.pause_here("none"), handle.resume_here("none"));
    });
}

fn start(redlock: &Redlock, clock: &ManualClock) -> Arc<SchedulerHandle> {
    let sleeps = clock.clone();
    let slow = move |_: JobContext| sleeps.sleep(25 * SECOND);
    let fails = |_: JobContext| async { Err::<(), _>("on purpose") };
    let panics = |cx: JobContext| async move { assert!(cx.attempt() > 1, "on purpose") };
    let every = || Schedule::every(10 * SECOND);
    let handle = Scheduler::new(redlock.clone())
        .job(Job::new("slow", every(), slow).missed(Missed::RunLatest))
        .job(Job::new("fails", every(), fails).retries(1))
        .job(Job::new("panics", every(), panics))
        .job(Job::new("hangs", every(), |_| pending::<()>()).max_run(15 * SECOND))
        .spawner(clock.spawner())
        .leader_only("scheduler")
        .start()
        .unwrap();
    let handle = Arc::new(handle);
    use_handle(&handle);
    handle
}

#[test]
fn finished_failed_and_skipped_jobs() {
    without_deadlock(|| {
        let clock = ManualClock::new();
        let nodes = Nodes::new(5, &clock);
        let (a, b) = (nodes.replica("a"), nodes.replica("b"));
        let (here, there) = (a.redlock(), b.redlock());
        use_manager(&here);
        use_manager(&there);
        let (first, second) = (start(&here, &clock), start(&there, &clock));
        clock.advance(60 * SECOND);
        second.trigger_here("slow").unwrap();
        clock.settle();
        a.partition(0..5);
        clock.advance(60 * SECOND);
        assert!(second.is_active() && !first.is_active());
        a.heal(0..5);
        clock.advance(30 * SECOND);
        poll_once(second.shutdown(SECOND));
        clock.advance(30 * SECOND);
        assert_told(&[
            "job",
            "job failed",
            "job panicked",
            "job ran for max_run",
            "elected",
            "leadership lost",
        ]);
    });
}

#[test]
fn leaders_that_resign_and_come_back() {
    without_deadlock(|| {
        let clock = ManualClock::new();
        let nodes = Nodes::new(5, &clock);
        let run = |name: &str| {
            let redlock = nodes.replica(name).redlock();
            use_manager(&redlock);
            let leader = redlock.leader("x");
            let asked = leader.clone();
            at_every_event(move || {
                let _ = (asked.is_leader(), asked.transitions());
            });
            let task = clock.spawn(leader.run(|_| pending::<()>()));
            (leader, task)
        };
        let (first, _running) = run("a");
        clock.settle();
        let (second, _runs) = run("b");
        clock.settle();
        assert!(first.is_leader());
        let resigned = first.clone();
        let mut resigned = clock.spawn(async move { resigned.resign().await });
        clock.advance(60 * SECOND);
        assert_eq!(resigned.take(), Some(()));
        assert!(second.is_leader());
        assert_told(&[
            "elected",
            "leads no more; the work did not stop by itself, and was dropped",
        ]);
    });
}
