use http::{HeaderName, Request};

use super::{DefaultHeader, TokenError, TokenSource};
use crate::token::FencingToken;

/// Where a [`FencingLayer`](crate::FencingLayer) looks for the token: `fencing-token`.
pub const DEFAULT_HEADER: HeaderName = HeaderName::from_static("fencing-token");

impl<B> TokenSource<Request<B>> for DefaultHeader {
    fn token(&self, request: &Request<B>) -> Result<FencingToken, TokenError> {
        DEFAULT_HEADER.token(request)
    }
}

/// Decimal digits, once.
impl<B> TokenSource<Request<B>> for HeaderName {
    fn token(&self, request: &Request<B>) -> Result<FencingToken, TokenError> {
        let mut values = request.headers().get_all(self).iter();
        let Some(value) = values.next() else {
            return Err(TokenError::Missing(format!("the header {self} is missing").into()));
        };
        if values.next().is_some() {
            return Err(TokenError::invalid(format!("the header {self} is given more than once")));
        }
        let number = Some(value.as_bytes())
            .filter(|digits| digits.iter().all(u8::is_ascii_digit))
            .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        match number {
            Some(number) => Ok(FencingToken::new(number)),
            None => Err(TokenError::invalid(format!(
                "the header {self} is no fencing token: decimal digits alone, below 2^53"
            ))),
        }
    }
}
