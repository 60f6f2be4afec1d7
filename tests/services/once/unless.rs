//! Work whose end is known from the user's own database.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use tower_redlock::{
    LockContext,
    once::{Once, OnceError, UnknownOutcome},
};

use super::fixture::{Fixture, HOUR, KEY, TTL, assert_done_by, assert_ran};

#[test]
fn done_check_is_recorded() {
    let fixture = Fixture::new(3);
    let ask = |answer: Result<bool, &'static str>| {
        let runs = fixture.runs.clone();
        let request = fixture.at_blue.once(KEY).unless(move |cx: LockContext| async move {
            cx.ensure_valid().expect("under the lock");
            answer
        });
        request.run(|_| async move { Ok(runs.run()) }).now_or_never().expect("at once")
    };
    assert_eq!(ask(Err("no connection")), Err(OnceError::Work("no connection")));
    let found = ask(Ok(true));
    assert_done_by(&found, "blue");
    let Ok(Once::AlreadyDone { remaining, .. }) = found else { panic!() };
    assert_eq!((remaining, fixture.runs.count()), (96 * HOUR, 0));
    // The next one need not ask the database.
    assert_done_by(&ask(Err("no connection")), "blue");
    assert_done_by(&fixture.green_does(), "blue");
}

#[test]
fn error_of_the_check_frees_the_key() {
    for unknown in [UnknownOutcome::Release, UnknownOutcome::Hold(HOUR)] {
        let fixture = Fixture::new(3);
        let request = fixture.at_blue.once(KEY).unknown(unknown);
        let request = request.unless(|_| async { Err::<bool, _>("no connection") });
        let ended = request.run(|_| async { Ok::<(), _>(()) }).now_or_never().expect("at once");
        assert_eq!(ended, Err(OnceError::Work("no connection")));
        assert_ran(&fixture.green_does(), 1);
    }
}

#[test]
fn failed_check_lets_work_run() {
    let fixture = Fixture::new(3);
    let runs = fixture.runs.clone();
    let request = fixture.at_blue.once(KEY).unless(|_| async { Ok(false) });
    let ended = request.run(|_| async move { Ok(runs.run()) }).now_or_never().expect("at once");
    assert_ran(&ended, 1);
    assert_done_by(&fixture.green_does(), "blue");
}

/// The table of the documentation: the check writes its token, which the work needs.
#[derive(Clone, Debug, Default)]
struct Table(Arc<Mutex<(u64, bool, usize)>>);

impl Table {
    fn check(&self, token: u64) -> bool {
        let mut row = self.0.lock().unwrap();
        row.0 = row.0.max(token);
        row.1
    }

    fn commit(&self, token: u64) -> Result<(), &'static str> {
        let mut row = self.0.lock().unwrap();
        if row.0 != token || row.1 {
            return Err("rolled back");
        }
        row.1 = true;
        row.2 += 1;
        Ok(())
    }
}

/// The pattern holds where the lock alone does not: a holder pauses between its check and its
/// transaction, and another does it meanwhile.
#[test]
fn effect_survives_a_paused_holder() {
    let fixture = Fixture::new(3);
    let table = Table::default();
    let request = |redlock: &tower_redlock::Redlock| {
        let table = table.clone();
        redlock.once(KEY).unless(move |cx: LockContext| async move {
            Ok::<_, &str>(table.check(cx.fencing_token().get()))
        })
    };
    let retry = request(&fixture.at_green);
    let (clock, of_green, of_blue) = (fixture.clock.clone(), table.clone(), table.clone());
    let frozen = request(&fixture.at_blue).run(|cx| async move {
        clock.leap(TTL);
        let retry = retry.run(|cx| async move { of_green.commit(cx.fencing_token().get()) });
        let retry = retry.now_or_never().expect("at once");
        assert!(matches!(retry, Ok(Once::Ran(()))), "{retry:?}");
        of_blue.commit(cx.fencing_token().get())
    });
    let ended = frozen.now_or_never().expect("at once");
    assert_eq!(ended, Err(OnceError::Work("rolled back")));
    assert_eq!(table.0.lock().unwrap().2, 1);
    assert_done_by(&fixture.does(fixture.at_blue.once(KEY)), "green");
}

/// A crash between the transaction and the record: the check finds it.
#[test]
fn check_finds_unrecorded_work() {
    let fixture = Fixture::new(3);
    let table = Table::default();
    let (of_blue, nodes) = (table.clone(), fixture.nodes.clone());
    let request = |table: &Table| {
        let table = table.clone();
        fixture.at_blue.once(KEY).unless(move |cx: LockContext| async move {
            Ok::<_, &str>(table.check(cx.fencing_token().get()))
        })
    };
    let run = request(&table).run(|cx| async move {
        of_blue.commit(cx.fencing_token().get())?;
        nodes.stop(0..3);
        Ok(())
    });
    assert!(run.now_or_never().is_none(), "it is dropped before a node has its record");
    fixture.nodes.start(0..3);
    fixture.clock.advance(TTL);
    let of_retry = table.clone();
    let retry = request(&table).run(|cx| async move { of_retry.commit(cx.fencing_token().get()) });
    assert_done_by(&retry.now_or_never().expect("at once"), "blue");
    assert_eq!(table.0.lock().unwrap().2, 1);
}
