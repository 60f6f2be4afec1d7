//! Clients that disconnect while the handler runs: it runs to its end.

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{BoxError, Router, body::Body, routing::post};
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tower::{Layer, Service, service_fn};
use tower_redlock::{LockContext, once::UnknownOutcome};
use tracing::{
    Event, Instrument, Metadata, Span, Subscriber,
    span::{Attributes, Id, Record},
};
use tracing_core::span::Current;

use crate::client::Client;
use crate::once_http::fixture::{Fixture, HOUR, Runs, TTL, each_kind, hook, serve, soon, webhooks};
use crate::support::eventually_async;

/// A handler that waits for a permit.
#[derive(Clone)]
struct Handler {
    runs: Runs,
    ends: Runs,
    permits: Arc<Semaphore>,
}

impl Handler {
    fn new(fixture: &Fixture) -> Self {
        let (ends, permits) = (Runs::default(), Arc::new(Semaphore::new(0)));
        Self { runs: fixture.runs.clone(), ends, permits }
    }

    async fn handle(self) -> String {
        let run = self.runs.run();
        self.permits.acquire().await.expect("it is not closed").forget();
        self.ends.run();
        format!("run {run}")
    }

    fn app(&self) -> Router {
        let handler = self.clone();
        let handle = post(move || handler.clone().handle());
        Router::new().route("/hook", handle.clone()).route("/pay", handle)
    }

    /// Sends a request, and cancels it once the handler runs.
    async fn give_up(&self, client: &Client, request: Request<Body>) {
        let gone = client.spawn(request);
        eventually_async("it runs", async || self.runs.count() == 1).await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
    }
}

/// The client disconnects; the handler continues, and the next try is answered 409.
#[tokio::test]
async fn requests_of_every_kind_run_to_their_end() {
    for kind in 0..3 {
        let fixture = Fixture::new(3);
        let handler = Handler::new(&fixture);
        let (client, request) = &each_kind!(fixture, handler.app(), |layer| layer)[kind];
        handler.give_up(client, request()).await;
        soon("the answer", client.send(request())).await.assert_in_progress();
        // The lock is renewed beyond its TTL.
        fixture.clock.advance(TTL * 2);
        client.send(request()).await.assert_in_progress();

        handler.permits.add_permits(1);

        let is_recorded = async || client.send(request()).await.status == StatusCode::OK;
        eventually_async("the request is recorded", is_recorded).await;
        assert_eq!((handler.runs.count(), handler.ends.count()), (1, 1));
        let again = client.send(request()).await;
        if kind == 2 { again.assert_replay_of("run 1") } else { again.assert_duplicate() }
    }
}

/// Waits until a shutdown would wait for the request, whose client has disconnected.
async fn disconnect_is_noticed(fixture: &Fixture) {
    eventually_async("the server notices the disconnect", async || {
        let redlock = fixture.at_blue.clone();
        let shutdown = fixture.clock.spawn(async move { redlock.shutdown().await });
        fixture.clock.advance(Duration::from_millis(20));
        !shutdown.is_finished()
    })
    .await;
}

#[tokio::test]
async fn outer_timeout_does_not_stop_it() {
    let fixture = Fixture::new(3);
    let handler = Handler::new(&fixture);
    let stack = tower::ServiceBuilder::new()
        .layer(axum::error_handling::HandleErrorLayer::new(async |_: BoxError| {
            StatusCode::GATEWAY_TIMEOUT
        }))
        .layer(tower::timeout::TimeoutLayer::new(Duration::from_millis(20)))
        .layer(webhooks(&fixture.at_blue).http());
    let client = serve(handler.app().layer(stack)).await;
    assert_eq!(client.send(hook("evt_1")).await.code(), 504);
    assert_eq!(handler.ends.count(), 0);
    handler.permits.add_permits(1);
    eventually_async("it ends", async || handler.ends.count() == 1).await;
    eventually_async("it is recorded", async || client.send(hook("evt_1")).await.code() == 200)
        .await;
    client.send(hook("evt_1")).await.assert_duplicate();
    assert_eq!(handler.runs.count(), 1);
}

