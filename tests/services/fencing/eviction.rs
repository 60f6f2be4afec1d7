//! Which resources are forgotten.

use std::{
    convert::Infallible,
    future::pending,
    pin::pin,
    task::{Context, Waker},
};

use tower::{Layer, Service, ServiceExt, service_fn};
use tower_redlock::{FencingLayer, fencing::FencingServiceError};

use crate::fencing::fixture::{Write, layer, overtaken, stale};

#[tokio::test]
async fn evicts_least_recently_used_resource() {
    let layer = layer().capacity(2);
    let service = layer.layer(service_fn(|_: Write| async { Ok::<_, Infallible>(()) }));
    let write = async |name, token| service.clone().oneshot(Write::new([name], token)).await;
    write("a", 9).await.unwrap();

    write("b", 9).await.unwrap();

    // A refused request counts as a use, so now `b` is the least recently used one.
    assert_eq!(write("a", 8).await, Err(FencingServiceError::Fencing(stale(8, 9))));

    write("c", 9).await.unwrap();
    assert_eq!(write("a", 8).await, Err(FencingServiceError::Fencing(stale(8, 9))), "a stayed");

    write("b", 3).await.unwrap();
    assert_eq!(
        write("b", 2).await,
        Err(FencingServiceError::Fencing(stale(2, 3))),
        "and is known again"
    );
    assert!(format!("{layer:?}").contains("resources: 2"), "{layer:?}");
}

#[tokio::test]
async fn running_requests_are_never_evicted() {
    let layer = layer().capacity(2);
    let mut service = layer.layer(service_fn(|write: Write| async move {
        if write.token == Some(5) { pending().await } else { Ok::<_, Infallible>(()) }
    }));

    let names = ["a", "b", "c", "d"];
    {
        let mut running = Vec::new();
        for name in names {
            let mut answer = Box::pin(service.call(Write::new([name], 5)));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(answer.as_mut().poll(&mut cx).is_pending());
            running.push(answer);
        }
        assert!(format!("{layer:?}").contains("resources: 4"), "{layer:?}");
        for name in ["x", "y", "z"] {
            service.call(Write::new([name], 1)).await.unwrap();
        }
        for name in names {
            let late = service.call(Write::new([name], 4)).await;
            assert_eq!(late, Err(FencingServiceError::Fencing(stale(4, 5))));
        }
        let newer = pin!(service.call(Write::new(["a"], 6)));
        assert_eq!(running.remove(0).await, Err(FencingServiceError::Fencing(overtaken(5, 6))));
        newer.await.unwrap();
    }

    assert!(format!("{layer:?}").contains("resources: 2"), "{layer:?}");
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
