//! Shared locks as others see them: holders, errors, events, and their end by `revoke`.

use std::{future::IntoFuture, time::Duration};

use futures_util::TryStreamExt;
use tower_redlock::{
    Lock, LockError, LockRequest, Redlock,
    error::{LossCause, ReleaseError},
    lock::{Holder, LockEventKind, Released, RevokeTarget},
    testing::{ManualClock, Nodes, Task},
};

const SECOND: Duration = Duration::from_secs(1);

/// Processes over three nodes.
struct Fleet {
    clock: ManualClock,
    nodes: Nodes,
}

impl Fleet {
    fn new() -> Self {
        let clock = ManualClock::new();
        let nodes = Nodes::new(3, &clock);
        Self { clock, nodes }
    }

    fn process(&self, name: &str) -> Redlock {
        self.nodes.replica(name).redlock()
    }

    fn begin(&self, request: LockRequest) -> Task<Result<Lock, LockError>> {
        let task = self.clock.spawn(request.into_future());
        self.clock.settle();
        task
    }

    fn now(&self, request: LockRequest) -> Result<Lock, LockError> {
        self.begin(request).take().expect("the nodes answer at once")
    }

    fn read(&self, process: &Redlock) -> Lock {
        self.now(process.lock("report").shared()).expect("no writer waits")
    }

    fn inspect(&self, process: &Redlock) -> Option<Holder> {
        let process = process.clone();
        let mut task = self.clock.spawn(async move { process.inspect("report").await });
        self.clock.settle();
        task.take().expect("the nodes answer at once").expect("all of them")
    }

    fn revoke(
        &self,
        process: &Redlock,
        target: impl Into<RevokeTarget>,
    ) -> Result<Released, ReleaseError> {
        let (process, target) = (process.clone(), target.into());
        let mut task = self.clock.spawn(async move { process.revoke(target).await });
        self.clock.settle();
        task.take().expect("the nodes answer at once")
    }
}

fn owners(holder: &Holder) -> Vec<&str> {
    let mut owners: Vec<_> = holder.shared_by.iter().map(|reader| &*reader.owner).collect();
    owners.sort_unstable();
    owners
}

#[test]
fn holder_has_every_reader() {
    let fleet = Fleet::new();
    let (one, two) = (fleet.process("one"), fleet.process("two"));
    let readers = [fleet.read(&one), fleet.read(&one), fleet.read(&two)];

    let holder = fleet.inspect(&one).expect("it is held");

    assert!(holder.is_shared() && holder.is_quorum && !holder.is_awaited);
    assert_eq!((holder.readers, holder.kept), (2, 3));
    assert_eq!(owners(&holder), ["one", "two"]);
    assert!(holder.shared_by.iter().all(|reader| reader.since.is_some()));
    assert_eq!(holder.token.get(), 0, "the nodes do not keep it");
    let mut locks = Box::pin(one.locks());
    let mut listed = fleet.clock.spawn(async move { locks.try_next().await });
    fleet.clock.advance(SECOND);
    let listed = listed.take().unwrap().unwrap().expect("one lock");
    assert_eq!((&*listed.name, listed.readers), ("report", 2));
    assert!(one.snapshot().locks[0].is_shared);

    drop(readers);
    fleet.clock.settle();
    assert!(fleet.inspect(&one).is_none());
    let _writer = fleet.now(one.lock("report")).unwrap();
    let holder = fleet.inspect(&one).expect("it is held");
    assert!(!holder.is_shared() && holder.shared_by.is_empty());
    assert!(!one.snapshot().locks[0].is_shared);
}

#[test]
fn reader_that_one_node_misses_is_counted() {
    let fleet = Fleet::new();
    let (one, two) = (fleet.process("one"), fleet.process("two"));
    let _first = fleet.read(&one);
    fleet.nodes.stop([0]);
    let _second = fleet.read(&two);
    fleet.nodes.start([0]);

    let holder = fleet.inspect(&one).expect("it is held");

    assert_eq!((holder.readers, holder.is_quorum), (2, true));
    assert_eq!(owners(&holder), ["one", "two"]);
}

