//! Contexts without a scheduler or a leader.

use std::{future::Future, pin::pin, time::Duration};

use tower_redlock::{
    error::LossCause,
    schedule::WallTime,
    testing::{ManualClock, job_context, term},
    time::Clock as _,
};

fn is_ready(future: impl Future) -> bool {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    pin!(future).poll(&mut cx).is_ready()
}

#[test]
fn job_context_is_as_described() {
    let plain = job_context().build().context();
    assert_eq!((plain.job(), plain.attempt(), plain.is_triggered()), ("test", 1, false));
    assert_eq!(
        (plain.lateness(), plain.resource().to_string()),
        (Duration::ZERO, "job:test".into())
    );
    let tick = WallTime::from_millis(7_000);
    let late = Duration::from_secs(3);
    let run = job_context().job("report").tick(tick).lateness(late).attempt(4).triggered().build();
    let cx = run.context();
    assert_eq!((cx.job(), cx.tick(), cx.attempt()), ("report", tick, 4));
    assert!(cx.is_triggered() && cx.fencing_token().get() > 0);
    assert_eq!((cx.lateness(), WallTime::from(cx.scheduled_at())), (late, tick));
}

#[test]
fn lock_follows_clock_and_is_renewed() {
    let clock = ManualClock::new();
    let run = job_context().clock(&clock).build();
    assert_eq!(run.context().tick(), WallTime::since_epoch(clock.wall()));
    clock.advance(Duration::from_secs(60));
    run.context().ensure_valid().unwrap();
}

#[test]
fn stop_and_loss_reach_work() {
    let run = job_context().build();
    let cx = run.context();
    assert!(!is_ready(cx.stopping()));
    run.ask_to_stop();
    assert!(is_ready(cx.stopping()));
    cx.ensure_valid().unwrap();
    run.lose();
    let error = cx.ensure_valid().unwrap_err();
    assert!(error.to_string().contains(&LossCause::Released.to_string()), "{error}");
}

#[test]
fn term_has_begun_and_can_end() {
    let under = term();
    let term = under.context();
    assert_eq!(WallTime::from(term.started()), WallTime::since_epoch(ManualClock::new().wall()));
    term.heartbeat();
    term.ensure_valid().unwrap();
    drop(under);
    assert!(term.ensure_valid().is_err() && is_ready(term.stopping()));
}
