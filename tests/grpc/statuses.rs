//! Lock errors of a method that takes its lock by itself are statuses too.

use std::time::Duration;

use tonic::{Code, Status};
use tower_redlock::{LockError, LossCause, Redlock, Votes, guard};

use crate::{
    orders::own_failure,
    site::{assert_lost, details},
};

/// Of a lock that was asked for in a method, with a key from the message.
async fn method(redlock: &Redlock, work: Result<u32, Status>) -> Result<u32, Status> {
    Ok(redlock.lock("item:7").try_run(async |_| work).await?)
}

#[tokio::test]
async fn a_method_hands_on_its_own_status_and_those_of_its_lock() {
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
    assert_lost(&guard::Error::<Status>::Lock(lost).into());
}
