//! Responses that are streams, or too large to be stored.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Body, routing::post};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{
    BodyExt,
    channel::{Channel, Sender},
};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use tokio::task::JoinHandle;
use tower_redlock::once::OnceState;

use super::requests::{layer, pay};
use crate::client::Client;
use crate::once_http::fixture::{Fixture, TTL, serve, soon};
use crate::support::eventually_async;

const MAX_HOLD: Duration = Duration::from_secs(60);
/// Less than the default `stop_margin`.
const MARGIN: Duration = Duration::from_millis(500);

type Feed = Sender<Bytes, std::io::Error>;
type Opening = JoinHandle<Result<Response<Incoming>, legacy::Error>>;

struct Streams {
    fixture: Fixture,
    client: Client,
    feeds: Arc<Mutex<Vec<Feed>>>,
}

/// Each response is a stream that the test feeds; 10 bytes are stored.
async fn streams() -> Streams {
    let fixture = Fixture::new(3);
    let (runs, feeds) = (fixture.runs.clone(), Arc::<Mutex<Vec<Feed>>>::default());
    let given = Arc::clone(&feeds);
    let app = Router::new().route(
        "/pay",
        post(async move |asked: HeaderMap| {
            let (sender, body) = Channel::new(16);
            given.lock().unwrap().push(sender);
            runs.run();
            let response = Response::builder().header("trailer", "x-sum");
            let of_test = asked.into_iter().filter_map(|(name, value)| Some((name?, value)));
            let response = of_test
                .filter(|(name, _)| ["content-type", "x-accel-buffering"].contains(&name.as_str()))
                .fold(response, |response, (name, value)| response.header(name, value));
            response.body(Body::new(body)).unwrap()
        }),
    );
    let client =
        serve(app.route_layer(layer(&fixture.at_blue).response_limit(10).max_hold(MAX_HOLD))).await;
    Streams { fixture, client, feeds }
}

impl Streams {
    async fn first(&self) -> (Opening, Feed) {
        self.send(pay("k", "")).await
    }

    async fn send(&self, mut request: Request<Body>) -> (Opening, Feed) {
        let client = self.client.clone();
        request.headers_mut().insert("te", "trailers".parse().unwrap());
        let answer = tokio::spawn(async move { client.open(request).await });
        self.fixture.runs(1).await;
        (answer, self.feeds.lock().unwrap().pop().expect("it runs"))
    }
}

#[tokio::test]
async fn small_stream_is_buffered_with_trailers() {
    let streams = streams().await;
    let (answer, mut feed) = streams.first().await;
    feed.send_data("12345".into()).await.unwrap();
    // It is held back, and repetitions are in progress.
    streams.client.send(pay("k", "")).await.assert_in_progress();
    assert!(!answer.is_finished());
    feed.send_data("67890".into()).await.unwrap();
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]);
    feed.send(Frame::trailers(trailers.clone())).await.unwrap();
    drop(feed);
    let answer = soon("the answer", answer).await.unwrap().unwrap();
    let body = answer.into_body().collect().await.unwrap();
    assert_eq!(body.trailers(), Some(&trailers));
    assert_eq!(body.to_bytes(), "1234567890");
    streams.client.send(pay("k", "")).await.assert_replay_of("1234567890");
}

#[tokio::test]
async fn large_stream_passes_unstored() {
    let streams = streams().await;
    let (answer, mut feed) = streams.first().await;
    for piece in ["12345", "67890", "1"] {
        feed.send_data(piece.into()).await.unwrap();
    }
    // The response has started, and its body is streamed.
    let answer = soon("the answer", answer).await.unwrap().unwrap();
    let again = streams.client.send(pay("k", "")).await;
    again.assert_not_kept();
    assert!(String::from_utf8_lossy(&again.body).contains("response was 200"));
    feed.send_data("2345".into()).await.unwrap();
    drop(feed);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "123456789012345");
    // Another request under the key is still told apart.
    streams.client.send(pay("k", "x")).await.assert_key_reused();
    assert_eq!(streams.fixture.runs.count(), 1);
}

