//! Runs that somebody stops, wherever they are.

use std::time::Duration;

use tower_redlock::{
    Job, JobContext, Schedule,
    scheduler::{
        Claim, ControlError, JobRun, JobRunResult, NotDone, Outcome, TickContext, TickError,
        TickOutcome,
    },
};

use crate::scheduler::{
    fleet_control::done,
    scene::{MS, RunningScheduler, SECOND, Scene, Site},
};

const HOUR: Duration = Duration::from_secs(3_600);

/// Two replicas, of which one runs the job for an hour, unless it gets a stop request.
fn fleet(scene: &Scene, job: impl Fn(&Site) -> Job) -> [RunningScheduler; 2] {
    ["a", "b"].map(|name| {
        let site = scene.site(name);
        site.start([job(&site)])
    })
}

fn patient(site: &Site) -> Job {
    site.job("j", Schedule::every(24 * HOUR).offset(10 * SECOND), HOUR)
}

fn history(scene: &Scene, jobs: &RunningScheduler) -> Vec<JobRun> {
    let handle = jobs.handle.clone();
    done(scene, async move { handle.history("j").await }).unwrap()
}

fn running(fleet: &[RunningScheduler]) -> usize {
    fleet.iter().position(|jobs| jobs.status("j").running.is_some()).expect("one runs it")
}

#[test]
fn run_elsewhere_is_stopped() {
    let scene = Scene::new();
    let fleet = fleet(&scene, |site| patient(site).stop_grace(SECOND));
    scene.advance(20 * SECOND);
    let (runs, other) = (running(&fleet), 1 - running(&fleet));
    let token = fleet[runs].status("j").running.unwrap().token.get();

    let stop = fleet[other].handle.stop("j").by("ann").why("it fills the disk");
    assert_eq!(done(&scene, stop), Ok(token));
    scene.advance(8 * SECOND);

    let status = fleet[runs].status("j");
    assert!(status.running.is_none());
    assert_eq!(status.last.unwrap().outcome, Outcome::Stopped);
    let runs = history(&scene, &fleet[other]);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].result, JobRunResult::Stopped);
    assert_eq!(runs[0].error.as_deref(), Some("stopped by ann: it fills the disk"));
    scene.advance(23 * HOUR);
    assert_eq!(scene.log.entries().len(), 1);
    scene.advance(HOUR);
    assert_eq!(scene.log.entries().len(), 2, "the schedule goes on");
    scene.advance(HOUR / 2);
    assert!(fleet.iter().any(|jobs| jobs.status("j").running.is_some()), "it was for one run");
}

#[test]
fn stopped_run_is_not_repeated() {
    let scene = Scene::new();
    let fleet = fleet(&scene, |site| patient(site).claim(Claim::AtEnd).stop_grace(SECOND));
    scene.advance(20 * SECOND);

    done(&scene, fleet[0].handle.stop("j")).unwrap();
    scene.advance(HOUR);

    assert_eq!(scene.log.entries().len(), 1);
    assert!(fleet.iter().all(|jobs| jobs.status("j").running.is_none()));
}

#[test]
fn work_not_done_is_stopped() {
    let scene = Scene::new();
    let schedule = Schedule::every(24 * HOUR).offset(10 * SECOND);
    let fleet = fleet(&scene, |_| {
        let work = |cx: JobContext| async move {
            cx.stopping().await;
            Err::<(), _>(NotDone::new("later"))
        };
        Job::new("j", schedule.clone(), work).claim(Claim::AtEnd)
    });
    scene.advance(20 * SECOND);
    let runs = running(&fleet);

    done(&scene, fleet[0].handle.stop("j")).unwrap();
    scene.advance(HOUR);

    let status = fleet[runs].status("j");
    assert_eq!((status.running, status.last.unwrap().outcome), (None, Outcome::Stopped));
    assert_eq!(history(&scene, &fleet[0]).len(), 1, "it is not repeated");
}

#[test]
fn work_may_end_by_itself() {
    let scene = Scene::new();
    let schedule = Schedule::every(24 * HOUR).offset(10 * SECOND);
    let fleet = fleet(&scene, |_| {
        Job::new("j", schedule.clone(), |cx: JobContext| async move { cx.stopping().await })
    });
    scene.advance(20 * SECOND);
    let runs = running(&fleet);

    done(&scene, fleet[0].handle.stop("j")).unwrap();
    scene.advance(6 * SECOND);

    assert_eq!(fleet[runs].status("j").last.unwrap().outcome, Outcome::Finished);
}

#[test]
fn idle_job_has_no_run() {
    let scene = Scene::new();
    let fleet = fleet(&scene, patient);
    scene.advance(SECOND);

    let error = done(&scene, fleet[0].handle.stop("j")).unwrap_err();

    assert_eq!(error, ControlError::NotRunning { job: "j".into() });
    scene.advance(20 * SECOND);
    assert_eq!(fleet[running(&fleet)].status("j").running.unwrap().attempt, 1);
}

mod of_tick {
    use super::*;

    type TickResult = Result<TickOutcome<()>, TickError<&'static str>>;

    /// Runs a tick without a scheduler, and stops it.
    fn stopped<F>(work: impl FnOnce(TickContext) -> F + Send + 'static) -> (Scene, Site, TickResult)
    where
        F: Future<Output = Result<(), &'static str>> + Send + 'static,
    {
        let scene = Scene::new();
        scene.advance(HOUR);
        let (a, b) = (scene.site("a"), scene.site("b"));
        let request = a.redlock.job_tick("j", Schedule::every(HOUR)).stop_grace(SECOND);
        let mut run = scene.clock.spawn(request.run(work));
        scene.advance(SECOND);
        done(&scene, b.redlock.stop_job("j").by("ann")).unwrap();
        scene.advance(7 * SECOND);
        let result = run.take().expect("it is stopped");
        (scene, b, result)
    }

    #[test]
    fn work_is_dropped() {
        let (scene, site, result) = stopped(|_| std::future::pending());

        let error = result.unwrap_err();
        assert_eq!(error.to_string(), "the run was stopped by ann");
        let again = site.redlock.job_tick("j", Schedule::every(HOUR)).attempts(9);
        let again = done(&scene, again.run(|_| async { Ok::<_, &str>(()) }));
        assert!(matches!(again, Ok(TickOutcome::AlreadyDone { .. })), "{again:?}");
    }

    #[test]
    fn work_knows_who_asked() {
        let (_, _, result) = stopped(|cx| async move {
            cx.stopping().await;
            let stop = cx.stop_request().expect("it was asked");
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
        let scene = Scene::new();
        scene.advance(HOUR);
        let a = scene.site("a");
        let clock = scene.clock.clone();
        let request = a.redlock.job_tick("j", Schedule::every(HOUR));
        let work = move |_| async move {
            clock.sleep(30 * SECOND).await;
            Ok::<_, &str>(7)
        };
        let mut run = scene.clock.spawn(request.run(work));
        scene.advance(31 * SECOND + 100 * MS);
        assert_eq!(run.take(), Some(Ok(TickOutcome::Ran(7))));
    }
}
