//! Sources of the token of a request.

use std::{borrow::Cow, fmt};

use crate::token::{FencingToken, TOKEN_LIMIT};

/// Finds the fencing token of a request.
///
/// Implemented by closures: they take `&Request` and return a [`FencingToken`], its number, or an
/// `Option` or `Result` of one. For [`http::Request`](https://docs.rs/http)s, a header name is a
/// source too.
pub trait TokenSource<Request> {
    /// Returns the token of a request.
    ///
    /// # Errors
    ///
    /// [`TokenError`] if there is none, or an unreadable one. The request does not run.
    fn token(&self, request: &Request) -> Result<FencingToken, TokenError>;
}

impl<Request, F, T> TokenSource<Request> for F
where
    F: Fn(&Request) -> T,
    T: IntoToken,
{
    fn token(&self, request: &Request) -> Result<FencingToken, TokenError> {
        self(request).into_token()
    }
}

/// A type that a closure may return as a token.
pub trait IntoToken {
    /// Converts to a token.
    ///
    /// # Errors
    ///
    /// [`TokenError`] if there is none.
    fn into_token(self) -> Result<FencingToken, TokenError>;
}

impl IntoToken for FencingToken {
    fn into_token(self) -> Result<FencingToken, TokenError> {
        Ok(self)
    }
}

impl IntoToken for u64 {
    fn into_token(self) -> Result<FencingToken, TokenError> {
        Ok(FencingToken::new(self))
    }
}

impl<T: IntoToken> IntoToken for Option<T> {
    fn into_token(self) -> Result<FencingToken, TokenError> {
        self.ok_or(TokenError::Missing("the request has no fencing token".into()))?.into_token()
    }
}

impl<T: IntoToken, E: Into<TokenError>> IntoToken for Result<T, E> {
    fn into_token(self) -> Result<FencingToken, TokenError> {
        self.map_err(Into::into)?.into_token()
    }
}

/// The error of a request without a usable token. The texts are sent to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// The request has no token.
    Missing(Cow<'static, str>),
    /// The token is invalid.
    Invalid(Cow<'static, str>),
}

impl TokenError {
    pub(super) fn invalid(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid(reason.into())
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Missing(reason) | Self::Invalid(reason)) = self;
        f.write_str(reason)
    }
}

impl std::error::Error for TokenError {}

/// Checks that a number can be a token.
pub(super) fn checked(token: FencingToken) -> Result<FencingToken, TokenError> {
    match token.get() {
        0 => Err(TokenError::invalid(
            "the fencing token is zero: the lock's manager was built without fencing",
        )),
        1..TOKEN_LIMIT => Ok(token),
        _ => Err(TokenError::invalid("the fencing token is not below 2^53")),
    }
}

/// The default source of tokens: the header `fencing-token`.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultHeader(());

/// The header in which a [`FencingLayer`](crate::FencingLayer) finds the token by default:
/// `fencing-token`.
#[cfg(feature = "http")]
pub const DEFAULT_HEADER: http::HeaderName = http::HeaderName::from_static("fencing-token");

#[cfg(feature = "http")]
impl<B> TokenSource<http::Request<B>> for DefaultHeader {
    fn token(&self, request: &http::Request<B>) -> Result<FencingToken, TokenError> {
        DEFAULT_HEADER.token(request)
    }
}

/// Reads decimal digits from a header that is present once.
#[cfg(feature = "http")]
impl<B> TokenSource<http::Request<B>> for http::HeaderName {
    fn token(&self, request: &http::Request<B>) -> Result<FencingToken, TokenError> {
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
                "the header {self} is not a fencing token: it must be a decimal number below 2^53"
            ))),
        }
    }
}
