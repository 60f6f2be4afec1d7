//! Several sets of nodes, each for a part of the names.

use std::future::IntoFuture;

use futures_util::TryStreamExt;
use tower_redlock::{
    LockError, LockRequest, Redlock, Resource,
    error::BuildError,
    testing::{ManualClock, Nodes},
};

use crate::durations::SECOND;

/// Processes over two sets of three nodes.
struct Fixture {
    clock: ManualClock,
    sets: [Nodes; 2],
}

impl Fixture {
    fn new() -> Self {
        let clock = ManualClock::new();
        Self { sets: [Nodes::new(3, &clock), Nodes::new(3, &clock)], clock }
    }

    fn process(&self, owner: &str) -> Redlock {
        let sets = self.sets.each_ref().map(|nodes| nodes.replica(owner).builder());
        Redlock::sharded(sets).unwrap()
    }

    fn done<T>(&self, work: impl Future<Output = T> + Send + 'static) -> T
    where
        T: Send + 'static,
    {
        let mut task = self.clock.spawn(work);
        self.clock.advance(SECOND);
        task.take().expect("the nodes answer in time")
    }

    fn acquire(&self, request: LockRequest) -> Result<tower_redlock::Lock, LockError> {
        self.done(request.into_future())
    }

    fn key_counts(&self) -> [u64; 2] {
        self.sets.each_ref().map(|nodes| nodes.key_counts().iter().map(|count| *count as u64).sum())
    }
}

#[test]
fn each_name_is_locked_in_one_set() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.process("one"), fixture.process("two"));
    let mut held = Vec::new();
    for i in 0..20 {
        let name = format!("account:{i}");
        held.push(fixture.acquire(one.lock(name.as_str())).unwrap());
        let error = fixture.acquire(two.lock(name.as_str())).unwrap_err();
        assert!(matches!(error, LockError::Held { .. }), "{name}: {error}");
        let (manager, inspected) = (two.clone(), name.clone());
        let holder = fixture.done(async move { manager.inspect(inspected).await });
        assert_eq!(holder.unwrap().unwrap().owner.as_deref(), Some("one"));
    }
    let counts = fixture.key_counts();
    assert_eq!(counts.iter().sum::<u64>(), 60, "each on three nodes");
    assert!(counts.iter().all(|count| *count >= 3 * 5), "{counts:?}");
    assert_eq!(one.snapshot().locks.len(), 20);
    assert_eq!((one.nodes().len(), one.health().len()), (6, 6));
    let listed = fixture.done(async move { two.locks().try_collect::<Vec<_>>().await }).unwrap();
    assert_eq!(listed.len(), 20);
    fixture.done(async move { one.shutdown().await });
    drop(held);
    fixture.clock.advance(SECOND);
    assert_eq!(fixture.key_counts(), [0, 0]);
}

#[test]
fn lock_of_two_sets_is_refused() {
    let fixture = Fixture::new();
    let redlock = fixture.process("one");
    let set = |name: &str| {
        let lock = fixture.acquire(redlock.lock(name)).unwrap();
        let set = fixture.key_counts().iter().position(|count| *count > 0).unwrap();
        drop(lock);
        fixture.clock.advance(SECOND);
        set
    };
    let names: Vec<_> = (0..20).map(|i| format!("n{i}")).collect();
    let other = names[1..].iter().find(|name| set(name) != set(&names[0])).unwrap();

    let error = fixture.acquire(redlock.lock([names[0].as_str(), other.as_str()])).unwrap_err();

    let LockError::InvalidRequest(why) = &error else { panic!("{error:?}") };
    assert!(
        why.contains(&format!("`{other}` is in set")) || why.contains(&format!("`{other}` in set")),
        "{why}"
    );
    assert!(why.contains("in braces"), "{why}");
    assert_eq!(fixture.key_counts(), [0, 0], "nothing is sent");
    for (a, b) in names.iter().zip(&names[1..]) {
        let pair = [format!("{a}:{{7}}"), format!("{b}:{{7}}")];
        assert!(fixture.acquire(redlock.lock(pair)).is_ok());
    }
}

#[test]
fn set_without_a_quorum_fails_alone() {
    let fixture = Fixture::new();
    let redlock = fixture.process("one");
    assert!(redlock.readiness().is_ok());
    fixture.sets[1].stop([0, 1]);
    let results: Vec<_> = (0..20).map(|i| fixture.acquire(redlock.lock(format!("n{i}")))).collect();
    assert!(results.iter().filter(|result| result.is_ok()).count() >= 5);
    let failed: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(failed.len() >= 5);
    assert!(failed.iter().all(|error| matches!(error, LockError::NoQuorum { .. })), "{failed:?}");
    assert!(redlock.readiness().is_err(), "one set is not ready");
}

