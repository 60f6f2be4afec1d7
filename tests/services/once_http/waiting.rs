//! Requests that wait with their bodies in memory.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use tokio::sync::Semaphore;
use tower::{Layer, Service, ServiceExt, util::BoxCloneService};
use tower_redlock::{OnceLayer, Redlock, RedlockLayer, key, once::RestoredBody};

use crate::once_http::fixture::{Fixture, HOUR};
use crate::once_http::idempotency::requests::freeing;

type Sent = UnsyncBoxBody<Bytes, std::io::Error>;
type Layered = BoxCloneService<Request<Sent>, (u16, Option<String>, Bytes), Infallible>;
type Asked = Pin<Box<dyn Future<Output = (u16, Option<String>, Bytes)>>>;

const LIMIT: usize = 100_000;
/// Two of them have room.
const BODY: usize = 40_000;

/// What the handler does with a request.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Reads,
    Drops,
    Panics,
}

struct Scene {
    _site: Fixture,
    service: Layered,
    /// A handler continues with a permit.
    go: Arc<Semaphore>,
}

fn handler(
    go: &Arc<Semaphore>,
    does: Does,
) -> impl Service<
    Request<RestoredBody<Sent>>,
    Response = Response<Full<Bytes>>,
    Error = Infallible,
    Future: Send,
> + Clone
+ Send
+ 'static {
    let go = Arc::clone(go);
    tower::service_fn(move |request: Request<RestoredBody<Sent>>| {
        let go = Arc::clone(&go);
        async move {
            let length = match does {
                Does::Reads => request.into_body().collect().await.unwrap().to_bytes().len(),
                Does::Drops => {
                    drop(request);
                    0
                }
                Does::Panics => panic!("on purpose"),
            };
            go.acquire().await.unwrap().forget();
            Ok(Response::new(length.to_string().into()))
        }
    })
}

fn boxed<S, A>(service: S) -> Layered
where
    S: Service<Request<Sent>, Response = Response<A>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    A: Body<Data = Bytes, Error: std::fmt::Debug> + Send + 'static,
{
    let answered = service.and_then(|response: Response<A>| async move {
        let status = response.status().as_u16();
        let after = response.headers().get("retry-after");
        let after = after.map(|after| after.to_str().unwrap().to_owned());
        Ok((status, after, response.into_body().collect().await.unwrap().to_bytes()))
    });
    BoxCloneService::new(answered)
}

/// Returns each layer that reads bodies first, with its name.
fn scenes(does: Does) -> Vec<(&'static str, Scene)> {
    let scene = |layered: &dyn Fn(&Redlock, &Arc<Semaphore>) -> Layered| {
        let (fixture, go) = (Fixture::new(3), Arc::new(Semaphore::new(0)));
        let redlock = fixture.blue.builder().max_waiting_body_bytes(LIMIT).build().unwrap();
        let service = layered(&redlock, &go);
        Scene { _site: fixture, service, go }
    };
    let by_body = scene(&|redlock, go| {
        let layer = OnceLayer::by_body(redlock.clone(), "hook", key::json_pointer("/id"));
        boxed(layer.wait(HOUR).layer(handler(go, does)))
    });
    let idempotency =
        scene(&|redlock, go| boxed(freeing(redlock).wait(HOUR).layer(handler(go, does))));
    let read_first = scene(&|redlock, go| {
        let layer = RedlockLayer::new(redlock.clone(), |_: &Request<Sent>| "name");
        boxed(layer.wait(HOUR).http().read_body_first(1 << 20).layer(handler(go, does)))
    });
    vec![("by_body", by_body), ("idempotency", idempotency), ("read_first", read_first)]
}

impl Scene {
    /// A request that was polled; `None` where it is not answered yet.
    fn ask(&self, body: Sent) -> (Asked, Option<(u16, Option<String>, Bytes)>) {
        let request = Request::post("/").header("x-caller", "alice").header("idempotency-key", "k");
        let request = request.body(body).unwrap();
        let mut asked: Asked = Box::pin(self.service.clone().oneshot(request).map(Result::unwrap));
        let answer = asked.as_mut().now_or_never();
        (asked, answer)
    }

    #[track_caller]
    fn waits(&self, length: usize) -> Asked {
        let (asked, answer) = self.ask(whole(length));
        assert_eq!(answer, None, "there was room");
        asked
    }

    #[track_caller]
    fn assert_refused(&self, body: Sent) {
        let (_, answer) = self.ask(body);
        assert_too_many(answer);
    }

    /// Two of them wait, and a third finds no room.
    #[track_caller]
    fn is_for_two(&self) -> [Asked; 2] {
        let two = [self.waits(BODY), self.waits(BODY)];
        self.assert_refused(whole(BODY));
        two
    }
}

