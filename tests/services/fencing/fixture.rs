//! A request type outside HTTP, and a mock service inside the fence.

use std::{
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering},
    task::Wake,
};

use tower::Layer;
use tower_redlock::{
    FencingLayer, FencingToken,
    fencing::{FencingError, FencingService, FencingServiceError},
    layer::KeyError,
};
use tower_test::mock;

/// A write to some names, by a holder with a token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub(crate) names: Vec<&'static str>,
    pub(crate) token: Option<u64>,
}

impl Write {
    pub(crate) fn new<const N: usize>(names: [&'static str; N], token: u64) -> Self {
        Self { names: names.to_vec(), token: Some(token) }
    }
}

/// No name: no key. `free`: no lock needed.
fn key(write: &Write) -> Result<Option<Vec<&'static str>>, KeyError> {
    match write.names.as_slice() {
        [] => Err(KeyError::new("a write without a name")),
        ["free"] => Ok(None),
        names => Ok(Some(names.to_vec())),
    }
}

fn token(write: &Write) -> Option<u64> {
    write.token
}

pub(crate) type Layered = FencingLayer<
    fn(&Write) -> Result<Option<Vec<&'static str>>, KeyError>,
    fn(&Write) -> Option<u64>,
>;

pub(crate) fn layer() -> Layered {
    FencingLayer::new(key as fn(&Write) -> _).token(token as fn(&Write) -> _)
}

pub(crate) type Mock = mock::Spawn<
    FencingService<
        mock::Mock<Write, &'static str>,
        fn(&Write) -> Result<Option<Vec<&'static str>>, KeyError>,
        fn(&Write) -> Option<u64>,
    >,
>;

/// A mock service inside a fence, and the handle by which the test controls it.
pub(crate) fn mocked(layer: &Layered) -> (Mock, mock::Handle<Write, &'static str>) {
    let (service, handle) = mock::pair();
    (mock::Spawn::new(layer.layer(service)), handle)
}

/// Waits until the service is ready, and calls it.
pub(crate) fn send(
    service: &mut Mock,
    write: Write,
) -> impl Future<Output = Result<&'static str, Failed>> + use<> {
    assert!(service.poll_ready().is_ready());
    service.call(write)
}

pub(crate) type Failed = FencingServiceError<tower::BoxError>;

pub(crate) fn fenced(error: Failed) -> FencingError {
    match error {
        FencingServiceError::Fencing(error) => error,
        other => panic!("{other}"),
    }
}

pub(crate) fn stale(token: u64, newest: u64) -> FencingError {
    let (token, newest) = (FencingToken::new(token), FencingToken::new(newest));
    FencingError::Stale { token, newest }
}

pub(crate) fn overtaken(token: u64, newest: u64) -> FencingError {
    let (token, newest) = (FencingToken::new(token), FencingToken::new(newest));
    FencingError::Overtaken { token, newest }
}

/// Counts wake-ups.
#[derive(Default)]
pub(crate) struct Woken(AtomicUsize);

impl Woken {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