#[test]
fn refusal_counts_readers() {
    let fleet = Fleet::new();
    let [one, two, three] = ["one", "two", "three"].map(|name| fleet.process(name));
    let (_one, _two) = (fleet.read(&one), fleet.read(&two));

    let refused = fleet.now(three.lock("report")).unwrap_err();
    let here = fleet.now(one.lock("report")).unwrap_err();
    let waiting = fleet.begin(three.lock("report").wait(60 * SECOND));
    let joins = fleet.now(fleet.process("four").lock("report").shared()).unwrap_err();

    assert!(matches!(refused, LockError::Held { readers: 2, .. }), "{refused:?}");
    let text = refused.to_string();
    assert!(text.starts_with("2 readers hold it, one of them "), "{text}");
    assert!(matches!(here, LockError::Held { readers: 1.., .. }), "{here:?}");
    assert!(matches!(joins, LockError::Held { readers: 2, .. }), "{joins:?}");
    drop(waiting);
}

#[test]
fn revoke_ends_all_readers() {
    let fleet = Fleet::new();
    let [one, two, three] = ["one", "two", "three"].map(|name| fleet.process(name));
    let readers = [fleet.read(&one), fleet.read(&two)];
    let mut lost = readers.each_ref().map(|reader| fleet.clock.spawn(reader.lost()));
    let mut events = three.events();
    let mut writer = fleet.begin(three.lock("report").wait(60 * SECOND));
    assert!(!writer.is_finished());

    assert_eq!(fleet.revoke(&three, "report"), Ok(Released::Released));
    fleet.clock.settle();

    let writer = writer.take().expect("it comes next").expect("the lock");
    assert!(!writer.is_shared());
    let granted = events.try_recv().expect("it has waited").kind;
    assert!(matches!(granted, LockEventKind::Granted { shared: false, .. }), "{granted:?}");
    fleet.clock.advance(15 * SECOND);
    for lost in &mut lost {
        assert!(matches!(lost.take(), Some(LossCause::Stolen { .. })));
    }
    drop(writer);
}

#[test]
fn revoke_of_a_holder_spares_a_later_writer() {
    let fleet = Fleet::new();
    let (one, two) = (fleet.process("one"), fleet.process("two"));
    let readers = [fleet.read(&one), fleet.read(&two)];
    let seen = fleet.inspect(&one).unwrap();

    assert_eq!(fleet.revoke(&two, &seen), Ok(Released::Released));
    assert!(fleet.inspect(&one).is_none());
    drop(readers);
    assert_eq!(fleet.revoke(&two, &seen), Ok(Released::AlreadyLost));
    let writer = fleet.now(one.lock("report")).unwrap();
    assert_eq!(fleet.revoke(&two, &seen), Ok(Released::AlreadyLost));

    assert!(writer.is_valid() && fleet.inspect(&two).is_some());
}

#[test]
fn events_tell_shared_locks() {
    let fleet = Fleet::new();
    let (one, two) = (fleet.process("one"), fleet.process("two"));
    let writer = fleet.now(two.lock("report")).unwrap();
    let mut events = one.events();
    let mut next = || events.try_recv().expect("an event").kind;
    let mut reader = fleet.begin(one.lock("report").shared().wait(60 * SECOND));

    drop(writer);
    fleet.clock.settle();

    let reader = reader.take().expect("it is free").unwrap();
    let granted = next();
    assert!(matches!(granted, LockEventKind::Granted { shared: true, .. }), "{granted:?}");
    assert!(granted.to_string().starts_with("report (shared) was acquired after "), "{granted}");
    assert_eq!(fleet.revoke(&two, "report"), Ok(Released::Released));
    let _writer = fleet.now(two.lock("report")).unwrap();
    fleet.clock.advance(15 * SECOND);
    assert!(!reader.is_valid());
    let lost = next();
    assert!(matches!(lost, LockEventKind::Lost { shared: true, .. }), "{lost:?}");
}
