//! Where a call puts what its caller takes: the head of the response, then its data, one at a time.

use std::sync::{Arc, Mutex, Weak};

use http::Response;
use http_body::{Body, Frame};

use crate::sync;

/// What goes out before the status is known.
pub(super) enum Out<A: Body> {
    Head(Response<()>),
    Data(Frame<A::Data>),
}

type Slot<A> = Mutex<Option<Out<A>>>;

/// The caller's side. Where it is dropped, nobody reads any more.
pub(super) struct Reader<A: Body>(Arc<Slot<A>>);

/// The side of the call, which may outlive its caller.
pub(super) struct Writer<A: Body>(Weak<Slot<A>>);

pub(super) fn slot<A: Body>() -> (Reader<A>, Writer<A>) {
    let slot = Arc::new(Mutex::new(None));
    let writer = Writer(Arc::downgrade(&slot));
    (Reader(slot), writer)
}

impl<A: Body> Reader<A> {
    pub(super) fn take(&self) -> Option<Out<A>> {
        sync::lock(&self.0).take()
    }
}

impl<A: Body> Writer<A> {
    /// The caller has not taken what was put there last.
    pub(super) fn is_full(&self) -> bool {
        self.0.upgrade().is_some_and(|slot| sync::lock(&slot).is_some())
    }

    /// Puts it there; drops it where nobody reads.
    pub(super) fn put(&self, out: Out<A>) {
        if let Some(slot) = self.0.upgrade() {
            let before = sync::lock(&slot).replace(out);
            drop(before);
        }
    }

    pub(super) fn is_read(&self) -> bool {
        self.0.strong_count() > 0
    }
}
