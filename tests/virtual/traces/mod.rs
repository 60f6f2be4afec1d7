//! The names and fields of spans and events, which `docs/observability.md` lists.

mod documented;
pub(crate) mod recorder;
mod rejections;

use std::collections::BTreeSet;

use tower_redlock::{Job, Lock, LockError, LockRequest, Schedule, Scheduler};

use self::{
    documented::{Row, rows, sent_by_source},
    recorder::{Recorder, Sent},
};
use crate::{
    durations::{HOUR, SECOND},
    fixture::Fixture,
};

fn fixture() -> Fixture<2> {
    Fixture::new(3, ["a", "b"])
}

fn request(fixture: &Fixture<2>, process: usize, slots: Option<u32>) -> LockRequest {
    let request = fixture.request(process);
    if let Some(slots) = slots { request.slots(slots) } else { request }
}

fn attempt(fixture: &Fixture<2>, process: usize, slots: Option<u32>) -> Result<Lock, LockError> {
    fixture.done(request(fixture, process, slots))
}

/// The only span since the last call, with the documented fields.
#[track_caller]
fn only_span(sent: &Recorder) -> Sent {
    let mut spans = sent.take_spans();
    let span = spans.pop().expect("a span was recorded");
    assert!(spans.is_empty(), "one span for each request: {spans:?}");
    let row = rows("## Spans")
        .into_iter()
        .find(|row| row.name == span.name)
        .expect("the span is documented");
    assert_eq!((&row.level, &row.fields), (&span.level, &span.fields));
    span
}

/// The values of fields that must be recorded.
#[track_caller]
fn values<const N: usize>(span: &Sent, fields: [&str; N]) -> [String; N] {
    fields
        .map(|field| span.values.get(field).unwrap_or_else(|| panic!("{field}: {span:?}")).clone())
}

const ALWAYS: [&str; 5] = ["attempt", "elapsed", "outcome", "resource", "votes"];

#[test]
fn granted_request_has_token_and_votes() {
    Recorder::during(|sent| {
        let fixture = self::fixture();

        let lock = attempt(&fixture, 0, None).unwrap();

        let span = only_span(sent);
        let token = lock.fencing_token().to_string();
        assert_eq!(
            values(&span, ["resource", "attempt", "votes", "outcome", "token"]),
            ["report", "1", "3 of 3", "acquired", &token]
        );
        assert!(!span.values.contains_key("error") && !span.values.contains_key("slots"));
        values(&span, ALWAYS);
    });
}

#[test]
fn refused_request_has_outcome_and_error() {
    Recorder::during(|sent| {
        let fixture = self::fixture();
        let _held = attempt(&fixture, 0, None).unwrap();
        sent.take_spans();

        let error = attempt(&fixture, 1, None).unwrap_err();

        let span = only_span(sent);
        assert_eq!(values(&span, ["outcome", "error"]), ["held", &error.to_string()]);
        assert!(!span.values.contains_key("token"));
    });
}

#[test]
fn slot_request_is_one_span() {
    Recorder::during(|sent| {
        let fixture = self::fixture();
        let lock = attempt(&fixture, 0, Some(1)).unwrap();
        let span = only_span(sent);
        let token = lock.fencing_token().to_string();
        assert_eq!(
            values(&span, ["resource", "slots", "attempt", "votes", "outcome", "token"]),
            ["report", "1", "1", "3 of 3", "acquired", &token]
        );
        values(&span, ALWAYS);
        let error = attempt(&fixture, 1, Some(1)).unwrap_err();
        let span = only_span(sent);
        let [outcome, text, attempt] = values(&span, ["outcome", "error", "attempt"]);
        assert_eq!((&*outcome, text, &*attempt), ("held", error.to_string(), "1"));
    });
}

#[test]
fn waiting_slot_request_counts_its_attempts() {
    Recorder::during(|sent| {
        let fixture = self::fixture();
        let held = attempt(&fixture, 0, Some(1)).unwrap();
        sent.take_spans();

        let mut waiting = fixture.spawn(request(&fixture, 1, Some(1)).wait(HOUR));
        drop(held);
        fixture.clock.advance(SECOND);

        assert!(waiting.take().expect("the waiter is granted the slot").is_ok());
        let span = only_span(sent);
        let [outcome, attempt] = values(&span, ["outcome", "attempt"]);
        assert_eq!((&*outcome, &*attempt), ("acquired", "2"));
    });
}

