//! Errors of services: after a call the outcome is unknown; a service that did not become ready did nothing.

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
    time::Duration,
};

use axum::BoxError;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::{Layer, Service, ServiceExt, timeout::Timeout, util::BoxCloneService};
use tower_redlock::{
    OnceLayer, key,
    once::{RestoredBody, UnknownOutcome, http::ServerErrors},
};

use crate::once_http::fixture::{Fixture, HOUR, Runs};
use crate::once_http::idempotency::requests::freeing;
use crate::support::eventually_async;

type Sent = Full<Bytes>;
type Layered = BoxCloneService<Request<Sent>, (u16, Bytes), BoxError>;

/// The settings for unknown outcomes, and whether they hold the key of a failed call.
const SETTINGS: [(UnknownOutcome, ServerErrors, bool); 4] = [
    (UnknownOutcome::Release, ServerErrors::Release, false),
    (UnknownOutcome::Hold(HOUR), ServerErrors::Release, true),
    (UnknownOutcome::Release, ServerErrors::Hold(HOUR), true),
    (UnknownOutcome::Hold(HOUR), ServerErrors::Hold(HOUR), true),
];

/// A service whose first call fails after its effect, or that fails to become ready once.
#[derive(Clone, Default)]
struct Payments {
    runs: Runs,
    fails_at_ready: bool,
    readied: Runs,
}

impl<T> Service<Request<T>> for Payments {
    type Response = Response<Sent>;
    type Error = &'static str;
    type Future = Ready<Result<Response<Sent>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        let is_first = self.readied.run() == 1;
        Poll::Ready(if self.fails_at_ready && is_first { Err("not ready") } else { Ok(()) })
    }

    fn call(&mut self, _: Request<T>) -> Self::Future {
        let run = self.runs.run();
        ready(if run == 1 && !self.fails_at_ready {
            Err("connection broken")
        } else {
            Ok(Response::new(format!("run {run}").into()))
        })
    }
}

/// A service whose first call has its effect and never returns.
#[derive(Clone)]
struct Stuck(Runs);

impl<T> Service<Request<T>> for Stuck {
    type Response = Response<Sent>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Sent>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<T>) -> Self::Future {
        let run = self.0.run();
        Box::pin(async move {
            if run == 1 {
                std::future::pending::<()>().await;
            }
            Ok(Response::new(format!("run {run}").into()))
        })
    }
}

fn boxed<S, A>(service: S) -> Layered
where
    S: Service<Request<Sent>, Response = Response<A>, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + 'static,
    A: Body<Data = Bytes, Error: std::fmt::Debug> + Send + 'static,
{
    let answered = service.map_err(Into::into).and_then(|response: Response<A>| async move {
        let status = response.status().as_u16();
        Ok((status, response.into_body().collect().await.unwrap().to_bytes()))
    });
    BoxCloneService::new(answered)
}

/// Each kind of layer around the service, with these settings.
fn layers<S, E, F>(
    fixture: &Fixture,
    service: &S,
    (unknown, errors): (UnknownOutcome, ServerErrors),
) -> [(&'static str, Layered); 3]
where
    S: Service<Request<Sent>, Response = Response<Sent>, Error = E, Future = F>,
    S: Service<Request<RestoredBody<Sent>>, Response = Response<Sent>, Error = E, Future: Send>,
    S: Clone + Send + 'static,
    E: Into<BoxError> + Send + 'static,
    F: Future<Output = Result<Response<Sent>, E>> + Send,
{
    let redlock = || fixture.at_blue.clone();
    let by_head = OnceLayer::new(redlock(), "head", key::header("webhook-id"));
    let by_head = by_head.unknown(unknown).http().server_errors(errors);
    let by_body = OnceLayer::by_body(redlock(), "body", key::json_pointer("/id"));
    let by_body = by_body.unknown(unknown).server_errors(errors);
    let idempotency = freeing(&fixture.at_blue).unknown(unknown).server_errors(errors);
    [
        ("by_head", boxed(by_head.layer(service.clone()))),
        ("by_body", boxed(by_body.layer(service.clone()))),
        ("idempotency", boxed(idempotency.layer(service.clone()))),
    ]
}

fn request() -> Request<Sent> {
    let request = Request::post("/").header("x-caller", "alice").header("webhook-id", "evt_1");
    request.header("idempotency-key", "k").body(r#"{"id":"evt_1"}"#.into()).unwrap()
}

async fn send(service: &Layered) -> Result<(u16, Bytes), BoxError> {
    service.clone().oneshot(request()).await
}

/// The second and the third try, after the first has failed.
async fn assert_next_tries(service: &Layered, is_held: bool, case: &str) {
    for _ in 0..2 {
        let (status, body) = send(service).await.unwrap();
        if is_held {
            let problem: Value = serde_json::from_slice(&body).unwrap();
            let found = (status, &problem["code"], &problem["outcome"]);
            assert_eq!(found, (409, &"unknown-outcome".into(), &"unknown".into()), "{case}");
        } else {
            assert!(status == 200, "{case}: {status} {body:?}");
        }
    }
}

#[tokio::test]
async fn error_of_a_call_has_an_unknown_outcome() {
    for (unknown, errors, is_held) in SETTINGS {
        for kind in 0..3 {
            let (fixture, payments) = (Fixture::new(3), Payments::default());
            let (name, service) = &layers(&fixture, &payments, (unknown, errors))[kind];
            let case = format!("{name}, {unknown:?}, {errors:?}");

            let error = send(service).await.unwrap_err();
            assert_eq!(error.to_string(), "connection broken", "{case}");

            assert_next_tries(service, is_held, &case).await;
            assert_eq!(payments.runs.count(), if is_held { 1 } else { 2 }, "{case}");
        }
    }
}

#[tokio::test]
async fn unready_service_frees_the_key() {
    for (unknown, errors, _) in SETTINGS {
        for kind in 0..3 {
            let payments = Payments { fails_at_ready: true, ..Payments::default() };
            let fixture = Fixture::new(3);
            let (name, service) = &layers(&fixture, &payments, (unknown, errors))[kind];
            let case = format!("{name}, {unknown:?}, {errors:?}");

            assert_eq!(send(service).await.unwrap_err().to_string(), "not ready", "{case}");

            assert_next_tries(service, false, &case).await;
            assert_eq!(payments.runs.count(), 1, "{case}");
        }
    }
}

/// The work continues without its caller, and fails after that.
#[tokio::test]
async fn error_after_outer_timeout_is_held() {
    for (unknown, errors, is_held) in SETTINGS {
        for kind in 0..3 {
            let (fixture, runs) = (Fixture::new(3), Runs::default());
            let charge = Timeout::new(Stuck(runs.clone()), Duration::from_millis(50));
            let (name, service) = &layers(&fixture, &charge, (unknown, errors))[kind];
            let case = format!("{name}, {unknown:?}, {errors:?}");

            let outer = Timeout::new(service.clone(), Duration::from_millis(1));
            outer.oneshot(request()).await.unwrap_err();

            eventually_async("the work has ended", async || fixture.nodes.key_counts() == [0; 3])
                .await;
            assert_next_tries(service, is_held, &case).await;
            assert_eq!(runs.count(), if is_held { 1 } else { 2 }, "{case}");
        }
    }
}
