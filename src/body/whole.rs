use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;

/// A body that was read to its end.
#[derive(Clone, Default, PartialEq)]
pub struct WholeBody {
    data: Bytes,
    trailers: Option<HeaderMap>,
}

impl WholeBody {
    /// Its data.
    pub const fn data(&self) -> &Bytes {
        &self.data
    }

    /// Its trailers, if it has any.
    pub const fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_ref()
    }

    /// Its data and its trailers.
    pub fn into_parts(self) -> (Bytes, Option<HeaderMap>) {
        (self.data, self.trailers)
    }
}

/// A body of these bytes, without trailers.
impl From<Bytes> for WholeBody {
    fn from(data: Bytes) -> Self {
        Self { data, trailers: None }
    }
}

/// Bodies may hold secrets: only the length is shown.
impl fmt::Debug for WholeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WholeBody");
        shown.field("bytes", &self.data.len()).finish_non_exhaustive()
    }
}

/// What was read of a body so far.
#[derive(Default)]
pub(super) struct Collected {
    /// All of it, as long as there was one frame: the usual case, and then nothing is copied.
    first: Bytes,
    /// All of it, from the second frame on.
    all: BytesMut,
    trailers: Option<HeaderMap>,
}

impl Collected {
    pub(super) fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    pub(super) fn add(&mut self, mut data: impl Buf) {
        if self.len() == 0 {
            self.first = data.copy_to_bytes(data.remaining());
        } else if data.has_remaining() {
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
            self.all.reserve(data.remaining());
            while data.has_remaining() {
                let chunk = data.chunk();
                let len = chunk.len();
                self.all.extend_from_slice(chunk);
                data.advance(len);
            }
        }
    }

    pub(super) fn add_trailers(&mut self, trailers: HeaderMap) {
        match &mut self.trailers {
            Some(earlier) => earlier.extend(trailers),
            None => self.trailers = Some(trailers),
        }
    }

    pub(super) fn finish(self) -> WholeBody {
        let data = if self.all.is_empty() { self.first } else { self.all.freeze() };
        WholeBody { data, trailers: self.trailers }
    }
}