#[track_caller]
fn assert_too_many(answer: Option<(u16, Option<String>, Bytes)>) {
    let (status, after, body) = answer.expect("it is refused at once");
    let text = String::from_utf8_lossy(&body);
    assert_eq!((status, after.as_deref()), (503, Some("1")), "{text}");
    let parts = ["too-many-bodies", "not-run", "nothing was done"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

/// JSON of that length.
fn json(length: usize) -> Bytes {
    let text = format!(r#"{{"id":"k","pad":"{}"}}"#, "x".repeat(length - 19));
    assert_eq!(text.len(), length);
    text.into()
}

fn whole(length: usize) -> Sent {
    Full::new(json(length)).map_err(|never| match never {}).boxed_unsync()
}

/// A body of these frames, which then stays pending, or fails.
struct Scripted {
    announced: u64,
    frames: Vec<Bytes>,
    fails: bool,
    was_polled: Arc<AtomicBool>,
}

impl Scripted {
    fn new(frames: &[usize]) -> Self {
        let frames = frames.iter().map(|length| json(*length)).collect();
        Self { announced: 0, frames, fails: false, was_polled: Arc::default() }
    }
}

impl Body for Scripted {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.was_polled.store(true, Ordering::SeqCst);
        match self.frames.pop() {
            Some(frame) => Poll::Ready(Some(Ok(Frame::data(frame)))),
            None if self.fails => Poll::Ready(Some(Err(std::io::Error::other("on purpose")))),
            None => Poll::Pending,
        }
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.announced);
        hint
    }
}

#[tokio::test]
async fn waiting_bodies_are_bounded() {
    for (name, scene) in scenes(Does::Reads) {
        println!("{name}");
        // Its handler has read the body.
        let first = scene.waits(BODY);
        let [one, other] = scene.is_for_two();
        let small = scene.waits(20_000);
        scene.assert_refused(whole(1_000));
        // Who goes away leaves room.
        drop((one, small));
        let third = scene.waits(BODY);
        // The others are answered when it is done, or run themselves.
        scene.go.add_permits(3);
        for asked in [first, other, third] {
            let (status, ..) = tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap();
            assert_eq!(status, 200);
        }
    }
}

#[tokio::test]
async fn announced_body_is_refused_early() {
    for (name, scene) in scenes(Does::Reads) {
        println!("{name}");
        let _first = scene.waits(BODY);
        let _two = scene.is_for_two();
        let body = Scripted { announced: BODY as u64, ..Scripted::new(&[BODY]) };
        let was_polled = Arc::clone(&body.was_polled);
        scene.assert_refused(body.boxed_unsync());
        assert!(!was_polled.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn chunked_body_is_refused_midway() {
    for (name, scene) in scenes(Does::Reads) {
        println!("{name}");
        let _first = scene.waits(BODY);
        let half = scene.ask(Scripted::new(&[BODY]).boxed_unsync());
        assert_eq!(half.1, None, "the rest is still to come");
        for _ in 0..3 {
            scene.assert_refused(Scripted::new(&[BODY, BODY]).boxed_unsync());
        }
        let _other = scene.waits(BODY);
        scene.assert_refused(whole(BODY));
        drop(half);
        let _third = scene.waits(BODY);
    }
}

#[tokio::test]
async fn aborted_body_frees_its_room() {
    for (name, scene) in scenes(Does::Reads) {
        println!("{name}");
        let _first = scene.waits(BODY);
        for _ in 0..3 {
            let fails = Scripted { fails: true, ..Scripted::new(&[BODY]) };
            let (_, answer) = scene.ask(fails.boxed_unsync());
            assert_eq!(answer.expect("it failed").0, 400);
            drop(scene.ask(Scripted::new(&[BODY]).boxed_unsync()));
            drop(scene.waits(BODY));
        }
        let _two = scene.is_for_two();
    }
}

#[tokio::test]
async fn dropped_body_frees_its_room() {
    for (name, scene) in scenes(Does::Drops) {
        println!("{name}");
        let _first = scene.waits(BODY);
        let _two = scene.is_for_two();
    }
}

#[tokio::test]
async fn panicking_handler_frees_its_room() {
    for (name, scene) in scenes(Does::Panics) {
        println!("{name}");
        for _ in 0..3 {
            let ask = std::panic::AssertUnwindSafe(|| scene.ask(whole(BODY)));
            assert!(std::panic::catch_unwind(ask).is_err());
        }
        let half = |length| scene.ask(Scripted::new(&[length]).boxed_unsync());
        let (_one, _other) = (half(BODY), half(BODY));
        scene.assert_refused(whole(BODY));
    }
}

#[tokio::test]
async fn lone_body_may_exceed_the_room() {
    for (name, scene) in scenes(Does::Reads) {
        println!("{name}");
        let first = scene.waits(3 * LIMIT);
        scene.go.add_permits(1);
        assert_eq!(tokio::time::timeout(Duration::from_secs(60), first).await.unwrap().0, 200);
    }
}

#[test]
fn zero_room_fails_the_build() {
    let builder = Redlock::builder().nodes(["redis://h"]).max_waiting_body_bytes(0);
    let error = builder.build().unwrap_err().to_string();
    assert!(error.contains("max_waiting_body_bytes"), "{error}");
}
