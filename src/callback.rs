//! Callbacks of the application that may be plain or async.

use std::{future::Future, pin::Pin};

/// The rest of a callback that is async.
pub(crate) type Later = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a callback may return: nothing, or a future that is awaited. `Kind` tells the two apart, and is
/// inferred.
pub trait CallbackOutput<Kind>: sealed::Sealed<Kind> {}

impl CallbackOutput<sealed::Now> for () {}
impl<F: Future<Output = ()> + Send + 'static> CallbackOutput<sealed::Awaited> for F {}

/// Returns the future of an async callback.
pub(crate) fn later<Kind>(output: impl CallbackOutput<Kind>) -> Option<Later> {
    sealed::Sealed::later(output)
}

mod sealed {
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
