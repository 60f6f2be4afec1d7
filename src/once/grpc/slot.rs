//! Passes the response from a call to its caller: the head, then the data, one item at a time.

use std::sync::{Arc, Weak};

use http::Response;
use http_body::{Body, Frame};

use crate::sync::{self, Mutex};

/// A part of the response that is sent before the status is known.
pub(super) enum Out<A: Body> {
    Head(Response<()>),
    Data(Frame<A::Data>),
}

type Slot<A> = Mutex<Option<Out<A>>>;

/// The caller's side. Dropping it ends the reading.
pub(super) struct Reader<A: Body>(Arc<Slot<A>>);

/// The call's side, which may outlive the caller.
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
    /// Returns whether the caller has not taken the last item yet.
    pub(super) fn is_full(&self) -> bool {
        self.0.upgrade().is_some_and(|slot| sync::lock(&slot).is_some())
    }

    /// Passes an item to the reader, or drops it without one.
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

#[cfg(test)]
mod tests {
    use super::*;

    type Full = http_body_util::Full<bytes::Bytes>;

    #[test]
    fn writer_notices_dropped_reader() {
        let (reader, writer) = slot::<Full>();
        assert!(writer.is_read() && !writer.is_full());
        writer.put(Out::Data(Frame::data("x".into())));
        assert!(writer.is_full());
        assert!(reader.take().is_some() && reader.take().is_none());
        writer.put(Out::Data(Frame::data("x".into())));
        drop(reader);
        assert!(!writer.is_read() && !writer.is_full());
    }
}
