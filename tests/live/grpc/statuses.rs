//! Lock errors of a method that acquires its own lock are statuses too.

use std::{convert::Infallible, future::pending, time::Duration};

use tonic::{Code, Status};
use tower::{Layer, ServiceExt, service_fn};
use tower_redlock::{
    LockError, Redlock, RedlockLayer,
    error::{LossCause, Votes},
    layer,
    reject::{Rejection, RequestOutcome},
};

use crate::grpc::{
    orders::own_failure,
    site::{assert_lost, details},
};

/// A method that acquires its own lock, with a key from the message.
async fn method(redlock: &Redlock, work: Result<u32, Status>) -> Result<u32, Status> {
    Ok(redlock.lock("item:7").try_run(async |_| work).await?)
}

#[tokio::test]
async fn method_passes_own_and_lock_statuses() {
    let redlock = Redlock::embedded();
    assert_eq!(method(&redlock, Ok(7)).await.unwrap(), 7);
    let own = method(&redlock, Err(own_failure())).await.unwrap_err();
    assert_eq!((own.code(), own.details()), (Code::FailedPrecondition, &b"sold"[..]));
    let _lock = redlock.lock("item:7").await.unwrap();
    let held = method(&redlock, Ok(7)).await.unwrap_err();
    assert!(details(&held, Code::Aborted).retry_info().is_some());
}

#[test]
fn each_error_has_its_status() {
    let seconds = |n| Some(Duration::from_secs(n));
    let held = |retry_after| LockError::Held {
        retry_after,
        expires_in: Some(Duration::from_secs(10)),
        owner: Some("secret".into()),
        lingers: false,
        readers: 0,
        waiter: None,
        slots: Box::default(),
        votes: Votes::default(),
    };
    let too_slow = LockError::TooSlow {
        elapsed: Duration::ZERO,
        validity: Duration::ZERO,
        votes: Votes::default(),
    };
    let waited = LockError::WaitTimedOut { waited: Duration::ZERO, last: Box::new(held(None)) };
    let invalid = LockError::InvalidRequest("a ttl".into());
    let exact = Some(Duration::from_millis(1_300));
    for (error, code, delay) in [
        (held(exact), Code::Aborted, exact),
        (held(Some(Duration::ZERO)), Code::Aborted, seconds(1)),
        (held(None), Code::Aborted, seconds(1)),
        (waited, Code::Aborted, seconds(1)),
        (too_slow, Code::Unavailable, seconds(1)),
        (LockError::Closed, Code::Unavailable, seconds(1)),
        (LockError::NoRandomness("none".into()), Code::Unavailable, seconds(1)),
        (invalid, Code::Internal, None),
    ] {
        let status = Status::from(error.clone());
        let details = details(&status, code);
        assert_eq!(details.retry_info().and_then(|info| info.retry_delay), delay, "{error:?}");
        assert!(details.error_info().is_none(), "{error:?}");
        assert!(!status.message().contains("secret"), "{}", status.message());
    }

    let lost = LockError::Lost { cause: LossCause::Released };

    assert_lost(&layer::GuardError::<Status>::Lock(lost).into());
}

/// The outcome that an outer layer gets from a method with its own lock.
fn said_by(status: Status) -> Option<RequestOutcome> {
    RequestOutcome::of(&status.into_http::<tonic::body::Body>())
}

#[test]
fn lost_lock_status_has_unknown_outcome() {
    let lost = LockError::Lost { cause: LossCause::Released };
    assert_eq!(said_by(lost.into()), Some(RequestOutcome::Unknown));
    for other in [Status::from(LockError::Closed), Status::unknown("own"), own_failure()] {
        assert_eq!(said_by(other.clone()), None, "{other:?}");
    }
}

#[tokio::test]
async fn outcome_is_marked_for_outer_layers() {
    type Body = tonic::body::Body;
    let redlock = Redlock::embedded();
    let layer = RedlockLayer::new(redlock.clone(), |_: &http::Request<Body>| "7")
        .max_hold(Duration::from_millis(300))
        .grpc();
    let own = layer.clone().on_reject(|_: Rejection<'_>| Status::ok("own"));
    let stuck =
        service_fn(|_: http::Request<Body>| pending::<Result<http::Response<Body>, Infallible>>());
    let send = || http::Request::new(Body::empty());

    let lost = layer.layer(stuck).oneshot(send()).await.unwrap();

    assert_eq!(RequestOutcome::of(&lost), Some(RequestOutcome::Unknown));

    let lost = own.layer(stuck).oneshot(send()).await.unwrap();
    assert_eq!(RequestOutcome::of(&lost), Some(RequestOutcome::Unknown));

    let _lock = redlock.lock("7").await.unwrap();
    let held = layer.layer(stuck).oneshot(send()).await.unwrap();
    assert_eq!(RequestOutcome::of(&held), Some(RequestOutcome::Refused));
}
