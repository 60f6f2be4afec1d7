//! The callback for a lost term.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use crate::error::LossCause;

type Later = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a closure for [`Leader::on_lost`](super::Leader::on_lost) may return: nothing, or a future
/// that is awaited. `Kind` tells the two apart, and is inferred.
pub trait LostOutcome<Kind>: sealed::Sealed<Kind> {}

impl LostOutcome<sealed::Now> for () {}
impl<F: Future<Output = ()> + Send + 'static> LostOutcome<sealed::Awaited> for F {}

pub(super) mod sealed {
    use std::future::Future;

    #[derive(Debug)]
    pub struct Now;
    #[derive(Debug)]
    pub struct Awaited;

    pub trait Sealed<Kind> {
        fn later(self) -> Option<super::Later>;
    }

    impl Sealed<Now> for () {
        fn later(self) -> Option<super::Later> {
            None
        }
    }

    impl<F: Future<Output = ()> + Send + 'static> Sealed<Awaited> for F {
        fn later(self) -> Option<super::Later> {
            Some(Box::pin(self))
        }
    }
}

/// The callback for a lost term. Boxed: losses are rare.
#[derive(Clone)]
pub(super) struct OnLost(Arc<dyn Fn(LossCause) -> Option<Later> + Send + Sync>);

impl OnLost {
    pub(super) fn new<F, R, Kind>(on_lost: F) -> Self
    where
        F: Fn(LossCause) -> R + Send + Sync + 'static,
        R: LostOutcome<Kind>,
    {
        Self(Arc::new(move |cause| sealed::Sealed::later(on_lost(cause))))
    }

    pub(super) async fn call(&self, cause: LossCause) {
        // A statement of its own: the closure's borrows end with the call.
        let later = (self.0)(cause);
        if let Some(later) = later {
            later.await;
        }
    }
}

impl fmt::Debug for OnLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnLost")
    }
}