#[tokio::test]
async fn max_hold_ends_it() {
    for unknown in [UnknownOutcome::Release, UnknownOutcome::Hold(HOUR)] {
        let fixture = Fixture::new(3);
        let handler = Handler::new(&fixture);
        let layer = webhooks(&fixture.at_blue).max_hold(TTL * 3).unknown(unknown).http();
        let client = serve(handler.app().route_layer(layer)).await;
        handler.give_up(&client, hook("evt_1")).await;
        fixture.clock.advance(TTL * 2);
        client.send(hook("evt_1")).await.assert_in_progress();
        fixture.clock.advance(TTL);
        eventually_async("it is stopped", async || {
            fixture.at_green.inspect("once:layer:hook:evt_1").await.unwrap().is_none()
        })
        .await;
        handler.permits.add_permits(1);
        let again = client.send(hook("evt_1")).await;
        match unknown {
            UnknownOutcome::Release => assert_eq!(again.body, "run 2"),
            _ => again.assert_unknown_outcome(),
        }
    }
}

#[tokio::test]
async fn shutdown_waits_for_it() {
    let fixture = Fixture::new(3);
    let handler = Handler::new(&fixture);
    let client = serve(handler.app().route_layer(webhooks(&fixture.at_blue).http())).await;
    handler.give_up(&client, hook("evt_1")).await;
    let redlock = fixture.at_blue.clone();
    disconnect_is_noticed(&fixture).await;
    let mut shutdown = fixture.clock.spawn(async move { redlock.shutdown().await });
    fixture.clock.advance(TTL * 2);
    assert!(shutdown.take().is_none(), "it runs");
    handler.permits.add_permits(1);
    eventually_async("it ends", async || {
        fixture.clock.advance(Duration::from_millis(5));
        shutdown.is_finished()
    })
    .await;
    let status = fixture.at_green.once_key("layer:hook:evt_1").status().await.unwrap().unwrap();
    assert_eq!(status.state, tower_redlock::once::OnceState::Done);
}

/// It waits for no request whose client has gone, as it is one.
#[tokio::test]
async fn handler_shuts_its_manager_down() {
    let fixture = Fixture::new(3);
    let handler = Handler::new(&fixture);
    let (redlock, shared) = (fixture.at_blue.clone(), handler.clone());
    let handle = post(async move || {
        let done = shared.clone().handle().await;
        redlock.shutdown().await;
        shared.ends.run();
        done
    });
    let app = Router::new().route("/hook", handle).route_layer(webhooks(&fixture.at_blue).http());
    handler.give_up(&serve(app).await, hook("evt_1")).await;
    disconnect_is_noticed(&fixture).await;

    handler.permits.add_permits(1);

    // The clock stands still: nothing times out.
    eventually_async("it ends", async || handler.ends.count() == 2).await;
    eventually_async("it is recorded", async || {
        let status = fixture.at_green.once_key("layer:hook:evt_1").status().await.unwrap();
        status.is_some_and(|status| status.state == tower_redlock::once::OnceState::Done)
    })
    .await;
}

/// Work that blocks its thread, or whose runtime does not run.
#[tokio::test]
async fn shutdown_ends_with_the_lock() {
    let fixture = Fixture::new(3);
    let stuck = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let service = service_fn(async |_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, std::convert::Infallible>>().await
    });
    let mut service = webhooks(&fixture.at_blue).max_hold(TTL).http().layer(service);
    {
        let _inside = stuck.enter();
        let mut call = Box::pin(service.call(hook("evt_1")));
        assert!((&mut call).now_or_never().is_none());
    }
    let redlock = fixture.at_blue.clone();
    let mut shutdown = fixture.clock.spawn(async move { redlock.shutdown().await });
    fixture.clock.advance(TTL);
    assert!(shutdown.take().is_none(), "its lock may be held still");
    fixture.clock.advance(TTL * 2);
    assert!(shutdown.take().is_some());
    std::thread::spawn(move || drop(stuck)).join().unwrap();
}

