//! Trigger, pause, resume.

use crate::scene::{MS, SECOND, Scene, within};
use tower_redlock::{schedule::Schedule, scheduler::Missed};

#[test]
fn a_paused_job_lies_still_and_goes_on() {
    within(10 * SECOND, || {
        let scene = Scene::new();
        let site = scene.site("a");
        let job = site.job("j", Schedule::every(SECOND), 0 * MS).missed(Missed::RunLatest);
        let jobs = site.start([job]);
        jobs.handle.pause("j").unwrap();
        scene.advance(10 * SECOND);
        assert_eq!(scene.log.ticks(), [0u64; 0]);
        assert!(jobs.status("j").paused && jobs.status("j").next_tick.is_none());
        jobs.handle.resume("j").unwrap();
        scene.advance(SECOND);
        assert_eq!(scene.log.ticks(), [10_000, 11_000]);
    });
}
