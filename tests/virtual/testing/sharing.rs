//! Readers beside each other, and never beside a writer.

use std::{
    collections::BTreeMap,
    future::IntoFuture,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::future::abortable;
use tower_redlock::{
    Lock, LockError, LockOptions, LockRequest, Redlock,
    error::LossCause,
    lock::{LockEventKind, Released},
    testing::{ManualClock, Nodes, Task},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Processes over three nodes.
struct Fleet {
    seed: u64,
    clock: ManualClock,
    nodes: Nodes,
    processes: Vec<Redlock>,
}

impl Fleet {
    fn new(processes: usize) -> Self {
        Self::with_seed(processes, 1)
    }

    fn with_seed(processes: usize, seed: u64) -> Self {
        let clock = ManualClock::with_seed(seed);
        let nodes = Nodes::new(3, &clock);
        let processes = (0..processes).map(|i| nodes.replica(format!("p{i}")).redlock()).collect();
        Self { seed, clock, nodes, processes }
    }

    fn request(&self, process: usize) -> LockRequest {
        self.processes[process].lock("report")
    }

    fn begin(&self, request: LockRequest) -> Task<Result<Lock, LockError>> {
        let task = self.clock.spawn(request.into_future());
        self.clock.settle();
        task
    }

    fn now(&self, request: LockRequest) -> Result<Lock, LockError> {
        self.begin(request).take().expect("the nodes answer at once")
    }

    /// Returns a downgraded lock, and lets the nodes answer.
    fn downgrade(&self, lock: Lock) -> Result<Lock, LockError> {
        let downgraded = lock.downgrade();
        self.clock.settle();
        downgraded
    }

    fn read(&self, process: usize) -> Result<Lock, LockError> {
        self.now(self.request(process).shared())
    }

    /// Reads on in process 0, one reader after the other, each before the last one ends, until one is refused.
    /// Returns the last one.
    fn read_on(&self, mut reader: Lock) -> Lock {
        for _ in 0..50 {
            self.clock.advance(100 * MS);
            match self.read(0) {
                Ok(next) => drop(std::mem::replace(&mut reader, next)),
                Err(_) => break,
            }
        }
        reader
    }

    fn write(&self, process: usize) -> Result<Lock, LockError> {
        self.now(self.request(process))
    }
}

fn is_held(result: Result<Lock, LockError>) -> bool {
    matches!(result.expect_err("it is held").root(), LockError::Held { .. })
}

#[test]
fn readers_stand_beside_each_other() {
    let fleet = Fleet::new(3);
    let readers: Vec<_> = (0..6).map(|i| fleet.read(i % 3).unwrap()).collect();

    assert!(readers.iter().all(|reader| reader.is_valid() && reader.is_shared()));
    assert!(readers[0].context().is_shared());
    assert_eq!(fleet.nodes.key_counts(), [1, 1, 1]);
    assert!(is_held(fleet.write(0)) && is_held(fleet.write(1)));
    fleet.clock.advance(60 * SECOND);
    assert!(readers.iter().all(Lock::is_valid), "renewed");

    drop(readers);
    fleet.clock.settle();

    assert_eq!(fleet.nodes.key_counts(), [0, 0, 0]);
    assert!(!fleet.write(1).unwrap().is_shared());
}

#[test]
fn writer_excludes_readers() {
    let fleet = Fleet::new(2);
    let writer = fleet.write(0).unwrap();
    assert!(is_held(fleet.read(0)) && is_held(fleet.read(1)));

    drop(writer);
    fleet.clock.settle();

    assert!(fleet.read(0).is_ok() && fleet.read(1).is_ok());
}

#[test]
fn further_readers_of_a_process_send_nothing() {
    let fleet = Fleet::new(1);
    let first = fleet.read(0).unwrap();
    fleet.nodes.stop([0, 1, 2]);

    let others: Vec<_> = (0..100).map(|_| fleet.read(0).unwrap()).collect();

    assert!(others.iter().all(|other| other.remaining() == first.remaining()));
    assert!(others.iter().all(|other| other.fencing_token() == first.fencing_token()));
}

#[test]
fn release_of_one_reader_leaves_the_others() {
    let fleet = Fleet::new(1);
    let (first, second) = (fleet.read(0).unwrap(), fleet.read(0).unwrap());
    let context = first.context();

    drop(first);
    fleet.clock.advance(30 * SECOND);

    assert!(second.is_valid() && context.ensure_valid().is_err());
    assert!(is_held(fleet.write(0)));
    let released = fleet.clock.spawn(second.release());
    fleet.clock.settle();
    assert!(released.is_finished());
    assert!(fleet.write(0).is_ok());
}

#[test]
fn loss_reaches_every_reader() {
    let fleet = Fleet::new(1);
    let readers: Vec<_> = (0..3).map(|_| fleet.read(0).unwrap()).collect();
    let mut lost: Vec<_> = readers.iter().map(|r| fleet.clock.spawn(r.lost())).collect();
    fleet.nodes.stop([0, 1, 2]);

    fleet.clock.advance(11 * SECOND);

    assert!(readers.iter().all(|reader| !reader.is_valid()));
    for lost in &mut lost {
        assert!(matches!(lost.take(), Some(LossCause::Expired { .. })));
    }
    fleet.nodes.start([0, 1, 2]);
    drop(readers);
    fleet.clock.advance(SECOND);
    assert!(fleet.write(0).is_ok());
}

#[test]
fn each_reader_has_its_own_max_hold() {
    let fleet = Fleet::new(1);
    let request = || fleet.request(0).shared();
    let short = fleet.now(request().max_hold(15 * SECOND)).unwrap();
    fleet.clock.advance(5 * SECOND);
    let long = fleet.now(request().max_hold(60 * SECOND)).unwrap();
    let mut lost = fleet.clock.spawn(short.lost());

    fleet.clock.advance(11 * SECOND);

    assert!(!short.is_valid());
    assert_eq!(lost.take(), Some(LossCause::MaxHold { limit: 15 * SECOND }));
    assert!(long.is_valid());
    fleet.clock.advance(40 * SECOND);
    assert!(long.is_valid());
    fleet.clock.advance(10 * SECOND);
    assert!(!long.is_valid());
}

#[test]
fn ended_reader_stays_beside_the_others() {
    let fleet = Fleet::new(1);
    let request = || fleet.request(0).shared();
    let short = fleet.now(request().max_hold(15 * SECOND)).unwrap();
    let long = fleet.now(request().max_hold(60 * SECOND)).unwrap();
    fleet.clock.advance(16 * SECOND);
    assert!(!short.is_valid());

    let mut lost = fleet.clock.spawn(long.lost());
    fleet.clock.advance(20 * SECOND);

    assert!(long.is_valid() && !short.is_valid() && !lost.is_finished());
    fleet.clock.advance(30 * SECOND);
    assert_eq!(lost.take(), Some(LossCause::MaxHold { limit: 60 * SECOND }));
    assert!(!long.is_valid());
}

#[test]
fn max_hold_of_a_reader_outlives_a_longer_one() {
    let fleet = Fleet::new(2);
    let request = || fleet.request(0).shared();
    let long = fleet.now(request().max_hold(60 * SECOND)).unwrap();
    let short = fleet.now(request().max_hold(15 * SECOND)).unwrap();
    let mut lost = fleet.clock.spawn(short.lost());

    drop(long);
    fleet.clock.advance(16 * SECOND);

    assert!(!short.is_valid());
    assert_eq!(lost.take(), Some(LossCause::MaxHold { limit: 15 * SECOND }));
    fleet.clock.advance(10 * SECOND);
    assert!(fleet.write(1).is_ok(), "the lease is not renewed any more");
}

#[test]
fn ended_reader_keeps_no_lease() {
    let fleet = Fleet::new(2);
    let request = || fleet.request(0).shared();
    let short = fleet.now(request().max_hold(5 * SECOND)).unwrap();
    let long = fleet.now(request().max_hold(60 * SECOND)).unwrap();
    fleet.clock.advance(6 * SECOND);
    assert!(!short.is_valid());

    let mut released = fleet.clock.spawn(long.release());
    fleet.clock.settle();

    assert!(matches!(released.take(), Some(Ok(Released::Released))));
    assert!(fleet.write(1).is_ok());
    drop(short);
    fleet.clock.advance(SECOND);
    assert_eq!(fleet.nodes.key_counts(), [0, 0, 0]);
}

#[test]
fn release_after_the_lease_is_confirmed_at_once() {
    let fleet = Fleet::new(1);
    let short = fleet.now(fleet.request(0).shared().max_hold(SECOND)).unwrap();
    let long = fleet.read(0).unwrap();
    fleet.clock.advance(2 * SECOND);
    drop(long);
    fleet.clock.settle();

    let mut released = fleet.clock.spawn(short.release());
    fleet.clock.settle();

    assert!(released.take().expect("no answer is missing").is_ok());
}

#[test]
fn reader_joins_beside_one_that_has_ended() {
    let fleet = Fleet::new(1);
    let long = fleet.read(0).unwrap();
    let short = fleet.now(fleet.request(0).shared().max_hold(SECOND)).unwrap();
    fleet.clock.advance(2 * SECOND);
    let mut lost = fleet.clock.spawn(short.lost());
    fleet.clock.settle();
    assert!(lost.take().is_some() && !short.is_valid() && long.is_valid());

    assert!(fleet.read(0).is_ok());
}

#[test]
fn waiting_writer_keeps_new_readers_out() {
    let fleet = Fleet::new(3);
    let (one, two) = (fleet.read(0).unwrap(), fleet.read(1).unwrap());
    let mut writer = fleet.begin(fleet.request(2).wait(60 * SECOND));
    fleet.clock.advance(5 * MS);

    for process in 0..3 {
        assert!(is_held(fleet.read(process)), "process {process}");
    }

    drop(one);
    fleet.clock.advance(5 * MS);
    assert!(!writer.is_finished());
    drop(two);
    fleet.clock.advance(20 * MS);
    let writer = writer.take().expect("its turn has come").unwrap();
    assert!(is_held(fleet.read(0)));
    drop(writer);
    fleet.clock.advance(20 * MS);
    assert!(fleet.read(0).is_ok());
}

#[test]
fn writer_whose_request_was_lost_asks_again() {
    let mut fleet = Fleet::new(0);
    let (readers, other) = (fleet.nodes.replica("readers"), fleet.nodes.replica("other"));
    fleet.processes = vec![readers.redlock(), other.redlock()];
    let reader = fleet.read(0).unwrap();
    // What the nodes send to the readers' process is lost, also that a writer waits.
    readers.partition([0, 1, 2]);
    let mut writer = fleet.begin(fleet.request(1).wait(60 * SECOND));
    fleet.clock.advance(5 * MS);
    readers.heal([0, 1, 2]);

    let reader = fleet.read_on(reader);

    assert!(is_held(fleet.read(0)), "the writer waits for a gap");
    drop(reader);
    fleet.clock.advance(20 * MS);
    assert!(writer.take().expect("its turn has come").is_ok());
}

#[test]
fn cancelled_writer_costs_others_nothing() {
    let fleet = Fleet::new(4);
    let reader = fleet.read(0).unwrap();
    let (request, writer) = abortable(fleet.request(1).wait(60 * SECOND).into_future());
    let _task = fleet.clock.spawn(request);
    fleet.clock.advance(5 * MS);
    let mut kept_out = fleet.begin(fleet.request(2).shared().wait(60 * SECOND));
    fleet.clock.advance(5 * MS);
    assert!(is_held(fleet.read(0)) && !kept_out.is_finished(), "the writer comes first");

    writer.abort();
    fleet.clock.advance(20 * MS);

    assert!(kept_out.take().expect("no writer waits").is_ok());
    assert!(fleet.read(0).is_ok() && fleet.read(3).is_ok());
    drop(reader);
}

/// Its second attempt meets another name that is held alone, and so not the mark of the first one.
#[test]
fn cancelled_writer_of_a_set_leaves_no_mark() {
    let fleet = Fleet::new(4);
    let of = |process: usize, name: &str| fleet.processes[process].lock(name);
    let reader = fleet.now(of(0, "b").shared()).unwrap();
    let set = fleet.processes[1].lock(["a", "b"]).wait(60 * SECOND);
    let (request, writer) = abortable(set.into_future());
    let _task = fleet.clock.spawn(request);
    fleet.clock.settle();
    let other = fleet.now(of(2, "a")).unwrap();
    fleet.clock.advance(SECOND + 100 * MS);
    drop(reader);
    assert!(is_held(fleet.now(of(3, "b").shared())), "the writer comes first");

    writer.abort();
    fleet.clock.advance(20 * MS);

    assert!(fleet.now(of(3, "b").shared()).is_ok());
    drop(other);
}

#[test]
fn writer_that_gave_up_keeps_no_free_name() {
    for (process, shared) in [(2, true), (2, false), (0, false)] {
        let fleet = Fleet::new(3);
        let reader = fleet.read(0).unwrap();
        let writer = fleet.begin(fleet.request(1).wait(100 * MS));
        fleet.clock.advance(5 * MS);
        drop(reader);
        fleet.nodes.stop([0, 1, 2]);
        fleet.clock.advance(200 * MS);
        assert!(writer.is_finished(), "its wait is over");

        fleet.nodes.start([0, 1, 2]);
        fleet.clock.advance(SECOND / 2);

        assert!(
            fleet.now(fleet.request(process).options(LockOptions::new().shared(shared))).is_ok()
        );
    }
}

#[test]
fn writer_that_comes_and_goes_lets_readers_in() {
    let fleet = Fleet::new(3);
    let mut reader = fleet.read(0).unwrap();
    let (mut got_in, mut rounds) = (0, 0);
    for _ in 0..20 {
        let writer = fleet.begin(fleet.request(1).wait(50 * MS));
        fleet.clock.advance(60 * MS);
        drop(writer);
        for _ in 0..14 {
            rounds += 1;
            fleet.clock.advance(100 * MS);
            got_in += u32::from(fleet.read(2).is_ok());
            reader = fleet.read(0).unwrap_or(reader);
        }
    }

    assert_eq!(got_in, rounds, "no writer waits at that moment");
}

#[test]
fn granted_writer_leaves_no_mark_on_a_node_that_refused() {
    let fleet = Fleet::new(3);
    let reader = fleet.read(0).unwrap();
    let mut writer = fleet.begin(fleet.request(1).wait(60 * SECOND));
    fleet.clock.advance(5 * MS);
    // The release does not reach one node, which keeps the reader's key, and the mark.
    fleet.nodes.stop([0]);
    drop(reader);
    fleet.clock.advance(5 * MS);
    fleet.nodes.start([0]);
    fleet.clock.advance(20 * MS);
    let writer = writer.take().expect("a quorum is free").unwrap();

    drop(writer);
    fleet.clock.settle();
    fleet.nodes.stop([2]);

    assert!(fleet.read(2).is_ok(), "one node refuses because of a mark, and one does not answer");
}

#[test]
fn waiter_is_named() {
    let fleet = Fleet::new(3);
    let reader = fleet.read(0).unwrap();
    let _writer = fleet.begin(fleet.request(1).wait(60 * SECOND));
    fleet.clock.advance(5 * MS);

    let refused = fleet.read(2).unwrap_err();

    let LockError::Held { owner, waiter, readers, .. } = refused.root() else {
        panic!("{refused}")
    };
    let waiter = waiter.as_ref().map(|waiter| &*waiter.owner);
    assert_eq!((owner.as_deref(), waiter, *readers), (Some("p0"), Some("p1"), 1));
    let shown = refused.to_string();
    assert!(shown.contains("the exclusive request of p1 waits and comes first"), "{shown}");
    drop(reader);
}

#[test]
fn waiting_writer_of_the_process_comes_first() {
    let fleet = Fleet::new(1);
    let reader = fleet.read(0).unwrap();
    let mut writer = fleet.begin(fleet.request(0).wait(60 * SECOND));
    let mut late = fleet.begin(fleet.request(0).shared().wait(60 * SECOND));
    assert!(!late.is_finished() && is_held(fleet.read(0)));
    fleet.clock.advance(20 * SECOND);
    assert!(!late.is_finished(), "a renewal lets no reader past it");

    drop(reader);
    fleet.clock.advance(20 * MS);

    drop(writer.take().expect("it is first").unwrap());
    fleet.clock.advance(20 * MS);
    assert!(late.take().expect("it is next").is_ok());
}

#[test]
fn waiting_readers_come_together() {
    let fleet = Fleet::new(2);
    let writer = fleet.write(0).unwrap();
    let wait = |process: usize| fleet.begin(fleet.request(process).shared().wait(60 * SECOND));
    let mut readers: Vec<_> = (0..8).map(|i| wait(i % 2)).collect();

    drop(writer);
    fleet.clock.advance(50 * MS);

    let held: Vec<_> = readers.iter_mut().map(|reader| reader.take().unwrap().unwrap()).collect();
    assert!(held.iter().all(Lock::is_valid));
}

#[test]
fn tokens_order_writers_and_readers() {
    let fleet = Fleet::new(2);
    let mut last = 0;
    for round in 0..20 {
        let writer = fleet.write(round % 2).unwrap();
        let token = writer.fencing_token().get();
        assert!(token > last, "round {round}");
        drop(writer);
        fleet.clock.settle();

        let (one, two) = (fleet.read(0).unwrap(), fleet.read(1).unwrap());
        for reader in [&one, &two] {
            assert!(reader.fencing_token().get() >= token, "round {round}");
        }
        last = one.fencing_token().get().max(two.fencing_token().get());
        drop((one, two));
        fleet.clock.advance(MS);
    }
}

#[test]
fn downgrade_lets_readers_in_and_no_writer() {
    let fleet = Fleet::new(3);
    let writer = fleet.write(0).unwrap();
    let (token, context) = (writer.fencing_token(), writer.context());
    let mut other_writer = fleet.begin(fleet.request(1).wait(60 * SECOND));
    let wait = |process: usize| fleet.begin(fleet.request(process).shared().wait(60 * SECOND));
    let mut readers = [wait(0), wait(2)];

    let reader = fleet.downgrade(writer).unwrap();
    fleet.clock.advance(20 * MS);

    assert!(reader.is_shared() && reader.fencing_token() >= token);
    assert!(context.ensure_valid().is_err(), "it is exclusive no more");
    let joined = readers[0].take().expect("its process holds the lease").unwrap();
    assert!(!other_writer.is_finished());
    fleet.clock.advance(30 * SECOND);
    assert!(reader.is_valid() && joined.is_valid(), "it is renewed");
    drop((reader, joined));
    fleet.clock.advance(50 * MS);
    if let Some(other) = readers[1].take() {
        drop(other.unwrap());
        fleet.clock.advance(50 * MS);
    }
    let other_writer = other_writer.take().expect("its turn has come").unwrap();
    assert!(other_writer.fencing_token() > token);
}

#[test]
fn downgraded_lock_is_shared_by_waiting_readers() {
    let fleet = Fleet::new(2);
    let writer = fleet.write(0).unwrap();
    let mut elsewhere = fleet.begin(fleet.request(1).shared().wait(60 * SECOND));

    let reader = fleet.downgrade(writer).unwrap();
    fleet.clock.advance(20 * MS);

    let elsewhere = elsewhere.take().expect("it may join").unwrap();
    assert!(reader.is_valid() && elsewhere.is_valid());
    let same = fleet.downgrade(reader).unwrap();
    assert!(same.is_valid() && same.is_shared());
}

#[test]
fn downgrade_is_a_renewal() {
    let fleet = Fleet::new(2);
    let writer = fleet.write(0).unwrap();
    let validity = writer.remaining();
    fleet.nodes.stop([0, 1, 2]);

    let reader = fleet.downgrade(writer).unwrap();
    let joined = fleet.read(0).unwrap();

    assert!(reader.is_valid() && joined.remaining() == reader.remaining());
    fleet.clock.advance(validity / 2);
    fleet.nodes.start([0, 1, 2]);
    fleet.clock.advance(SECOND);
    assert!(reader.remaining() > validity / 2, "it is renewed once the nodes answer");
    assert!(is_held(fleet.write(1)) && fleet.read(1).is_ok());
    drop((reader, joined));
    fleet.clock.advance(SECOND);
    assert_eq!(fleet.nodes.key_counts(), [0, 0, 0]);
}

#[test]
fn downgrade_without_nodes_ends_with_its_validity() {
    let fleet = Fleet::new(2);
    let writer = fleet.write(0).unwrap();
    fleet.nodes.stop([0, 1]);

    let reader = fleet.downgrade(writer).unwrap();
    let mut lost = fleet.clock.spawn(reader.lost());
    fleet.clock.advance(11 * SECOND);

    assert!(matches!(lost.take(), Some(LossCause::Expired { .. })) && !reader.is_valid());
    drop(reader);
    fleet.nodes.start([0, 1]);
    fleet.clock.advance(SECOND);
    assert!(fleet.write(1).is_ok());
}

/// One node does not answer, and another one has the mark of a writer, which its shared leases refused.
#[test]
fn downgrade_beside_a_mark_holds() {
    let fleet = Fleet::new(3);
    let reader = fleet.read(0).unwrap();
    let mut writer = fleet.begin(fleet.request(1).wait(60 * SECOND));
    fleet.clock.advance(5 * MS);
    fleet.nodes.stop([0]);
    drop(reader);
    fleet.clock.advance(20 * MS);
    let writer = writer.take().expect("a quorum is free").unwrap();
    fleet.nodes.start([0]);
    let other = fleet.begin(fleet.request(2).wait(60 * SECOND));
    fleet.clock.advance(5 * MS);
    fleet.nodes.stop([2]);

    let reader = fleet.downgrade(writer).unwrap();
    fleet.clock.advance(20 * SECOND);

    assert!(reader.is_valid(), "renewed on the other nodes");
    drop(other);
}

#[test]
fn downgraded_lease_is_released_everywhere() {
    let fleet = Fleet::new(2);
    let writer = fleet.write(0).unwrap();
    fleet.nodes.freeze([0, 1, 2]);
    let reader = fleet.downgrade(writer).unwrap();
    drop(reader);
    fleet.clock.settle();
    fleet.nodes.thaw([0, 1, 2]);
    fleet.clock.advance(SECOND);

    assert_eq!(fleet.nodes.key_counts(), [0, 0, 0]);
    assert!(fleet.write(1).is_ok());
}

#[test]
fn lost_lock_is_not_downgraded() {
    let fleet = Fleet::new(1);
    let writer = fleet.now(fleet.request(0).max_hold(2 * SECOND)).unwrap();
    fleet.clock.advance(3 * SECOND);

    let downgraded = fleet.downgrade(writer);

    assert!(matches!(downgraded, Err(LockError::Lost { .. })));
}

#[test]
fn locks_that_cannot_be_shared_are_not_downgraded() {
    let fleet = Fleet::new(1);
    let redlock = &fleet.processes[0];
    for (request, what) in [
        (redlock.lock(["a", "b"]), "a set of names"),
        (redlock.lock("c").slots(2), "a slot"),
        (redlock.lock("d").auto_extend(false), "auto_extend(false)"),
    ] {
        let lock = fleet.now(request).unwrap();
        let refused = fleet.downgrade(lock).unwrap_err();
        assert!(refused.to_string().contains(what), "{refused}");
    }
}

#[test]
fn reader_that_waits_is_let_in_once_the_writer_leaves() {
    let fleet = Fleet::new(1);
    let reader = fleet.read(0).unwrap();
    let writer = fleet.begin(fleet.request(0).wait(SECOND));
    let mut late = fleet.begin(fleet.request(0).shared().wait(60 * SECOND));
    assert!(!late.is_finished(), "the writer comes first");

    fleet.clock.advance(SECOND);
    assert!(writer.is_finished(), "its wait is over");
    fleet.clock.settle();

    assert!(late.take().expect("no writer waits").is_ok());
    assert!(reader.is_valid());
}

#[test]
fn reader_that_waits_is_let_in_by_a_renewal() {
    let fleet = Fleet::new(1);
    let reader = fleet.read(0).unwrap();
    fleet.nodes.stop([0, 1, 2]);
    fleet.clock.advance(6 * SECOND);
    assert!(reader.is_valid());
    let mut late = fleet.begin(fleet.request(0).shared().wait(60 * SECOND));
    assert!(!late.is_finished(), "less than half of the validity is left");

    fleet.nodes.start([0, 1, 2]);
    fleet.clock.advance(2 * SECOND);

    assert!(late.take().expect("the lease is renewed").is_ok());
    assert!(reader.is_valid());
}

#[test]
fn lease_is_shared_again_once_no_writer_asks() {
    let fleet = Fleet::new(2);
    let reader = fleet.read(0).unwrap();
    let mut writer = fleet.begin(fleet.request(1).wait(5 * SECOND));
    fleet.clock.advance(5 * MS);
    let mut late = fleet.begin(fleet.request(0).shared().wait(60 * SECOND));

    // The writer repeats its attempts, and so asks again.
    fleet.clock.advance(4 * SECOND);
    assert!(!late.is_finished() && !writer.is_finished() && is_held(fleet.read(0)));
    fleet.clock.advance(SECOND);
    assert!(is_held(writer.take().expect("its wait is over")));
    fleet.clock.advance(2 * SECOND);

    assert!(late.take().expect("no writer waits").is_ok());
    assert!(reader.is_valid() && fleet.read(0).is_ok());
}

#[test]
fn readers_with_another_ttl_have_their_turn() {
    let fleet = Fleet::new(1);
    let reader = fleet.read(0).unwrap();
    let mut other = fleet.begin(fleet.request(0).shared().ttl(5 * SECOND).wait(60 * SECOND));

    let reader = fleet.read_on(reader);

    assert!(is_held(fleet.read(0)), "the other reader waits for a gap");
    drop(reader);
    fleet.clock.advance(20 * MS);
    assert!(other.take().expect("its turn has come").is_ok());
}

#[test]
fn writer_that_retries_rarely_is_remembered() {
    let mut fleet = Fleet::new(0);
    let slow = fleet.nodes.replica("slow").builder().retry_delay(10 * SECOND..=20 * SECOND);
    let (slow, readers) = (slow.build().unwrap(), fleet.nodes.replica("readers"));
    fleet.processes = vec![slow, readers.redlock(), fleet.nodes.replica("others").redlock()];
    let reader = fleet.read(1).unwrap();
    let mut writer = fleet.begin(fleet.request(0).wait(60 * SECOND));

    for second in 1..8 {
        fleet.clock.advance(SECOND);
        assert!(is_held(fleet.read(2)), "after {second} s");
    }
    drop(reader);
    fleet.clock.advance(20 * MS);

    assert!(writer.take().expect("it was woken").is_ok());
}

/// What the tasks of a fleet do at this moment.
#[derive(Default)]
struct Now {
    readers: usize,
    writers: usize,
    most_readers: usize,
    grants: BTreeMap<(usize, bool), u32>,
    /// Number of turns of the writers, and of the readers. A turn is all grants of a process to its
    /// writers, one after the other, or all readers between two writers.
    turns: [u32; 2],
    /// The last process, and whether it reads.
    last: Option<(usize, bool)>,
    /// The longest wait of a writer, and of a reader, and the greatest number of turns of the others
    /// meanwhile.
    longest: [Duration; 2],
    passed: [u32; 2],
}

impl Now {
    /// Records a grant, after `before` turns of the other side at the request.
    fn granted(&mut self, process: usize, reads: bool, (before, waited): (u32, Duration)) {
        if reads {
            self.readers += 1;
        } else {
            self.writers += 1;
        }
        assert!(self.writers == 0 || self.readers == 0, "a reader beside a writer");
        assert!(self.writers <= 1, "two writers");
        self.most_readers = self.most_readers.max(self.readers);
        *self.grants.entry((process, reads)).or_default() += 1;
        let is_same = self.last.is_some_and(|last| last == (process, reads) || (reads && last.1));
        self.turns[usize::from(reads)] += u32::from(!is_same);
        self.last = Some((process, reads));
        let side = usize::from(reads);
        self.longest[side] = waited.max(self.longest[side]);
        self.passed[side] = self.passed[side].max(self.turns[1 - side] - before);
    }

    fn turns_of_others(&self, reads: bool) -> u32 {
        self.turns[usize::from(!reads)]
    }
}

/// Tasks of each process read and write again and again, for the same time or for random ones.
fn contend(fleet: &Fleet, seconds: u32, is_steady: bool) -> Arc<Mutex<Now>> {
    let now = Arc::<Mutex<Now>>::default();
    let mut tasks = Vec::new();
    for (process, redlock) in fleet.processes.iter().enumerate() {
        for task in 0..4_u32 {
            let (redlock, now) = (redlock.clone(), Arc::clone(&now));
            let clock = fleet.clock.clone();
            let reads = task > 0;
            let mut random = fleet.seed * 100 + process as u64 * 10 + u64::from(task);
            let mut time = move || {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let random = MS * u32::try_from((random >> 33) % 20).unwrap();
                if is_steady { MS * (2 + 3 * task) } else { random }
            };
            tasks.push(fleet.clock.spawn(async move {
                for round in 0.. {
                    let options = LockOptions::new().wait(600 * SECOND).shared(reads);
                    let asked = redlock_now(&clock);
                    let before = now.lock().unwrap().turns_of_others(reads);
                    let lock = redlock.lock("report").options(options).await.unwrap();
                    let waited = redlock_now(&clock).saturating_sub(asked);
                    now.lock().unwrap().granted(process, reads, (before, waited));
                    clock.sleep(time()).await;
                    {
                        let mut now = now.lock().unwrap();
                        if reads { now.readers -= 1 } else { now.writers -= 1 }
                    }
                    if reads || round % 2 == 0 {
                        drop(lock);
                    } else {
                        let lock = lock.downgrade().unwrap();
                        now.lock().unwrap().readers += 1;
                        assert_eq!(now.lock().unwrap().writers, 0, "a reader beside a writer");
                        clock.sleep(MS).await;
                        now.lock().unwrap().readers -= 1;
                        drop(lock);
                    }
                    clock.sleep(if is_steady { MS } else { MS + time() / 8 }).await;
                }
            }));
        }
    }
    fleet.clock.advance(SECOND * seconds);
    now
}

fn redlock_now(clock: &ManualClock) -> Duration {
    use tower_redlock::time::Clock;
    Duration::from_nanos(clock.now().as_nanos())
}

#[test]
fn neither_side_starves() {
    for (seed, is_steady) in (0..8).flat_map(|seed| [(seed, true), (seed, false)]) {
        let fleet = Fleet::with_seed(3, seed);

        let now = contend(&fleet, 4, is_steady);

        let now = now.lock().unwrap();
        println!(
            "seed {seed}: {:?}, {:?} turns, waits {:?}, for {:?} turns, {} readers",
            now.grants, now.turns, now.longest, now.passed, now.most_readers
        );
        assert!(now.most_readers > 3, "seed {seed}: readers of several processes");
        assert_eq!(now.grants.len(), 6, "seed {seed}: {:?}", now.grants);
        // With random times, 64 seeds had at most 5 turns of readers and 8 of writers.
        let most = if is_steady { 4 } else { 12 };
        assert!(now.passed.iter().all(|passed| *passed <= most), "seed {seed}: {:?}", now.passed);
    }
}

#[test]
fn bad_shared_requests_are_refused() {
    let fleet = Fleet::new(1);
    let refusal = |request: LockRequest| fleet.now(request).unwrap_err().to_string();
    let request = || fleet.request(0).shared();

    for (request, reason) in [
        (fleet.processes[0].lock(["a", "b"]).shared(), "on one name, not on a set"),
        (request().slots(2), "slots does not apply"),
        (request().linger(SECOND), "linger does not apply"),
        (request().auto_extend(false), "auto_extend(false) does not apply"),
    ] {
        let refused = refusal(request);
        assert!(refused.contains(reason), "{refused}");
    }
}

/// Runs work under a shared lock of process 0, which then makes the request that `inner` returns.
fn within(
    fleet: &Fleet,
    outer: LockRequest,
    inner: impl FnOnce(&Redlock) -> LockRequest + Send + 'static,
) -> Task<Result<Result<(), LockError>, LockError>> {
    let (redlock, clock) = (fleet.processes[0].clone(), fleet.clock.clone());
    let task = fleet.clock.spawn(async move {
        let work = outer.run(|_| async move {
            clock.sleep(50 * MS).await;
            inner(&redlock).await.map(drop)
        });
        work.await
    });
    fleet.clock.settle();
    task
}

#[test]
fn reader_within_a_reader_joins_beside_a_waiting_writer() {
    for writing_process in [0, 1] {
        let fleet = Fleet::new(2);
        let mut outer = within(&fleet, fleet.request(0).shared(), |redlock| {
            redlock.lock("report").shared().wait(60 * SECOND)
        });
        let mut writer = fleet.begin(fleet.request(writing_process).wait(60 * SECOND));
        fleet.clock.advance(20 * MS);
        assert!(is_held(fleet.read(0)), "the writer keeps others out");

        fleet.clock.advance(100 * MS);

        assert!(outer.take().expect("it has ended").unwrap().is_ok());
        assert!(writer.take().expect("its turn has come").is_ok());
    }
}

#[test]
fn work_that_waits_for_itself_fails_at_once() {
    for (outer_shares, inner_shares) in [(true, false), (false, true), (false, false)] {
        let fleet = Fleet::new(1);
        let options = |shares| LockOptions::new().wait(60 * SECOND).shared(shares);
        let outer = fleet.request(0).options(options(outer_shares));
        let mut work = within(&fleet, outer, move |redlock| {
            redlock.lock("report").options(options(inner_shares))
        });
        fleet.clock.advance(100 * MS);

        let refused = work.take().expect("it does not wait").unwrap().unwrap_err();

        let shown = refused.to_string();
        assert!(matches!(refused, LockError::InvalidRequest(_)), "{shown}");
        assert!(shown.contains("\"report\" and would wait for its own end"), "{shown}");
    }
}

#[test]
fn work_that_holds_all_slots_fails_at_once() {
    for (slots, is_refused) in [(1, true), (2, false)] {
        let fleet = Fleet::new(1);
        let mut work = within(&fleet, fleet.request(0).slots(slots), move |redlock| {
            redlock.lock("report").slots(slots).wait(60 * SECOND)
        });
        fleet.clock.advance(100 * MS);

        let inner = work.take().expect("it does not wait").unwrap();

        let is_named = |error: LockError| error.to_string().contains("would wait for its own end");
        assert_eq!(inner.is_err_and(is_named), is_refused, "{slots} slots");
    }
}

#[test]
fn request_of_another_task_may_wait_for_the_work() {
    let fleet = Fleet::new(1);
    let (redlock, clock) = (fleet.processes[0].clone(), fleet.clock.clone());
    let inner = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&inner);
    let outer = fleet.request(0);
    let mut work = fleet.clock.spawn(async move {
        let work = outer.run(|_| async move {
            let request = redlock.lock("report").wait(60 * SECOND).into_future();
            *kept.lock().unwrap() = Some(clock.spawn(request));
            clock.sleep(50 * MS).await;
        });
        work.await
    });
    fleet.clock.advance(20 * MS);
    assert!(inner.lock().unwrap().as_ref().is_some_and(|task| !task.is_finished()));

    fleet.clock.advance(100 * MS);

    assert!(work.take().expect("it has ended").is_ok());
    let task = inner.lock().unwrap().take();
    assert!(task.and_then(|mut task| task.take()).expect("it is granted").is_ok());
}

#[test]
fn end_of_a_readers_max_hold_is_an_event() {
    let fleet = Fleet::new(1);
    let mut events = fleet.processes[0].events();
    let long = fleet.read(0).unwrap();
    let short = fleet.now(fleet.request(0).shared().max_hold(SECOND)).unwrap();

    fleet.clock.advance(2 * SECOND);

    assert!(long.is_valid() && !short.is_valid());
    let mut lost = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let LockEventKind::Lost { cause, shared, .. } = event.kind {
            lost.push((cause, shared));
        }
    }
    assert_eq!(lost, [(LossCause::MaxHold { limit: SECOND }, true)]);
}