/// Streams have no stored answer, and their clients read them from the first byte.
#[tokio::test]
async fn unbuffered_responses_pass_at_once() {
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("content-type", "Multipart/X-Mixed-Replace; boundary=a"),
        ("x-accel-buffering", "no"),
    ] {
        let streams = streams().await;
        let mut request = pay("k", "");
        request.headers_mut().insert(name, value.parse().unwrap());
        let (answer, mut feed) = streams.send(request).await;
        let answer = soon("the head", answer).await.unwrap().unwrap();
        feed.send_data("1".into()).await.unwrap();
        let mut body = answer.into_body();
        let frame = soon("the first byte", body.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "1");
        streams.client.send(pay("k", "")).await.assert_not_kept();
        drop(feed);
        assert!(soon("the end", body.frame()).await.is_none_or(|end| end.unwrap().is_trailers()));
        assert_eq!(streams.fixture.runs.count(), 1);
    }
}

#[tokio::test]
async fn broken_response_is_done() {
    let streams = streams().await;
    let (answer, mut feed) = streams.first().await;
    feed.send_data("12345".into()).await.unwrap();
    feed.abort(std::io::Error::other("on purpose"));
    // Servers may break off before or behind the head.
    if let Ok(answer) = soon("the answer", answer).await.unwrap() {
        assert!(answer.into_body().collect().await.is_err());
    }
    streams.client.send(pay("k", "")).await.assert_not_kept();
    assert_eq!(streams.fixture.runs.count(), 1);
}

#[tokio::test]
async fn disconnect_after_response_is_replayed() {
    let streams = streams().await;
    let (answer, mut feed) = streams.first().await;
    feed.send_data("12345".into()).await.unwrap();
    answer.abort();
    assert!(answer.await.unwrap_err().is_cancelled());
    streams.client.send(pay("k", "")).await.assert_in_progress();
    feed.send_data("67890".into()).await.unwrap();
    drop(feed);
    eventually_async("it is kept", async || streams.client.send(pay("k", "")).await.code() == 200)
        .await;
    streams.client.send(pay("k", "")).await.assert_replay_of("1234567890");
    assert_eq!(streams.fixture.runs.count(), 1);
}

#[tokio::test]
async fn overlong_stream_passes_unstored() {
    let streams = streams().await;
    let (answer, mut feed) = streams.first().await;
    feed.send_data("12345".into()).await.unwrap();
    streams.fixture.clock.advance(MAX_HOLD.saturating_sub(MARGIN));
    let answer = soon("the answer", answer).await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    streams.client.send(pay("k", "")).await.assert_not_kept();
    feed.send_data("67890".into()).await.unwrap();
    drop(feed);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "1234567890");
    streams.client.send(pay("k", "x")).await.assert_key_reused();
    assert_eq!(streams.fixture.runs.count(), 1);
}

/// The process pauses between the soft deadline and the end.
#[tokio::test]
async fn stopped_stream_is_done() {
    let streams = streams().await;
    let (answer, mut feed) = streams.first().await;
    feed.send_data("12345".into()).await.unwrap();
    streams.client.send(pay("k", "")).await.assert_in_progress();
    streams.fixture.clock.advance(MAX_HOLD);
    let answer = soon("the answer", answer).await.unwrap().unwrap();
    assert_eq!(answer.status(), 500);
    streams.client.send(pay("k", "")).await.assert_not_kept();
    assert_eq!(streams.fixture.runs.count(), 1);
}

/// The nodes get no message after that, as after a crash.
#[tokio::test]
async fn cut_during_read_is_done() {
    let streams = streams().await;
    let fixture = &streams.fixture;
    let (_answer, mut feed) = streams.first().await;
    feed.send_data("12345".into()).await.unwrap();
    let key = "idempotency:pay://pay.example/5:alice:k";
    eventually_async("its head is recorded", async || {
        let status = fixture.at_green.once_key(key).status().await.unwrap();
        status.is_some_and(|status| status.state == OnceState::Done)
    })
    .await;
    let again = streams.client.send(pay("k", "")).await;
    again.assert_in_progress();
    fixture.blue.partition(0..3);
    fixture.clock.advance(TTL);
    let green = serve(
        Router::new().route("/pay", post(async || "again")).route_layer(layer(&fixture.at_green)),
    );
    green.await.send(pay("k", "")).await.assert_not_kept();
}