#[test]
fn events_of_all_sets_arrive() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.process("one"), fixture.process("two"));
    let mut events = two.events();
    for i in 0..20 {
        let held = fixture.acquire(one.lock(format!("n{i}"))).unwrap();
        assert!(fixture.acquire(two.lock(format!("n{i}"))).is_err());
        drop(held);
    }
    let refused = std::iter::from_fn(|| events.try_recv().ok()).count();
    assert_eq!(refused, 20);
}

#[test]
fn bad_sets_are_refused() {
    let clock = ManualClock::new();
    let replica = || Nodes::new(3, &clock).replica("one").builder();
    let refused = |sets: Vec<_>| match Redlock::sharded(sets) {
        Err(error @ BuildError::InvalidSetting { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };

    let none = refused(Vec::new());
    assert!(none.contains("there is none"), "{none}");
    let other = refused(vec![replica(), replica().ttl(5 * SECOND)]);
    assert!(other.contains("the settings of set 2 differ"), "{other}");
    let other = refused(vec![replica(), replica(), replica().owner("two")]);
    assert!(other.contains("the settings of set 3 differ"), "{other}");
}

#[test]
fn work_is_done_once_in_each_set() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.process("one"), fixture.process("two"));
    let keys: Vec<_> = (0..10).map(|i| format!("event-{i}")).collect();
    for key in &keys {
        for (redlock, is_first) in [(&one, true), (&two, false)] {
            let request = redlock.once(key.as_str());
            let done = fixture.done(async move {
                request
                    .run(|_| async { Ok::<_, std::convert::Infallible>("done".to_owned()) })
                    .await
            });
            assert_eq!(
                matches!(done.unwrap(), tower_redlock::once::Once::Ran(_)),
                is_first,
                "{key}"
            );
        }
        let request = two.once(key.as_str());
        let status = fixture.done(async move { request.status().await }).unwrap();
        assert_eq!(status.unwrap().by.as_deref(), Some("one"));
    }
    let mut listed =
        fixture.done(async move { two.once_keys().try_collect::<Vec<_>>().await }).unwrap();
    listed.sort_unstable();
    assert!(listed.iter().map(|key| &**key).eq(keys.iter().map(String::as_str)));
}

#[test]
fn set_index_tells_where_keys_are() {
    let fixture = Fixture::new();
    let redlock = fixture.process("one");
    for i in 0..10 {
        let name = format!("n{i}");
        let own = |resource: Resource| (resource.to_string(), redlock.lock(resource));
        for (name, request) in [
            (name.clone(), redlock.lock(name.as_str())),
            (format!("slot:0:{name}"), redlock.lock(name.as_str()).slots(1)),
            (format!("slot:*1:{name}"), redlock.lock(name.as_str()).slots(1)),
            own(Resource::of_job(&name).unwrap()),
            own(Resource::of_leader(&name).unwrap()),
        ] {
            let lock = fixture.acquire(request).unwrap();
            let expected = [[3, 0], [0, 3]][redlock.set_index(&name)];
            assert_eq!(fixture.key_counts(), expected, "{name}");
            drop(lock);
            fixture.clock.advance(SECOND);
        }
        let once = redlock.once(name.as_str());
        fixture.done(async move { once.mark_done().await }).unwrap();
        let set = redlock.sets()[redlock.set_index(&format!("once:{name}"))].clone();
        let keys = fixture.done(async move { set.once_keys().try_collect::<Vec<_>>().await });
        assert!(keys.unwrap().iter().any(|key| **key == name), "{name}");
    }
}

/// Requests to the manager of one set for a name of another one.
mod names_of_another_set {
    use std::{convert::Infallible, future::ready};

    use tower_redlock::{
        error::{ReleaseError, ResourceError},
        lock::{Holder, Released},
    };

    use super::*;

    /// Two processes, the manager of the other set than that of a name, and the name's set as errors show
    /// it.
    struct OtherSet {
        fixture: Fixture,
        redlock: Redlock,
        other: Redlock,
        set: String,
    }

    impl OtherSet {
        /// Takes a name in the form that [`Redlock::set_index`] has it.
        fn of(name: &str) -> Self {
            let fixture = Fixture::new();
            let redlock = fixture.process("one");
            let own = redlock.set_index(name);
            let other = fixture.process("two").sets()[1 - own].clone();
            Self { fixture, redlock, other, set: format!("set {} of 2", own + 1) }
        }

        fn assert_refused(&self, resource: &ResourceError) {
            let ResourceError::Setup(why) = resource else { panic!("{resource:?}") };
            assert!(why.contains(&self.set) && why.contains("Redlock::sharded"), "{why}");
            assert_eq!(self.fixture.key_counts(), [0, 0], "nothing is sent");
        }

