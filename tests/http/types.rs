//! What the types promise by their traits.

use std::{error::Error, fmt::Debug};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tower::util::BoxCloneSyncService;
use tower_redlock::{
    LockContext, RedlockLayer,
    layer::{
        MissingLockContext, RedlockService,
        http::{BodyError, Http, HttpBody, HttpFuture, Problems, Rejection},
    },
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
struct Odd(#[allow(dead_code, reason = "it is there for its traits")] std::cell::Cell<u8>);

#[test]
fn types_are_as_shareable_as_what_they_wrap() {
    shared::<Http>();
    cloned::<Http>();
    shared::<Rejection<'static>>();
    cloned::<Rejection<'static>>();
    shared::<RedlockLayer<Key, Http>>();
    cloned::<RedlockLayer<Key, Http>>();
    shared::<RedlockService<Inner, Key, Http>>();
    cloned::<RedlockService<Inner, Key, Http>>();
    sendable::<HttpFuture<Inner, (), Problems>>();
    shared::<HttpBody<Full<Bytes>>>();
    unpinned::<HttpBody<Full<Bytes>>>();
    empty::<HttpBody<Odd>>();
    error::<BodyError<std::fmt::Error>>();
    error::<MissingLockContext>();
    cloned::<LockContext>();
}