/// Polls the call of a service that does not end, and drops it.
fn dropped<S>(mut service: S)
where
    S: Service<Request<Body>, Future: Future>,
{
    assert!(Box::pin(service.call(hook("evt_1"))).now_or_never().is_none());
}

#[test]
fn outside_a_runtime_it_is_dropped() {
    for unknown in [UnknownOutcome::Release, UnknownOutcome::Hold(HOUR)] {
        let fixture = Fixture::new(3);
        let runs = fixture.runs.clone();
        let service = service_fn(move |_: Request<Body>| {
            runs.run();
            std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
        });
        dropped(webhooks(&fixture.at_blue).unknown(unknown).http().layer(service));
        assert_eq!(fixture.runs.count(), 1);
        let status =
            fixture.at_green.once_key("layer:hook:evt_1").status().now_or_never().unwrap().unwrap();
        assert_eq!(status.is_some(), unknown != UnknownOutcome::Release, "{status:?}");
        assert_eq!(fixture.nodes.key_counts(), [0; 3], "the lock is given back");
    }
}

#[tokio::test]
async fn attached_work_ends_with_its_caller() {
    let outcomes = [UnknownOutcome::Release, UnknownOutcome::Hold(HOUR)];
    for (unknown, kind) in
        outcomes.into_iter().flat_map(|unknown| [0, 1, 2].map(|kind| (unknown, kind)))
    {
        let fixture = Fixture::new(3);
        let handler = Handler::new(&fixture);
        let adjusted =
            each_kind!(fixture, handler.app(), |layer| layer.unknown(unknown).detached(false));
        let (client, request) = &adjusted[kind];
        handler.give_up(client, request()).await;
        fixture.is_free().await;
        handler.permits.add_permits(1);
        let again = soon("the answer", client.send(request())).await;
        match unknown {
            UnknownOutcome::Release => assert_eq!(again.body, "run 2"),
            _ => again.assert_unknown_outcome(),
        }
    }
}

/// Numbers spans, and knows which one a thread is in.
#[derive(Default)]
struct Spans {
    last: AtomicU64,
    entered: Mutex<Vec<(Id, &'static Metadata<'static>)>>,
    known: Mutex<HashMap<Id, &'static Metadata<'static>>>,
}

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = Id::from_u64(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        self.known.lock().unwrap().insert(id.clone(), span.metadata());
        id
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        let metadata = self.known.lock().unwrap()[id];
        self.entered.lock().unwrap().push((id.clone(), metadata));
    }

    fn exit(&self, _: &Id) {
        self.entered.lock().unwrap().pop();
    }

    fn current_span(&self) -> Current {
        match self.entered.lock().unwrap().last() {
            Some((id, metadata)) => Current::new(id.clone(), metadata),
            None => Current::none(),
        }
    }
}

#[tokio::test]
async fn span_and_lock_are_kept() {
    let _spans = tracing::subscriber::set_default(Spans::default());
    let fixture = Fixture::new(3);
    let (go, told) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (goes, tells) = (Arc::clone(&go), Arc::clone(&told));
    let mut service =
        webhooks(&fixture.at_blue).http().layer(service_fn(move |_: Request<Body>| {
            let (goes, tells) = (Arc::clone(&goes), Arc::clone(&tells));
            async move {
                for _ in 0..2 {
                    goes.acquire().await.unwrap().forget();
                    let lock = LockContext::current().map(|lock| lock.resource().to_string());
                    tells.lock().unwrap().push((Span::current().id(), lock));
                }
                Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
            }
        }));
    let span = tracing::info_span!("request");
    let mut call = Box::pin(service.call(hook("evt_1")).instrument(span.clone()));
    go.add_permits(1);
    assert!((&mut call).now_or_never().is_none());
    drop(call);
    go.add_permits(1);
    eventually_async("it ends", async || told.lock().unwrap().len() == 2).await;
    let expected = (span.id(), Some("once:layer:hook:evt_1".to_owned()));
    assert!(expected.0.is_some());
    assert_eq!(*told.lock().unwrap(), [expected.clone(), expected]);
}
