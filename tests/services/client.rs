//! An HTTP client.

use std::net::SocketAddr;

use axum::{Router, body::Body};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// A `Retry-After` of about a second, with jitter.
pub(crate) const SOON: &str = "1 or 2";

/// Serves over TCP, and returns a client.
pub(crate) async fn serve(app: Router) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, app).await.expect("it serves for ever") });
    Client { raw: legacy::Client::builder(TokioExecutor::new()).build_http(), addr }
}

#[derive(Clone, Debug)]
pub(crate) struct Client {
    raw: legacy::Client<HttpConnector, Body>,
    addr: SocketAddr,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    pub(crate) const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the response before its body is read.
    pub(crate) async fn open(
        &self,
        request: Request<Body>,
    ) -> Result<http::Response<hyper::body::Incoming>, legacy::Error> {
        let (mut parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        parts.uri = format!("http://{}{target}", self.addr).parse().expect("a valid path");
        self.raw.request(Request::from_parts(parts, body)).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        self.try_send(request).await.expect("an answer")
    }

    /// Sends a request from a task, whose end is the client's disconnect.
    pub(crate) fn spawn(&self, request: Request<Body>) -> JoinHandle<Answer> {
        let client = self.clone();
        tokio::spawn(async move { client.send(request).await })
    }

    pub(crate) async fn try_send(&self, request: Request<Body>) -> Result<Answer, axum::BoxError> {
        let (head, body) = self.open(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }
}

impl Answer {
    pub(crate) fn code(&self) -> u16 {
        self.status.as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("visible ASCII"))
    }

    /// Asserts a problem body that names no node and no owner.
    #[track_caller]
    pub(crate) fn assert_problem(
        &self,
        status: u16,
        retry_after: Option<&str>,
        code: &str,
        outcome: &str,
    ) {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem: Value = serde_json::from_slice(&self.body).expect("JSON");
        let member = |name: &str| problem[name].as_str().expect("a text").to_owned();
        let found = (self.code(), member("code"), member("outcome"));
        assert_eq!(found, (status, code.to_owned(), outcome.to_owned()));
        assert_eq!(problem["status"], status);
        match (retry_after, self.header("retry-after")) {
            (Some(SOON), found) => assert!(matches!(found, Some("1" | "2")), "{found:?}"),
            (_, found) => assert_eq!(found, retry_after, "{text}"),
        }
        let says_nothing_was_done = member("detail").contains("nothing was done");
        assert_eq!(says_nothing_was_done, outcome == "not-run", "{text}");
        assert!(!text.contains("blue") && !text.contains("node-"), "{text}");
    }

    #[track_caller]
    pub(crate) fn assert_in_progress(&self) {
        self.assert_problem(409, Some(SOON), "in-progress", "not-run");
    }

    #[track_caller]
    pub(crate) fn assert_unknown_outcome(&self) {
        self.assert_problem(409, None, "unknown-outcome", "unknown");
    }

    /// Asserts that the request was done, and that its response can not be replayed.
    #[track_caller]
    pub(crate) fn assert_not_kept(&self) {
        self.assert_problem(409, None, "response-not-kept", "done");
    }

    #[track_caller]
    pub(crate) fn assert_key_reused(&self) {
        self.assert_problem(422, None, "key-reused", "not-run");
    }

    #[track_caller]
    pub(crate) fn assert_bad_key(&self) {
        self.assert_problem(400, None, "bad-key", "not-run");
    }

    #[track_caller]
    pub(crate) fn assert_bad_settings(&self) {
        self.assert_problem(500, None, "bad-settings", "not-run");
    }

    /// Asserts that the response of an earlier request was replayed.
    #[track_caller]
    pub(crate) fn assert_replayed(&self) {
        assert_eq!(self.header("idempotency-replayed"), Some("true"), "{self:?}");
    }

    #[track_caller]
    pub(crate) fn assert_replay_of(&self, body: &str) {
        self.assert_replayed();
        assert_eq!((self.code(), &self.body[..]), (200, body.as_bytes()), "{self:?}");
    }

    /// Asserts the answer to an event that was handled before.
    #[track_caller]
    pub(crate) fn assert_duplicate(&self) {
        assert_eq!((self.code(), self.header("once")), (200, Some("duplicate")), "{self:?}");
        assert!(self.body.is_empty());
    }
}
