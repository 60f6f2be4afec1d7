//! What the types promise by their traits.

use std::{
    cell::Cell,
    convert::Infallible,
    error::Error,
    fmt::Debug,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::Full;
use tower::{Layer, ServiceExt, service_fn, util::BoxCloneSyncService};
use tower_redlock::{
    LockContext, Redlock, RedlockLayer,
    layer::{
        MissingLockContext, RedlockService,
        http::{BodyError, HttpBody, RedlockHttp, RedlockHttpFuture},
    },
    reject::{DefaultResponse, Rejection},
};

const fn shared<T: Send + Sync + Debug + 'static>() {}
const fn sendable<T: Send + Debug + 'static>() {}
const fn cloned<T: Clone>() {}
const fn unpinned<T: Unpin>() {}
const fn empty<T: Default>() {}
const fn error<T: Error + Clone + Send + Sync + Unpin + 'static>() {}

type Key = fn(&Request<()>) -> String;
type Inner = BoxCloneSyncService<Request<()>, Response<Full<Bytes>>, std::io::Error>;
/// Neither `Clone` nor `Default` nor `Sync`.
struct Odd(Cell<u8>);

impl http_body::Body for Odd {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.set(1);
        Poll::Ready(None)
    }
}

#[test]
fn auto_traits_follow_the_inner_types() {
    shared::<RedlockHttp>();
    cloned::<RedlockHttp>();
    shared::<Rejection<'static>>();
    cloned::<Rejection<'static>>();
    shared::<RedlockLayer<Key, RedlockHttp>>();
    cloned::<RedlockLayer<Key, RedlockHttp>>();
    shared::<RedlockService<Inner, Key, RedlockHttp>>();
    cloned::<RedlockService<Inner, Key, RedlockHttp>>();
    sendable::<RedlockHttpFuture<Inner, (), DefaultResponse, Full<Bytes>>>();
    shared::<HttpBody<Full<Bytes>>>();
    unpinned::<HttpBody<Full<Bytes>>>();
    empty::<HttpBody<Odd>>();
    error::<BodyError<std::fmt::Error>>();
    error::<MissingLockContext>();

    cloned::<LockContext>();
}

#[tokio::test]
async fn thread_local_key_and_service_compile() {
    let (name, calls) = (Rc::new("x".to_owned()), Rc::new(Cell::new(0)));
    let seen = Rc::clone(&calls);
    let service = service_fn(move |_: Request<()>| {
        let calls = Rc::clone(&calls);
        async move {
            calls.set(calls.get() + 1);
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("done")))
        }
    });
    let key = move |_: &Request<()>| (*name).clone();

    let service = RedlockLayer::new(Redlock::embedded(), key).http().layer(service);

    assert_eq!(service.oneshot(Request::new(())).await.unwrap().status(), 200);
    assert_eq!(seen.get(), 1);
}
