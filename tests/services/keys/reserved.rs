//! Names of the library's own locks, sent by a client.

use axum::{Extension, Router, routing::get};
use http::Method;
use tower_redlock::{LockError, Redlock, RedlockLayer, Resource, error::ResourceError, key};

use crate::keys::fixture::{expect, locked, refused, resource};

const OWN: [&str; 3] = ["job:report", "leader:billing", "once:order:7"];

#[tokio::test]
async fn client_keys_never_reach_own_locks() {
    let app = Router::new().route("/", get(resource)).route_layer(locked(key::query("id")));
    for name in OWN {
        let detail = refused(&app, &format!("/?id={name}")).await;
        let prefix = name.split_once(':').unwrap().0;
        assert!(detail.contains(&format!("begins with {prefix}:")), "{detail}");
    }
    expect(&app, "/?id=jobs:report", "jobs:report").await;
    let sets = key::all((key::query("a"), key::query("b")));
    let app = Router::new().route("/", get(resource)).route_layer(locked(sets));
    refused(&app, "/?a=x&b=job:report").await;
    let prefixed = locked(key::query("id").prefixed("invoice:"));
    let app = Router::new().route("/", get(resource)).route_layer(prefixed);

    let (status, _) = crate::keys::fixture::get(&app, "/?id=job:report").await;

    assert_eq!(status, 200);
}

#[tokio::test]
async fn code_reaches_them_by_their_kind() {
    let redlock = Redlock::embedded();
    for name in OWN {
        let refused = redlock.lock(name).await.unwrap_err();
        let is_reserved =
            matches!(refused, LockError::InvalidResource(ResourceError::Reserved { .. }));
        assert!(is_reserved, "{refused}");
    }
    let made =
        [Resource::of_job("report"), Resource::of_leader("billing"), Resource::of_once("order:7")];
    for (made, name) in made.into_iter().zip(OWN) {
        let lock = redlock.lock(made.unwrap()).await.unwrap();
        assert_eq!(lock.resource().to_string(), name);
        let holder = redlock.inspect(name).await.unwrap().expect("held");
        redlock.revoke(&holder).await.unwrap();
        assert!(redlock.inspect(name).await.unwrap().is_none());
        drop(lock);
    }
    // A layer of the service itself may have such a key.
    let job = |_: &axum::extract::Request| Resource::of_job("report");
    let layer = RedlockLayer::new(redlock, job).http();
    let app = Router::new().route("/", get(resource)).route_layer(layer);

    expect(&app, "/", "job:report").await;
}

#[tokio::test]
async fn closures_reach_own_locks_by_kind() {
    let job = || key::from_fn(|_| Resource::of_job("report"));
    let of_extension = key::extension(|job: &&str| Resource::of_job(job));
    let app = Router::new()
        .route("/", get(resource).layer(locked(job())))
        .route("/optional", get(resource).layer(locked(job().optional().only([Method::GET]))))
        .route("/extension", get(resource).layer(locked(of_extension)))
        .route("/prefixed", get(resource).layer(locked(job().prefixed("no-"))))
        .route("/joined", get(resource).layer(locked(key::joined((job(), key::query("id"))))))
        .route("/hashed", get(resource).layer(locked(job().hashed())))
        // As text, the name is what a client might have sent.
        .route("/text", get(resource).layer(locked(key::from_fn(|_| "job:report"))))
        .route("/parsed", get(resource).layer(locked(job().parsed::<String>())))
        .route("/set", get(resource).layer(locked(key::all((job(), key::query("id"))))))
        .layer(Extension("report"));
    for path in ["/", "/optional", "/extension"] {
        expect(&app, path, "job:report").await;
    }
    expect(&app, "/prefixed", "no-job%3Areport").await;
    expect(&app, "/joined?id=7", "job%3Areport:7").await;
    let sha256 = "7e31c9b0c801f98a99d0ec1e73579f2e45c57978424eba279d3cae16da9f9d5d";
    expect(&app, "/hashed", sha256).await;

    for path in ["/text", "/parsed", "/set?id=7"] {
        let detail = refused(&app, path).await;
        assert!(detail.contains("begins with job:"), "{path}: {detail}");
    }
}