#[test]
fn request_without_a_quorum_names_the_votes() {
    Recorder::during(|sent| {
        let fixture = self::fixture();
        fixture.nodes.stop(0..3);

        for slots in [None, Some(2)] {
            let mut request = fixture.spawn(request(&fixture, 0, slots));
            fixture.clock.advance(10 * SECOND);
            let error = request.take().expect("the request has ended").unwrap_err();

            let LockError::NoQuorum { votes } = &error else { panic!("{error}") };
            let [outcome, said] = values(&only_span(sent), ["outcome", "votes"]);
            assert_eq!((&*outcome, said), ("no_quorum", votes.to_string()));
        }
    });
}

#[test]
fn run_of_a_job_is_a_span() {
    Recorder::during(|sent| {
        let fixture = self::fixture();
        let job = Job::new("report", Schedule::every(HOUR), |_| async {});
        let _jobs = Scheduler::new(fixture.processes[0].clone()).job(job).start().unwrap();

        fixture.clock.advance(HOUR + SECOND);

        let mut spans = sent.take_spans();
        spans.retain(|span| span.name == "job");
        let span = spans.pop().expect("a span was recorded");
        let row = rows("## Spans")
            .into_iter()
            .find(|row| row.name == "job")
            .expect("the span is documented");
        assert_eq!((&row.level, &row.fields), (&span.level, &span.fields));
        let [job, attempt, outcome] = values(&span, ["job", "attempt", "outcome"]);
        assert_eq!((&*job, &*attempt, &*outcome), ("report", "1", "finished"));
        values(&span, ["tick", "token"]);
    });
}

#[test]
fn documented_events_are_sent_with_their_fields() {
    Recorder::during(|sent| {
        let fixture = self::fixture();
        let Fixture { clock, nodes, processes: [redlock, _] } = &fixture;
        let fails = |_| async { Err::<(), _>("on purpose") };
        let jobs = Scheduler::new(redlock.clone())
            .job(Job::new("good", Schedule::every(HOUR), |_| async {}))
            .job(Job::new("bad", Schedule::every(HOUR), fails))
            .start()
            .unwrap();
        let leader = redlock.leader("main");
        let _leading = clock.spawn(leader.run(|_| std::future::pending::<()>()));
        clock.advance(HOUR + SECOND);
        let held = attempt(&fixture, 0, None).unwrap();
        attempt(&fixture, 1, None).unwrap_err();
        clock.advance(10 * SECOND);
        let work = redlock.lock("work").run(|_| std::future::pending::<()>());
        let _work = clock.spawn(work);
        clock.settle();
        nodes.stop(0..3);
        clock.advance(HOUR);
        drop((held, jobs));

        let mut known = sent_by_source();
        assert!(known.len() > 80, "{} events", known.len());
        let recorded: BTreeSet<_> = sent
            .events()
            .into_iter()
            .map(|Sent { level, name, fields, .. }| Row { level, name, fields })
            .collect();
        let documented = rows("## Events");
        // These are sent by the calls above, not only by the source.
        for name in [
            "acquired",
            "not acquired",
            "attempt failed",
            "renewed",
            "lock lost",
            "hard stop: guarded work was dropped",
            "elected",
            "leadership lost",
            "job finished",
            "job failed",
        ] {
            let row = documented.iter().find(|row| row.name == name);
            let row = row.unwrap_or_else(|| panic!("{name:?} is documented"));
            assert!(recorded.contains(row), "{row:?} of {recorded:#?}");
        }
        known.extend(recorded);
        assert!(documented.len() > 25, "{} rows", documented.len());
        for row in &documented {
            let same: Vec<_> = known.iter().filter(|event| event.name == row.name).collect();
            assert!(same.contains(&row), "documented: {row:#?}\nsent: {same:#?}");
        }
    });
}
