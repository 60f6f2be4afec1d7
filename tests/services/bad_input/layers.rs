//! Settings of layers with which no request could run.

use std::{fmt::Debug, time::Duration};

use tower::Layer;
use tower_redlock::{
    LockError, LockOptions, OnceLayer, Redlock, RedlockLayer, key,
    layer::http::{RedlockHttp, Streamed},
    once::{
        UnknownOutcome,
        http::{Scope, ServerErrors},
    },
    reject::DefaultResponse,
};

use crate::log::Log;

const ZERO: Duration = Duration::ZERO;
/// Longer than any time that a server keeps a key.
const TOO_LONG: Duration = Duration::from_secs(200 * 366 * 24 * 3600);
const NEW: LockOptions = LockOptions::new();

/// The options of a lock that the manager refuses, and a part of its reason.
fn options() -> [(LockOptions, &'static str); 6] {
    [
        (NEW.ttl(Duration::from_secs(60)), "raise max_ttl"),
        (NEW.ttl(Duration::from_millis(1)), "clock drift"),
        (NEW.ttl(ZERO), "the TTL is zero"),
        (NEW.max_hold(ZERO), "max_hold is zero"),
        (NEW.max_attempts(0), "max_attempts is zero"),
        (NEW.slots(0), "slots"),
    ]
}

/// Asserts that the layer is refused, and that without `build` it is logged where the layer is used.
async fn assert_refused<L: Layer<()> + Debug>(
    layer: L,
    built: Result<L, LockError>,
    (kind, reason): (&str, &str),
) {
    let Err(LockError::InvalidRequest(why)) = &built else { panic!("{reason}: {built:?}") };
    assert!(why.contains(reason), "{why}");

    let log = Log::new();
    log.during(async { drop(layer.layer(())) }).await;

    let text = log.text();
    assert_eq!(log.count("ERROR"), 1, "{text}");
    assert!(text.contains(kind) && text.contains(reason), "{text}");
}

macro_rules! assert_refused {
    ($layer:expr, $expected:expr) => {
        assert_refused($layer, $layer.build(), $expected).await
    };
}

#[tokio::test]
async fn lock_options_that_the_manager_refuses() {
    let redlock = Redlock::embedded;
    for (options, reason) in options() {
        let lock = ("a RedlockLayer rejects every request", reason);
        let layer = RedlockLayer::new(redlock(), key::path_segment(0)).options(options);
        assert_refused!(layer.clone(), lock);
        assert_refused!(layer.clone().http(), lock);
        assert_refused!(layer.clone().grpc(), lock);

        let once = ("an OnceLayer rejects every request", reason);
        let layer = OnceLayer::new(redlock(), "hooks", key::path_segment(0)).options(options);
        assert_refused!(layer.clone(), once);
        assert_refused!(layer.clone().http(), once);
        assert_refused!(layer.clone().grpc(), once);
        let layer = OnceLayer::by_body(redlock(), "hooks", key::path_segment(0)).options(options);
        assert_refused!(layer.clone(), once);
        let layer = OnceLayer::idempotency(redlock(), "pay").scope(Scope::none()).options(options);
        assert_refused!(layer.clone(), once);
    }
}

#[tokio::test]
async fn options_that_do_not_apply_to_once() {
    let options = [NEW.slots(2), NEW.shared(true), NEW.linger(Duration::from_secs(1))];
    for options in options {
        let layer = OnceLayer::new(Redlock::embedded(), "hooks", key::path_segment(0));
        assert_refused!(layer.clone().options(options), ("layer=hooks", "does not apply"));
    }
}

#[tokio::test]
async fn times_of_records_out_of_range() {
    for time in [ZERO, TOO_LONG] {
        let layer = || OnceLayer::new(Redlock::embedded(), "hooks", key::path_segment(0));
        let unknown = UnknownOutcome::Hold(time);
        assert_refused!(layer().retain(time), ("an OnceLayer", "retain is"));
        assert_refused!(layer().unknown(unknown), ("an OnceLayer", "UnknownOutcome::Hold is"));
        let errors = ServerErrors::Hold(time);
        let expected = ("an OnceLayer", "ServerErrors::Hold is");
        assert_refused!(layer().http().server_errors(errors), expected);
        let layer = || OnceLayer::idempotency(Redlock::embedded(), "pay").scope(Scope::none());
        assert_refused!(layer().server_errors(errors), expected);
        let layer = || OnceLayer::by_body(Redlock::embedded(), "hooks", key::path_segment(0));
        assert_refused!(layer().server_errors(errors), expected);
    }
}

#[tokio::test]
async fn valid_layers_are_built_and_log_nothing() {
    let log = Log::new();
    let hold = UnknownOutcome::Hold(Duration::from_secs(1));
    let server_errors = ServerErrors::Hold(Duration::from_secs(1));

    log.during(async {
        let layer = RedlockLayer::new(Redlock::embedded(), key::path_segment(0)).http();
        let layer: RedlockLayer<_, RedlockHttp<DefaultResponse, Streamed>> = layer.build().unwrap();
        drop(layer.layer(()));
        let layer = OnceLayer::new(Redlock::embedded(), "hooks", key::path_segment(0));
        drop(layer.unknown(hold).http().server_errors(server_errors).build().unwrap().layer(()));
        let layer = OnceLayer::idempotency(Redlock::embedded(), "pay").scope(Scope::none());
        drop(layer.build().unwrap().layer(()));
    })
    .await;

    assert_eq!(log.text(), "");
}

#[test]
#[should_panic(expected = "body_timeout is zero")]
fn no_time_for_bodies_of_locked_requests() {
    let layer = RedlockLayer::new(Redlock::embedded(), key::path_segment(0)).http();
    let _ = layer.read_body_first(1).body_timeout(ZERO);
}

#[test]
#[should_panic(expected = "body_timeout is zero")]
fn no_time_for_bodies_with_keys() {
    let _ = OnceLayer::by_body(Redlock::embedded(), "hooks", key::json_pointer("/id"))
        .body_timeout(ZERO);
}

#[test]
#[should_panic(expected = "body_timeout is zero")]
fn no_time_for_bodies_of_payments() {
    let _ = OnceLayer::idempotency(Redlock::embedded(), "pay").body_timeout(ZERO);
}