        fn assert_error(&self, error: &LockError) {
            let LockError::InvalidResource(resource) = error.root() else { panic!("{error:?}") };
            self.assert_refused(resource);
        }
    }

    #[test]
    fn requests_for_locks_are_refused() {
        let case = OtherSet::of("{a}");
        let resource = |kind: fn(&str) -> Result<Resource, ResourceError>| kind("{a}").unwrap();
        let other = &case.other;
        for request in [
            other.lock("{a}"),
            other.lock("{a}").shared(),
            other.lock("{a}").slots(2),
            other.lock(["{a}:1", "{a}:2"]),
            other.lock(Resource::of_slot("{a}", 1).unwrap()),
            other.lock(resource(Resource::of_job)),
            other.lock(resource(Resource::of_leader)),
            other.lock(resource(Resource::of_once)),
        ] {
            case.assert_error(&case.fixture.acquire(request).unwrap_err());
        }
    }

    #[test]
    fn own_names_are_locked() {
        let case = OtherSet::of("a");
        let own = case.redlock.sets()[case.redlock.set_index("a")].clone();

        let held = case.fixture.acquire(own.lock("a")).unwrap();

        let error = case.fixture.acquire(case.redlock.lock("a")).unwrap_err();
        assert!(matches!(error, LockError::Held { .. }), "{error}");
        drop(held);
    }

    #[test]
    fn only_set_has_every_name() {
        let fixture = Fixture::new();
        let alone = Redlock::sharded([fixture.sets[0].replica("one").builder()]).unwrap();

        for name in ["a", "b", "c", "d"] {
            assert!(fixture.acquire(alone.sets()[0].lock(name)).is_ok(), "{name}");
        }
    }

    #[test]
    fn inspections_and_revocations_are_refused() {
        let case = OtherSet::of("a");
        let OtherSet { fixture, redlock, other, .. } = &case;
        let manager = other.clone();
        let inspected = fixture.done(async move { manager.inspect("a").await });
        case.assert_error(&inspected.unwrap_err());
        let manager = other.clone();
        let revoked = fixture.done(async move { manager.revoke("a").await });
        let ReleaseError::InvalidResource(error) = revoked.unwrap_err() else { panic!() };
        case.assert_refused(&error);
        let held = fixture.acquire(redlock.lock("a")).unwrap();
        let manager = redlock.clone();
        let holder: Holder =
            fixture.done(async move { manager.inspect("a").await }).unwrap().unwrap();
        let (manager, target) = (other.clone(), holder.clone());
        let revoked = fixture.done(async move { manager.revoke(&target).await });
        assert!(matches!(revoked, Err(ReleaseError::InvalidResource(_))), "{revoked:?}");
        let manager = redlock.clone();
        let revoked = fixture.done(async move { manager.revoke(&holder).await });
        assert_eq!(revoked, Ok(Released::Released));
        drop(held);
    }

    #[test]
    fn keys_of_work_done_once_are_refused() {
        use tower_redlock::once::OnceError;

        let case = OtherSet::of("once:a");
        let OtherSet { fixture, other, .. } = &case;

        let once = other.once("a");
        let ran = fixture.done(async move { once.run(async |_| Ok::<_, Infallible>(())).await });
        let Err(OnceError::Lock(error)) = ran else { panic!("{ran:?}") };
        case.assert_error(&error);
        let once = other.once("a");
        let status = fixture.done(async move { once.status().await });
        case.assert_error(&status.unwrap_err());
        let once = other.once("a");
        let marked = fixture.done(async move { once.mark_done().await });
        case.assert_error(&marked.unwrap_err());
        let once = other.once("a");
        let forgotten = fixture.done(async move { once.forget().await });
        case.assert_error(&forgotten.unwrap_err());
    }

    /// The check of a layer's settings is about no name, so it passes with the manager of each set.
    #[test]
    fn layers_of_a_single_set_are_built() {
        use tower_redlock::{OnceLayer, RedlockLayer};

        for redlock in Fixture::new().process("one").sets() {
            let lock = RedlockLayer::new(redlock.clone(), |(): &()| "a".to_owned());
            let once = OnceLayer::new(redlock.clone(), "hooks", |(): &()| "a".to_owned());

            assert!(lock.build().is_ok());
            assert!(once.build().is_ok());
        }
    }

    #[test]
    fn requests_behind_layers_are_refused() {
        use tower::{Layer, ServiceExt, service_fn};
        use tower_redlock::{RedlockLayer, layer::GuardError};

        let case = OtherSet::of("a");
        let layer = RedlockLayer::new(case.other.clone(), |(): &()| "a".to_owned());
        let service = layer.layer(service_fn(|()| ready(Ok::<_, Infallible>(()))));
        let called = case.fixture.done(async move { service.oneshot(()).await.map(drop) });
        let Err(GuardError::Lock(error)) = called else { panic!("{called:?}") };
        case.assert_error(&error);
    }

