//! A body that was read to its end.

use std::fmt;

use bytes::Bytes;
use http::HeaderMap;

/// A body that was read to its end.
#[derive(Clone, Default, PartialEq)]
pub struct WholeBody {
    pub(super) data: Bytes,
    pub(super) trailers: Option<HeaderMap>,
}

impl WholeBody {
    /// Returns its data.
    pub const fn data(&self) -> &Bytes {
        &self.data
    }

    /// Returns its trailers, if any.
    pub const fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_ref()
    }

    /// Returns its data and trailers.
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

/// Shows only the length: bodies may hold secrets.
impl fmt::Debug for WholeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WholeBody");
        shown.field("bytes", &self.data.len()).finish_non_exhaustive()
    }
}
