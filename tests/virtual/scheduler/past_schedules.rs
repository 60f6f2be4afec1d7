//! Schedules whose last tick has passed when the job starts.

use std::{
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use tower_redlock::{Schedule, scheduler::Missed, time::Clock as _};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::scheduler::scene::{SECOND, Scene};

/// The WARN lines of this thread.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        *of.level() == Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = LineVisitor(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct LineVisitor(String);

impl Visit for LineVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

fn warned(what: impl FnOnce()) -> Vec<String> {
    let warnings = Warnings::default();
    // See `Lines::during`.
    let _spare = tracing::Dispatch::new(warnings.clone());
    let dispatch = tracing::Dispatch::new(warnings.clone());
    tracing::callsite::rebuild_interest_cache();
    tracing::dispatcher::with_default(&dispatch, what);
    warnings.0.lock().unwrap().clone()
}

/// A single tick, this time after the scene's first moment.
fn at(scene: &Scene, after: Duration) -> Schedule {
    Schedule::at(SystemTime::UNIX_EPOCH + scene.clock.wall() + after)
}

#[test]
fn past_moment_is_reported_at_start() {
    let scene = Scene::new();
    let late = [at(&scene, 5 * SECOND), at(&scene, 5 * SECOND)];
    let early = at(&scene, 15 * SECOND);
    scene.advance(10 * SECOND);
    let lines = warned(|| {
        let site = scene.site("a");
        let [skip, all] = late;
        let jobs = site.start([
            site.job("late", skip, SECOND),
            // The job was not registered before the moment, so the tick is not missed.
            site.job("lost", all, SECOND).missed(Missed::RunAll { at_most: 9 }),
            site.job("early", early, SECOND),
            site.job("never", Schedule::custom("never", |_| None), SECOND),
        ]);
        scene.advance(SECOND);
        let finding = |job: &str| jobs.status(job).finding.map(|finding| finding.to_string());
        let passed = "no tick is left: the last one was 2025-01-01T00:00:05Z; give a later moment";
        assert_eq!(finding("late").as_deref(), Some(passed));
        assert_eq!(finding("lost").as_deref(), Some(passed));
        assert_eq!(finding("never").as_deref(), Some("the schedule has no tick: check its rule"));
        assert_eq!(finding("early"), None);
        scene.advance(30 * SECOND);
        assert_eq!(finding("early"), None, "the tick was run");
    });
    assert_eq!(scene.log.ticks(), [15_000]);
    let of = |job: &str| lines.iter().filter(|line| line.contains(&format!("job={job} "))).count();
    assert_eq!([of("late"), of("lost"), of("never"), of("early")], [1, 1, 1, 0], "{lines:?}");
}

#[test]
fn moment_already_run_is_not_reported() {
    let scene = Scene::new();
    let once = at(&scene, 5 * SECOND);
    let site = scene.site("a");
    let _jobs = site.start([site.job("once", once.clone(), SECOND)]);
    scene.advance(10 * SECOND);
    assert_eq!(scene.log.ticks(), [5_000]);
    site.crash();
    let lines = warned(|| {
        let site = scene.site("b");
        let jobs = site.start([site.job("once", once, SECOND)]);
        scene.advance(SECOND);
        assert_eq!(jobs.status("once").finding, None);
    });
    assert!(!lines.iter().any(|line| line.contains("job=once ")), "{lines:?}");
}

#[test]
fn moment_missed_during_outage_is_counted() {
    let scene = Scene::new();
    let once = at(&scene, 300 * SECOND);
    let site = scene.site("a");
    let known = |job: tower_redlock::Job| {
        job.missed(Missed::RunLatest).catch_up(10 * SECOND).start_within(SECOND)
    };
    let _jobs = site.start([known(site.job("once", once.clone(), SECOND))]);
    scene.advance(10 * SECOND);
    site.crash();
    scene.advance(600 * SECOND);
    let site = scene.site("b");
    let mut jobs = site.start([known(site.job("once", once, SECOND))]);
    scene.advance(SECOND);
    assert_eq!((jobs.status("once").finding, jobs.status("once").counts.missed), (None, 1));
    assert_eq!(jobs.event_names(), ["missed"]);
}
