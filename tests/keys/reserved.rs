//! Names of the library's own locks, sent by a client.

use axum::{Router, routing::get};
use tower_redlock::{LockError, Redlock, RedlockLayer, Resource, ResourceError, key};

use crate::site::{expect, locked, refused, resource};

const OWN: [&str; 3] = ["job:report", "leader:billing", "once:order:7"];

#[tokio::test]
async fn a_client_reaches_no_job_leader_or_once_key() {
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
    let (status, _) = crate::site::get(&app, "/?id=job:report").await;
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
    // A layer of the service's own may have such a key on purpose.
    let job = |_: &axum::extract::Request| Resource::of_job("report");
    let layer = RedlockLayer::new(redlock, job).http();
    let app = Router::new().route("/", get(resource)).route_layer(layer);
    expect(&app, "/", "job:report").await;
}
