//! Log lines at WARN and INFO.

use std::{
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{Schedule, scheduler::Missed, time::Clock};
use tracing::{
    Dispatch, Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::scheduler::scene::{MS, SECOND, Scene, Site};

const MINUTE: Duration = Duration::from_secs(60);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// Records the log lines of this thread, on which all of a scene runs.
#[derive(Clone, Default)]
pub(crate) struct CapturedLog(Arc<Mutex<Vec<(Level, String)>>>);

struct LineVisitor(String);

impl Visit for LineVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for CapturedLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = LineVisitor(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push((*event.metadata().level(), text.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl CapturedLog {
    /// Number of lines with all of these parts since the last call.
    pub(crate) fn count(&self, level: Level, parts: &[&str]) -> usize {
        let lines = std::mem::take(&mut *self.0.lock().unwrap());
        let fits = |line: &&(Level, String)| {
            line.0 == level && parts.iter().all(|part| line.1.contains(part))
        };
        lines.iter().filter(fits).count()
    }
}

pub(crate) fn with_log(what: impl FnOnce(&CapturedLog)) {
    let log = CapturedLog::default();
    // See `Lines::during`.
    let _spare = Dispatch::new(log.clone());
    let dispatch = Dispatch::new(log.clone());
    tracing::callsite::rebuild_interest_cache();
    tracing::dispatcher::with_default(&dispatch, || what(&log));
}

fn every(site: &Site, minutes: u32) -> tower_redlock::Job {
    site.job("j", Schedule::every(minutes * MINUTE), 5 * SECOND).missed(Missed::RunLatest)
}

#[test]
fn changed_schedule_is_logged_once() {
    with_log(|log| {
        let scene = Scene::new();
        let (a, b, c) = (scene.site("old-a"), scene.site("new-b"), scene.site("new-c"));
        let _a = a.start([every(&a, 7)]);
        scene.advance(30 * MINUTE);
        a.crash();
        log.count(Level::INFO, &[]);
        let _b = b.start([every(&b, 5)]);
        scene.advance(MINUTE);
        let _c = c.start([every(&c, 5)]);
        scene.advance(100 * MINUTE);
        let lines = log.0.lock().unwrap().clone();
        assert_eq!(log.count(Level::INFO, &["another schedule", "old-a", "new-b"]), 1);
        assert!(lines.iter().all(|line| !line.1.contains("two schedules")), "{lines:?}");
    });
}

#[test]
fn two_schedules_warn_on_both_sides() {
    with_log(|log| {
        let scene = Scene::new();
        let (a, b) = (scene.site("svc-a"), scene.site("svc-b"));
        let _a = a.start([every(&a, 7)]);
        scene.advance(30 * MINUTE);
        let _b = b.start([every(&b, 5)]);
        scene.advance(59 * MINUTE);
        let lines = log.0.lock().unwrap().clone();
        let parts = ["two schedules", "by=svc-a", "other=svc-b"];
        assert_eq!(log.count(Level::WARN, &parts), 1, "{lines:?}");
        log.0.lock().unwrap().extend(lines);
        assert_eq!(log.count(Level::WARN, &["two schedules", "by=svc-b", "other=svc-a"]), 1);
        scene.advance(60 * MINUTE);
        assert_eq!(log.count(Level::WARN, &["two schedules"]), 2, "again after an hour");
    });
}

#[test]
fn stored_future_time_warns_once() {
    with_log(|log| {
        let scene = Scene::new();
        let (a, b) = (scene.site_at("a", scene.clock.ahead_by(Duration::ZERO)), scene.site("b"));
        let _a = a.start([every(&a, 60)]);
        scene.advance(60 * MINUTE + SECOND);
        a.clock.set_wall(a.clock.wall() + MONTH);
        scene.advance(5 * SECOND);
        a.crash();
        log.count(Level::WARN, &[]);
        let jobs = b.start([every(&b, 60)]);
        scene.advance(20 * MINUTE);
        for _ in 0..5 {
            jobs.handle.pause_here("j").unwrap();
            jobs.handle.resume_here("j").unwrap();
            scene.advance(MINUTE);
        }
        assert_eq!(log.count(Level::WARN, &["job=j", "lies in the future"]), 1);
        scene.advance(60 * MINUTE);
        assert_eq!(scene.log.sites(), ["a", "b"]);
    });
}

#[test]
fn tick_lost_to_crash_warns() {
    with_log(|log| {
        let scene = Scene::new();
        let (a, b) = (scene.site("svc-a"), scene.site("b"));
        let _a = a.start([every(&a, 60)]);
        scene.advance(60 * MINUTE + MS);
        a.crash();
        let _b = b.start([every(&b, 60)]);
        scene.advance(60 * MINUTE);
        let parts = ["job=j", "did not end", "svc-a"];
        assert_eq!(log.count(Level::WARN, &parts), 1);
    });
}

/// No lock is granted any more, and none is needed.
#[test]
fn end_is_stored_after_managers_shutdown() {
    with_log(|log| {
        let scene = Scene::new();
        let site = scene.site("a");
        let jobs = site.start([every(&site, 1)]);
        scene.advance(MINUTE + SECOND);
        let redlock = site.redlock.clone();
        let _closed = scene.clock.spawn(async move { redlock.shutdown().await });
        scene.advance(SECOND);
        log.count(Level::WARN, &[]);
        site.replica.partition(0..5);

        // Its lock ends meanwhile.
        scene.advance(30 * SECOND);
        site.replica.heal(0..5);
        let handle = jobs.handle.clone();
        let _stopped = scene.clock.spawn(async move { handle.shutdown(SECOND).await });
        scene.advance(MINUTE);

        let runs = scene.log.entries();
        assert!(runs[0].ended.is_some());
        let stored = log.count(Level::INFO, &["an end is stored after all", "name=j"]);
        assert_eq!(stored, 1);
    });
}

/// The job is paused when the end that it owes is stored: its task waits on.
#[test]
fn end_is_stored_while_paused() {
    with_log(|log| {
        let scene = Scene::new();
        let site = scene.site("a");
        let jobs = site.start([every(&site, 1)]);
        scene.advance(MINUTE + SECOND / 2);
        site.replica.partition(0..5);
        scene.advance(30 * SECOND);
        jobs.handle.pause_here("j").expect("it is known");
        assert_eq!(site.redlock.snapshot().owed.len(), 1);

        site.replica.heal(0..5);
        scene.advance(5 * MINUTE);

        assert_eq!(site.redlock.snapshot().owed, []);
        assert_eq!(log.count(Level::INFO, &["an end is stored after all", "name=j"]), 1);
        assert_eq!(scene.log.entries().len(), 1, "it is paused");
    });
}

#[test]
fn end_that_is_given_up_warns() {
    with_log(|log| {
        let scene = Scene::new();
        let site = scene.site("a");
        let _jobs = site.start([every(&site, 1)]);
        scene.advance(MINUTE + SECOND / 2);
        site.replica.partition(0..5);
        // The work ends, then its lock.
        scene.advance(30 * SECOND);
        assert_eq!(site.redlock.snapshot().owed.len(), 1);
        assert_eq!(site.redlock.counts().lost, 0, "the work had ended");

        let redlock = site.redlock.clone();
        let _closed = scene.clock.spawn(async move { redlock.shutdown().await });
        // The scene's `max_ttl`.
        scene.advance(10 * MINUTE);

        assert_eq!(log.count(Level::WARN, &["the end of a run is not stored", "job=j"]), 1);
    });
}
