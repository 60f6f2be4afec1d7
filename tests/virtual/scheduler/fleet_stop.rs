//! Runs that somebody stops, wherever they are.

use tower_redlock::{
    Job, JobContext, Schedule,
    scheduler::{
        Claim, ControlError, JobRunResult, NotDone, Outcome, TickContext, TickError, TickOutcome,
    },
};

use crate::scheduler::fixture::{Fixture, HOUR, Host, MS, RunningScheduler, SECOND};

/// Two replicas, of which one runs the job for an hour, unless it gets a stop request.
fn fleet(fixture: &Fixture, job: impl Fn(&Host) -> Job) -> [RunningScheduler; 2] {
    fixture.fleet(["a", "b"], job).map(|(_, jobs)| jobs)
}

fn patient(host: &Host) -> Job {
    host.job("j", Schedule::every(24 * HOUR).offset(10 * SECOND), HOUR)
}

fn running(fleet: &[RunningScheduler]) -> usize {
    fleet
        .iter()
        .position(|jobs| jobs.status("j").running.is_some())
        .expect("a replica runs the job")
}

#[test]
fn run_elsewhere_is_stopped() {
    let fixture = Fixture::new();
    let fleet = fleet(&fixture, |host| patient(host).stop_grace(SECOND));
    fixture.advance(20 * SECOND);
    let (runs, other) = (running(&fleet), 1 - running(&fleet));
    let token = fleet[runs].status("j").running.unwrap().token.get();
    let stop = fleet[other].handle.stop("j").by("ann").why("it fills the disk");
    assert_eq!(fixture.done(stop), Ok(token));
    fixture.advance(8 * SECOND);
    let status = fleet[runs].status("j");
    assert!(status.running.is_none());
    assert_eq!(status.last.unwrap().outcome, Outcome::Stopped);
    let runs = fixture.history(&fleet[other], "j");
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].result, JobRunResult::Stopped);
    assert_eq!(runs[0].error.as_deref(), Some("stopped by ann: it fills the disk"));
    fixture.advance(23 * HOUR);
    assert_eq!(fixture.log.entries().len(), 1);
    fixture.advance(HOUR);
    assert_eq!(fixture.log.entries().len(), 2, "the schedule goes on");
    fixture.advance(HOUR / 2);
    assert!(fleet.iter().any(|jobs| jobs.status("j").running.is_some()), "it was for one run");
}

#[test]
fn stopped_run_is_not_repeated() {
    let fixture = Fixture::new();
    let fleet = fleet(&fixture, |host| patient(host).claim(Claim::AtEnd).stop_grace(SECOND));
    fixture.advance(20 * SECOND);

    fixture.done(fleet[0].handle.stop("j")).unwrap();
    fixture.advance(HOUR);

    assert_eq!(fixture.log.entries().len(), 1);
    assert!(fleet.iter().all(|jobs| jobs.status("j").running.is_none()));
}

#[test]
fn work_not_done_is_stopped() {
    let fixture = Fixture::new();
    let schedule = Schedule::every(24 * HOUR).offset(10 * SECOND);
    let fleet = fleet(&fixture, |_| {
        let work = |cx: JobContext| async move {
            cx.stopping().await;
            Err::<(), _>(NotDone::new("later"))
        };
        Job::new("j", schedule.clone(), work).claim(Claim::AtEnd)
    });
    fixture.advance(20 * SECOND);
    let runs = running(&fleet);

    fixture.done(fleet[0].handle.stop("j")).unwrap();
    fixture.advance(HOUR);

    let status = fleet[runs].status("j");
    assert_eq!((status.running, status.last.unwrap().outcome), (None, Outcome::Stopped));
    assert_eq!(fixture.history(&fleet[0], "j").len(), 1, "it is not repeated");
}

#[test]
fn work_may_end_by_itself() {
    let fixture = Fixture::new();
    let schedule = Schedule::every(24 * HOUR).offset(10 * SECOND);
    let fleet = fleet(&fixture, |_| {
        Job::new("j", schedule.clone(), |cx: JobContext| async move { cx.stopping().await })
    });
    fixture.advance(20 * SECOND);
    let runs = running(&fleet);

    fixture.done(fleet[0].handle.stop("j")).unwrap();
    fixture.advance(6 * SECOND);

    assert_eq!(fleet[runs].status("j").last.unwrap().outcome, Outcome::Finished);
}

#[test]
fn idle_job_has_no_run() {
    let fixture = Fixture::new();
    let fleet = fleet(&fixture, patient);
    fixture.advance(SECOND);

    let error = fixture.done(fleet[0].handle.stop("j")).unwrap_err();

    assert_eq!(error, ControlError::NotRunning { job: "j".into() });
    fixture.advance(20 * SECOND);
    assert_eq!(fleet[running(&fleet)].status("j").running.unwrap().attempt, 1);
}

mod of_tick {
    use super::*;

    type TickResult = Result<TickOutcome<()>, TickError<&'static str>>;

    /// Runs a tick without a scheduler, and stops it.
    fn stopped<F>(
        work: impl FnOnce(TickContext) -> F + Send + 'static,
    ) -> (Fixture, Host, TickResult)
    where
        F: Future<Output = Result<(), &'static str>> + Send + 'static,
    {
        let fixture = Fixture::new();
        fixture.advance(HOUR);
        let (a, b) = (fixture.host("a"), fixture.host("b"));
        let request = a.redlock.job_tick("j", Schedule::every(HOUR)).stop_grace(SECOND);
        let mut run = fixture.clock.spawn(request.run(work));
        fixture.advance(SECOND);
        fixture.done(b.redlock.stop_job("j").by("ann")).unwrap();
        fixture.advance(7 * SECOND);
        let result = run.take().expect("the run is stopped");
        (fixture, b, result)
    }

    #[test]
    fn work_is_dropped() {
        let (fixture, host, result) = stopped(|_| std::future::pending());

        let error = result.unwrap_err();
        assert_eq!(error.to_string(), "the run was stopped by ann");
        let again = host.redlock.job_tick("j", Schedule::every(HOUR)).attempts(9);
        let again = fixture.done(again.run(|_| async { Ok::<_, &str>(()) }));
        assert!(matches!(again, Ok(TickOutcome::AlreadyDone { .. })), "{again:?}");
    }

    #[test]
    fn work_knows_who_asked() {
        let (_, _, result) = stopped(|cx| async move {
            cx.stopping().await;
            let stop = cx.stop_request().expect("the work was asked to stop");
            assert_eq!(&*stop.by, "ann");
            Ok(())
        });
        assert_eq!(result, Ok(TickOutcome::Ran(())));
    }

    #[test]
    fn error_after_request_is_stopped() {
        let (_, _, result) = stopped(|cx| async move {
            cx.stopping().await;
            Err("interrupted")
        });

        assert!(matches!(result, Err(TickError::Stopped(_))), "{result:?}");
    }

    #[test]
    fn unasked_run_goes_on() {
        let fixture = Fixture::new();
        fixture.advance(HOUR);
        let a = fixture.host("a");
        let clock = fixture.clock.clone();
        let request = a.redlock.job_tick("j", Schedule::every(HOUR));
        let work = move |_| async move {
            clock.sleep(30 * SECOND).await;
            Ok::<_, &str>(7)
        };
        let mut run = fixture.clock.spawn(request.run(work));
        fixture.advance(31 * SECOND + 100 * MS);
        assert_eq!(run.take(), Some(Ok(TickOutcome::Ran(7))));
    }
}
