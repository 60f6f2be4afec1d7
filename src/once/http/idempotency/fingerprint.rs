//! Which requests are the same as the first with their key.

use std::sync::Arc;

use http::HeaderName;

use crate::{key::RequestHead, once::Fingerprint};

/// How requests are compared.
#[derive(Clone, Default)]
pub(super) enum FingerprintRule {
    /// Compares method, path, query and body.
    #[default]
    Request,
    /// Also compares these headers, sorted by name.
    Headers(Arc<[HeaderName]>),
    /// Compares method, path, query, and the meaning of a JSON body, without what is at these pointers.
    Json(Arc<[Arc<[String]>]>),
    /// Calls the user's function.
    Replaced(Arc<Replacement>),
}

type Replacement = dyn Fn(&RequestHead<'_>, &[u8]) -> Fingerprint + Send + Sync;

impl FingerprintRule {
    /// Calls a user's function: not under a mutex.
    pub(super) fn fingerprint(&self, head: &RequestHead<'_>, body: &[u8]) -> Fingerprint {
        match self {
            Self::Request => Fingerprint::of(head, body),
            Self::Headers(names) => Fingerprint::with_headers(head, body, names),
            Self::Json(left_out) => Fingerprint::of_json(head, body, left_out),
            Self::Replaced(by) => Fingerprint::replaced(by(head, body)),
        }
    }
}