    #[test]
    fn jobs_and_leaders_are_refused() {
        use tower_redlock::{
            Job, Schedule, Scheduler,
            scheduler::{ControlError, TickError},
        };
        let case = OtherSet::of("{a}");
        let OtherSet { fixture, other, set, .. } = &case;
        let job = || Job::new("{a}", Schedule::every(SECOND), async |_| Ok::<_, Infallible>(()));
        for job in [job(), job().parallel(2)] {
            let started = Scheduler::new(other.clone()).job(job).start();
            let error = started.expect_err("the job is refused").to_string();
            assert!(error.contains(set), "{error}");
        }
        let started = Scheduler::new(other.clone()).leader_only("{a}").start();
        let error = started.expect_err("the leader is refused").to_string();
        assert!(error.contains(set), "{error}");
        let leader = other.leader("{a}");
        let led = fixture.done(async move { leader.run(async |_| Ok::<_, Infallible>(())).await });
        case.assert_error(&led.unwrap_err());
        let tick = other.job_tick("{a}", Schedule::every(SECOND));
        let ran = fixture.done(async move { tick.run(async |_| Ok::<_, Infallible>(())).await });
        let Err(TickError::Lock(error)) = ran else { panic!("{ran:?}") };
        case.assert_error(&error);
        let manager = other.clone();
        let commands = fixture.done(async move {
            [
                manager.forget_job("{a}").await.map(drop),
                manager.pause_job("{a}").await.map(drop),
                manager.trigger_job("{a}").await.map(drop),
            ]
        });
        for command in commands {
            let Err(ControlError::Nodes { error, .. }) = command else { panic!("{command:?}") };
            case.assert_error(&error);
        }
        let manager = other.clone();
        let reads = fixture.done(async move {
            [
                manager.job_control("{a}").await.map(drop),
                manager.job_controls(["{a}"]).await.map(drop),
                manager.job_history("{a}").await.map(drop),
                manager.job_schedule("{a}").await.map(drop),
                manager.job_holders("{a}").await.map(drop),
            ]
        });
        for read in reads {
            case.assert_error(&read.unwrap_err());
        }
    }
}

mod jobs {
    use std::{
        collections::BTreeMap,
        sync::{Arc, Mutex},
    };

    use tower_redlock::{Job, Schedule, Scheduler, scheduler::JobRunResult};

    use super::*;

    #[test]
    fn ticks_of_jobs_in_both_sets_start_once() {
        let fixture = Fixture::new();
        let processes = [fixture.process("one"), fixture.process("two")];
        let ticks = Arc::<Mutex<BTreeMap<_, u32>>>::default();
        let jobs: Vec<_> = (0..10).map(|i| format!("job-{i}")).collect();
        let running: Vec<_> = processes
            .iter()
            .map(|redlock| {
                let mut scheduler = Scheduler::new(redlock.clone());
                for (i, name) in jobs.iter().enumerate() {
                    let ticks = Arc::clone(&ticks);
                    let job = Job::new(name.as_str(), Schedule::every(10 * SECOND), move |cx| {
                        *ticks
                            .lock()
                            .unwrap()
                            .entry((cx.job().to_owned(), cx.tick()))
                            .or_default() += 1;
                        async { Ok::<_, std::convert::Infallible>(()) }
                    });
                    // Every second one has slots.
                    scheduler = scheduler.job(job.parallel(1 + u32::from(i % 2 == 1)));
                }
                scheduler.start().unwrap()
            })
            .collect();

        fixture.clock.advance(101 * SECOND);

        let counts = ticks.lock().unwrap().clone();
        assert!(counts.values().all(|count| *count == 1), "{counts:?}");
        assert!(counts.len() >= 10 * 9, "{} ticks", counts.len());
        let redlock = processes[0].clone();
        let mut claimed = fixture
            .done({
                let redlock = redlock.clone();
                async move { redlock.claimed_jobs().try_collect::<Vec<_>>().await }
            })
            .unwrap();
        claimed.sort_unstable();
        assert!(claimed.iter().map(|name| &**name).eq(jobs.iter().map(String::as_str)));
        for name in jobs {
            let redlock = redlock.clone();
            let runs = fixture.done(async move { redlock.job_history(&name).await }).unwrap();
            assert!(runs.len() >= 9);
            assert!(runs.iter().all(|run| run.result == JobRunResult::Finished), "{runs:?}");
        }
        drop(running);
    }
}
