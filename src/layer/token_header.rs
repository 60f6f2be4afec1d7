//! The header that carries the fencing token to the service.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::token::FencingToken;

/// The name of the header, if it is set.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenHeader(Option<HeaderName>);

impl TokenHeader {
    /// # Panics
    ///
    /// If `name` is not a valid header name.
    pub(crate) fn new<N>(name: N) -> Self
    where
        N: TryInto<HeaderName>,
        N::Error: fmt::Debug,
    {
        Self(Some(name.try_into().expect("the name of a header")))
    }

    /// Removes the client's value, as only the layer may set the token.
    pub(crate) fn strip(&self, headers: &mut HeaderMap) {
        if let Some(name) = &self.0 {
            headers.remove(name);
        }
    }

    pub(crate) fn set(&self, headers: &mut HeaderMap, token: FencingToken) {
        if let Some(name) = &self.0 {
            headers.insert(name, HeaderValue::from(token.get()));
        }
    }
}
