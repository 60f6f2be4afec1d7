//! Requests and errors at the fence, without a protocol.

use std::{convert::Infallible, task::Poll};

use tokio::task::yield_now;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_redlock::{
    FencingLayer, FencingToken,
    fencing::{FencingError, FencingServiceError, TokenError},
};
use tower_test::assert_request_eq;

use crate::fencing::fixture::{Write, fenced, layer, mocked, send, stale};

#[tokio::test]
async fn only_older_tokens_are_refused() {
    let (mut service, mut handle) = mocked(&layer());
    for token in [5, 5, 7, 7, 9] {
        let answer = send(&mut service, Write::new(["a"], token));
        assert_request_eq!(handle, Write::new(["a"], token)).send_response("done");
        assert_eq!(answer.await.unwrap(), "done");
        let late = send(&mut service, Write::new(["a"], token - 1)).await;
        assert_eq!(fenced(late.unwrap_err()), stale(token - 1, token));
        assert!(handle.poll_request().is_pending(), "the service was not called");
    }

    // Another resource has tokens of its own.
    let answer = send(&mut service, Write::new(["b"], 1));

    assert_request_eq!(handle, Write::new(["b"], 1)).send_response("done");
    assert_eq!(answer.await.unwrap(), "done");
}

#[tokio::test]
async fn clones_share_the_memory() {
    let layer = layer();
    let (mut first, mut handle) = mocked(&layer);
    let (mut second, _unused) = mocked(&layer.clone());
    let answer = send(&mut first, Write::new(["a"], 2));
    assert_request_eq!(handle, Write::new(["a"], 2)).send_response("done");
    answer.await.unwrap();
    let late = send(&mut second, Write::new(["a"], 1)).await;
    assert_eq!(fenced(late.unwrap_err()), stale(1, 2));
}

#[tokio::test]
async fn needs_a_usable_token_and_key() {
    let (mut service, mut handle) = mocked(&layer());
    let mut error = async |names: &[&'static str], token| {
        let write = Write { names: names.to_vec(), token };
        fenced(send(&mut service, write).await.unwrap_err())
    };

    let missing = error(&["a"], None).await;

    assert!(matches!(missing, FencingError::Token(TokenError::Missing(_))), "{missing}");

    for (token, text) in [
        (0, "the fencing token is zero: the lock's manager was built without fencing"),
        (1 << 53, "the fencing token is not below 2^53"),
        (u64::MAX, "the fencing token is not below 2^53"),
    ] {
        let invalid = error(&["a"], Some(token)).await;
        assert!(matches!(invalid, FencingError::Token(TokenError::Invalid(_))), "{invalid}");
        assert_eq!(invalid.to_string(), text);
    }
    let unnamed = error(&[], Some(1)).await;

    assert!(matches!(unnamed, FencingError::Key(_)), "{unnamed}");
    assert!(handle.poll_request().is_pending());

    // Nothing was remembered either.
    let answer = send(&mut service, Write::new(["a"], 1));
    assert_request_eq!(handle, Write::new(["a"], 1)).send_response("done");

    answer.await.unwrap();
}

#[tokio::test]
async fn unguarded_request_needs_no_token() {
    let (mut service, mut handle) = mocked(&layer());
    let answer = send(&mut service, Write { names: vec!["free"], token: None });
    let (_, respond) = handle.next_request().await.unwrap();
    respond.send_response("done");
    assert_eq!(answer.await.unwrap(), "done");
}

#[tokio::test]
async fn readiness_and_errors_pass_through() {
    let (mut service, mut handle) = mocked(&layer());
    handle.allow(0);
    assert!(service.poll_ready().is_pending());
    handle.allow(1);
    assert!(service.poll_ready().is_ready());
    let answer = service.call(Write::new(["a"], 1));
    assert!(service.poll_ready().is_pending(), "the one that was allowed is used");
    let (_, respond) = handle.next_request().await.unwrap();
    respond.send_error("the service's own");
    let Err(FencingServiceError::Service(error)) = answer.await else {
        panic!("not the service's")
    };
    assert_eq!(error.to_string(), "the service's own");

    // A refused request does not use up the readiness.
    handle.allow(1);
    assert!(service.poll_ready().is_ready());
    assert!(service.call(Write { names: vec!["a"], token: None }).await.is_err());
    let answer = service.call(Write::new(["a"], 1));
    assert_request_eq!(handle, Write::new(["a"], 1)).send_response("done");
    assert_eq!(answer.await.unwrap(), "done");
    handle.send_error("broken");
    yield_now().await;
    let Poll::Ready(Err(FencingServiceError::Service(error))) = service.poll_ready() else {
        panic!("ready")
    };
    assert_eq!(error.to_string(), "broken");
}

#[tokio::test]
async fn closures_return_tokens_in_many_forms() {
    macro_rules! passes {
        ($token:expr) => {
            FencingLayer::new(|_: &u8| "a")
                .token($token)
                .layer(service_fn(|n: u8| async move { Ok::<_, Infallible>(n) }))
                .oneshot(7)
                .await
        };
    }

    assert_eq!(passes!(|n: &u8| u64::from(*n)), Ok(7));
    assert_eq!(passes!(|n: &u8| FencingToken::new((*n).into())), Ok(7));
    assert_eq!(passes!(|n: &u8| Ok::<_, TokenError>(u64::from(*n))), Ok(7));

    let error = TokenError::Invalid("no".into());
    let refused = Err(FencingServiceError::Fencing(FencingError::Token(error.clone())));
    assert_eq!(passes!(move |_: &u8| Err::<u64, _>(error.clone())), refused);
}

#[tokio::test]
async fn default_capacity_is_100_000() {
    let layer = FencingLayer::new(u64::to_string as fn(&u64) -> String)
        .token((|n: &u64| 1_000_000 - n) as fn(&u64) -> u64);
    let mut service = layer.layer(service_fn(|_: u64| async { Ok::<_, Infallible>(()) }));
    for n in 0..100_100 {
        service.call(n).await.unwrap();
    }
    assert!(format!("{layer:?}").contains("resources: 100000"), "{layer:?}");
}
