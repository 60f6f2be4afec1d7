//! Shared locks as others see them: holders, errors, events, and their end by `revoke`.

use futures_util::TryStreamExt;
use tower_redlock::{
    LockError,
    error::{LossCause, ReleaseError},
    lock::{Holder, LockEventKind, Released, RevokeTarget},
};

use crate::durations::{MINUTE, SECOND};
use crate::fixture::{Fixture, granted};

fn inspect<const N: usize>(fixture: &Fixture<N>) -> Option<Holder> {
    let process = fixture.processes[0].clone();
    fixture.done(async move { process.inspect("report").await }).expect("all nodes answer")
}

fn revoke<const N: usize>(
    fixture: &Fixture<N>,
    process: usize,
    target: impl Into<RevokeTarget>,
) -> Result<Released, ReleaseError> {
    let (process, target) = (fixture.processes[process].clone(), target.into());
    fixture.done(async move { process.revoke(target).await })
}

fn owners(holder: &Holder) -> Vec<&str> {
    let mut owners: Vec<_> = holder.shared_by.iter().map(|reader| &*reader.owner).collect();
    owners.sort_unstable();
    owners
}

#[test]
fn holder_has_every_reader() {
    let fixture = Fixture::new(3, ["one", "two"]);
    let readers = [fixture.read(0).unwrap(), fixture.read(0).unwrap(), fixture.read(1).unwrap()];
    let holder = inspect(&fixture).expect("the lock is held");
    assert!(holder.is_shared() && holder.is_quorum && !holder.is_awaited);
    assert_eq!((holder.readers, holder.kept), (2, 3));
    assert_eq!(owners(&holder), ["one", "two"]);
    assert!(holder.shared_by.iter().all(|reader| reader.since.is_some()));
    assert_eq!(holder.token.get(), 0, "the nodes do not keep it");
    let mut locks = Box::pin(fixture.processes[0].locks());
    let mut listed = fixture.clock.spawn(async move { locks.try_next().await });
    fixture.clock.advance(SECOND);
    let listed = listed.take().unwrap().unwrap().expect("one lock is listed");
    assert_eq!((&*listed.name, listed.readers), ("report", 2));
    assert!(fixture.processes[0].snapshot().locks[0].is_shared);
    drop(readers);
    fixture.clock.settle();
    assert!(inspect(&fixture).is_none());
    let _writer = fixture.write(0).unwrap();
    let holder = inspect(&fixture).expect("the lock is held");
    assert!(!holder.is_shared() && holder.shared_by.is_empty());
    assert!(!fixture.processes[0].snapshot().locks[0].is_shared);
}

#[test]
fn reader_that_one_node_misses_is_counted() {
    let fixture = Fixture::new(3, ["one", "two"]);
    let _first = fixture.read(0).unwrap();
    fixture.nodes.stop([0]);
    let _second = fixture.read(1).unwrap();
    fixture.nodes.start([0]);

    let holder = inspect(&fixture).expect("the lock is held");

    assert_eq!((holder.readers, holder.is_quorum), (2, true));
    assert_eq!(owners(&holder), ["one", "two"]);
}

#[test]
fn refusal_counts_readers() {
    let fixture = Fixture::new(3, ["one", "two", "three"]);
    let (_one, _two) = (fixture.read(0).unwrap(), fixture.read(1).unwrap());

    let refused = fixture.write(2).unwrap_err();
    let here = fixture.write(0).unwrap_err();
    let waiting = fixture.spawn(fixture.request(2).wait(MINUTE));
    let joins =
        fixture.done(fixture.nodes.replica("four").redlock().lock("report").shared()).unwrap_err();

    assert!(matches!(refused, LockError::Held { readers: 2, .. }), "{refused:?}");
    let text = refused.to_string();
    assert!(text.starts_with("2 readers hold it, one of them "), "{text}");
    assert!(matches!(here, LockError::Held { readers: 1.., .. }), "{here:?}");
    assert!(matches!(joins, LockError::Held { readers: 2, .. }), "{joins:?}");
    drop(waiting);
}

#[test]
fn revoke_ends_all_readers() {
    let fixture = Fixture::new(3, ["one", "two", "three"]);
    let readers = [fixture.read(0).unwrap(), fixture.read(1).unwrap()];
    let mut lost = readers.each_ref().map(|reader| fixture.clock.spawn(reader.lost()));
    let mut events = fixture.processes[2].events();
    let mut writer = fixture.spawn(fixture.request(2).wait(MINUTE));
    assert!(!writer.is_finished());
    assert_eq!(revoke(&fixture, 2, "report"), Ok(Released::Released));
    fixture.clock.settle();
    let writer = granted(&mut writer);
    assert!(!writer.is_shared());
    let event = events.try_recv().expect("the grant is an event").kind;
    assert!(matches!(event, LockEventKind::Granted { shared: false, .. }), "{event:?}");
    fixture.clock.advance(15 * SECOND);
    for lost in &mut lost {
        assert!(matches!(lost.take(), Some(LossCause::Stolen { .. })));
    }
    drop(writer);
}

#[test]
fn revoke_of_a_holder_spares_a_later_writer() {
    let fixture = Fixture::new(3, ["one", "two"]);
    let readers = [fixture.read(0).unwrap(), fixture.read(1).unwrap()];
    let seen = inspect(&fixture).unwrap();
    assert_eq!(revoke(&fixture, 1, &seen), Ok(Released::Released));
    assert!(inspect(&fixture).is_none());
    drop(readers);
    assert_eq!(revoke(&fixture, 1, &seen), Ok(Released::AlreadyLost));
    let writer = fixture.write(0).unwrap();
    assert_eq!(revoke(&fixture, 1, &seen), Ok(Released::AlreadyLost));
    assert!(writer.is_valid() && inspect(&fixture).is_some());
}

#[test]
fn events_tell_shared_locks() {
    let fixture = Fixture::new(3, ["one", "two"]);
    let writer = fixture.write(1).unwrap();
    let mut events = fixture.processes[0].events();
    let mut next = || events.try_recv().expect("an event was sent").kind;
    let mut reader = fixture.spawn(fixture.request(0).shared().wait(MINUTE));

    drop(writer);
    fixture.clock.settle();

    let reader = granted(&mut reader);
    let event = next();
    assert!(matches!(event, LockEventKind::Granted { shared: true, .. }), "{event:?}");
    assert!(event.to_string().starts_with("report (shared) was acquired after "), "{event}");
    assert_eq!(revoke(&fixture, 1, "report"), Ok(Released::Released));
    let _writer = fixture.write(1).unwrap();
    fixture.clock.advance(15 * SECOND);
    assert!(!reader.is_valid());
    let lost = next();
    assert!(matches!(lost, LockEventKind::Lost { shared: true, .. }), "{lost:?}");
}