/// Returns the time in which this number of readers of a process, which waited for a writer, come and
/// leave.
fn time_of_readers(readers: usize) -> Duration {
    let mut fleet = Fleet::new(0);
    let many = fleet.nodes.replica("many").builder().max_waiters(readers);
    fleet.processes = vec![many.max_waiters_in_total(readers).build().unwrap()];
    let writer = fleet.write(0).unwrap();
    let request = || fleet.request(0).shared().wait(60 * SECOND).into_future();
    let mut waiting: Vec<_> = (0..readers).map(|_| fleet.clock.spawn(request())).collect();
    fleet.clock.settle();

    let start = Instant::now();
    drop(writer);
    fleet.clock.advance(20 * MS);
    let come = waiting.iter_mut().map(|task| task.take().expect("all come together").unwrap());
    let mut held: Vec<_> = come.collect();
    while held.len() > 1 {
        // In any order.
        drop(held.swap_remove(held.len() / 2));
    }
    let time = start.elapsed();
    assert!(held[0].is_valid());
    time
}

#[test]
fn many_readers_of_a_process_come_and_go() {
    // Eight times as many take about eight times as long, and sixty-four times if each looks at all others.
    let ratio = || time_of_readers(16_000).as_secs_f64() / time_of_readers(2_000).as_secs_f64();

    let least = (0..3).map(|_| ratio()).fold(f64::MAX, f64::min);

    assert!(least < 25.0, "eight times as many readers take {least:.1} times as long");
}
