//! Requests with a method that the route does not have.

use axum::{
    Router,
    routing::{get, post},
};
use http::{Method, StatusCode};
use tower_redlock::{Redlock, RedlockLayer, key};

use super::{
    client::{Client, http1},
    site::{LONG, manager, patient, serve, soon},
};
use crate::support::RedisServer;

/// The methods that a route of POST does not have.
const OTHERS: [Method; 4] = [Method::OPTIONS, Method::GET, Method::HEAD, Method::DELETE];

/// A manager over real servers, while another one holds `account:42`.
struct HeldAccount {
    _servers: Vec<RedisServer>,
    redlock: Redlock,
    _holder: tower_redlock::Lock,
}

impl HeldAccount {
    async fn open() -> Self {
        let servers = RedisServer::start_n(3);
        let holder =
            manager(&servers, patient()).await.lock("account:42").await.expect("it is free");
        let redlock = manager(&servers, patient()).await;
        Self { _servers: servers, redlock, _holder: holder }
    }

    async fn serve(&self, app: Router) -> Client {
        Client::new(http1(), serve(app).await)
    }

    /// Number of requests for a lock that have ended.
    fn requests(&self) -> u64 {
        let counts = self.redlock.counts();
        counts.acquired() + counts.refused
    }
}

#[tokio::test]
async fn method_without_handler_takes_no_lock() {
    let site = HeldAccount::open().await;
    let account = || key::path_param("id").parsed::<u64>().prefixed("account:");
    let waiting = RedlockLayer::new(site.redlock.clone(), account()).wait(LONG).http();
    let only = account().only([Method::POST]);
    let limited = RedlockLayer::new(site.redlock.clone(), only).wait(LONG).http();
    let (path, withdraw) = ("/accounts/{id}/withdraw", || post(async || "withdrawn"));
    let apps = [
        ("on the method router", Router::new().route(path, withdraw().route_layer(waiting))),
        ("a key of one method", Router::new().route(path, withdraw()).route_layer(limited)),
    ];

    for (place, app) in apps {
        let client = site.serve(app).await;
        for method in OTHERS {
            let answer = client.send(method.clone(), "/accounts/42/withdraw");
            let answer = soon("a request without a handler", answer).await.expect("an answer");

            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{place}: {method}");
            assert_eq!(answer.headers[http::header::ALLOW], "POST", "{place}: {method}");
        }
    }

    assert_eq!(site.requests(), 0, "no lock was requested");
}

/// What axum does, for which the documentation puts layers on method routers.
#[tokio::test]
async fn router_wide_layer_locks_every_method() {
    let site = HeldAccount::open().await;
    let layer = RedlockLayer::new(site.redlock.clone(), key::path_param("id").prefixed("account:"));
    let routes = || Router::new().route("/accounts/{id}", post(async || "withdrawn"));

    let layer = layer.http();
    for app in [routes().route_layer(layer.clone()), routes().layer(layer)] {
        let client = site.serve(app).await;
        for method in OTHERS {
            let answer = client.send(method.clone(), "/accounts/42").await.expect("an answer");

            assert_eq!(answer.status, StatusCode::CONFLICT, "{method}");
        }
    }
}

#[tokio::test]
async fn head_is_locked_as_the_get_that_it_runs() {
    let site = HeldAccount::open().await;
    let layer = RedlockLayer::new(site.redlock.clone(), key::path_param("id").prefixed("account:"));
    let read = get(async || "read").route_layer(layer.http());
    let client = site.serve(Router::new().route("/accounts/{id}", read)).await;

    for method in [Method::HEAD, Method::GET] {
        let answer = client.send(method.clone(), "/accounts/42").await.expect("an answer");
        assert_eq!(answer.status, StatusCode::CONFLICT, "{method}");
    }
    let preflight = client.send(Method::OPTIONS, "/accounts/42").await.expect("an answer");

    assert_eq!(preflight.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(site.requests(), 2, "the lock was requested for HEAD and GET");
}
