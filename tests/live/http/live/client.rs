//! An HTTP client.

use std::{error::Error, net::SocketAddr};

use axum::{
    Router,
    body::{Body, to_bytes},
};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use tower::ServiceExt;

pub(super) type Raw = legacy::Client<HttpConnector, Empty<Bytes>>;

#[derive(Clone, Debug)]
pub(super) struct Client {
    raw: Raw,
    addr: SocketAddr,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// Sends a request to a router in this process, without a connection.
    pub(crate) async fn of(app: Router, request: Request<Body>) -> Self {
        let (head, body) = app.oneshot(request).await.unwrap().into_parts();
        let text = String::from_utf8(to_bytes(body, 10_000).await.unwrap().into()).unwrap();
        Self { status: head.status, headers: head.headers, text }
    }

    /// The status, and the members `code` and `outcome` of a problem body.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, String, String) {
        assert_eq!(self.headers[http::header::CONTENT_TYPE], "application/problem+json");
        let problem: Value = serde_json::from_str(&self.text).expect("JSON");
        let member = |name: &str| problem[name].as_str().expect("a text").to_owned();
        (self.status.as_u16(), member("code"), member("outcome"))
    }
}

pub(super) fn http1() -> Raw {
    legacy::Client::builder(TokioExecutor::new()).build_http()
}

pub(super) fn request(addr: SocketAddr, method: Method, path: &str) -> Request<Empty<Bytes>> {
    let uri = format!("http://{addr}{path}");
    Request::builder().method(method).uri(uri).body(Empty::new()).expect("a valid path")
}

impl Client {
    pub(super) fn new(raw: Raw, addr: SocketAddr) -> Self {
        Self { raw, addr }
    }

    pub(super) const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The answer with its body still to be read.
    pub(super) async fn open(
        &self,
        method: Method,
        path: &str,
    ) -> Result<Response<Incoming>, legacy::Error> {
        self.raw.request(request(self.addr, method, path)).await
    }

    pub(super) async fn send(&self, method: Method, path: &str) -> Result<Answer, Box<dyn Error>> {
        let (head, body) = self.open(method, path).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        let text = String::from_utf8(body.into())?;
        Ok(Answer { status: head.status, headers: head.headers, text })
    }

    pub(super) async fn post(&self, path: &str) -> Answer {
        self.send(Method::POST, path).await.expect("an answer")
    }
}
