//! What a request and its response do to the connection, for the layers that refuse upgrades.

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, UPGRADE},
};
use http_body::Body;

use super::HttpBody;
use crate::{
    reject::{OnReject, Rejecter, Rejection, RequestOutcome, problem},
    resource::Resource,
};

/// Whether a request may end HTTP on its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionUse {
    connects: bool,
    /// Whether the handler may have taken the connection, which it gets when HTTP ends on it. In
    /// HTTP/2 a stream is handed over with its response, or never.
    may_upgrade: bool,
}

impl ConnectionUse {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let connects = request.method() == Method::CONNECT;
        let may_upgrade = request.version() < Version::HTTP_2
            && (connects || request.headers().contains_key(UPGRADE));
        Self { connects, may_upgrade }
    }

    /// Returns whether the response changes the protocol of the connection.
    pub(super) fn is_upgraded_by<A>(self, response: &Response<A>) -> bool {
        response.status() == StatusCode::SWITCHING_PROTOCOLS
            || (self.connects && response.status().is_success())
    }

    /// Returns a response that does not change the protocol of the connection. Drops one that does, as no
    /// layer can end the session there, and logs the reason.
    ///
    /// # Errors
    ///
    /// The response to [`refuse`](Self::refuse) with.
    #[expect(clippy::result_large_err, reason = "both are responses")]
    pub(crate) fn without_upgrade<A>(
        self,
        response: Response<A>,
        resource: Option<&Resource>,
        reason: &str,
    ) -> Result<Response<A>, Response<Bytes>> {
        if self.is_upgraded_by(&response) {
            Err(unguarded_upgrade(resource, reason))
        } else {
            Ok(response)
        }
    }

    /// Makes the response to a rejected request.
    pub(crate) fn reject<A: Body>(
        self,
        rejecter: &Rejecter<impl OnReject<Response<Bytes>>>,
        rejection: Rejection<'_>,
    ) -> Response<HttpBody<A>> {
        self.answer(rejection.has_begun(), rejecter.reject(rejection))
    }

    /// Sends the response of a layer; `has_begun` if the handler was called.
    pub(crate) fn answer<A: Body>(
        self,
        has_begun: bool,
        (answer, outcome): (Response<Bytes>, RequestOutcome),
    ) -> Response<HttpBody<A>> {
        let answer = if has_begun { self.refuse(answer) } else { answer.map(HttpBody::of_bytes) };
        outcome.mark(answer)
    }

    /// Responds instead of a handler that has started. The handler does not get the connection either.
    pub(crate) fn refuse<A: Body>(self, mut answer: Response<Bytes>) -> Response<HttpBody<A>> {
        if !self.may_upgrade {
            return answer.map(HttpBody::of_bytes);
        }
        let headers = answer.headers_mut();
        // A server does not poll beyond the announced length.
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        answer.map(HttpBody::of_last_bytes)
    }
}

/// Logs the reason, and makes the response instead of one that upgrades the connection.
pub(super) fn unguarded_upgrade(resource: Option<&Resource>, reason: &str) -> Response<Bytes> {
    let resource = resource.map(tracing::field::display);
    crate::log::error!(resource, "upgrade refused: {reason}");
    problem(
        StatusCode::INTERNAL_SERVER_ERROR,
        "upgrade-unguarded",
        "the request ran, and the connection can't be upgraded: its session would not be guarded",
        "unknown",
    )
}
