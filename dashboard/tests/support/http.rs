//! Plain requests, for what a browser does not send or show.

use ::http::{HeaderMap, Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

/// An answer that has been read whole.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answered {
    /// A header's value, if there is exactly one.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

pub(crate) async fn get(url: &str) -> Answered {
    send(Method::GET, url, &[], "").await
}

/// Sends a form, with further headers.
pub(crate) async fn post(url: &str, headers: &[(&str, &str)], form: &str) -> Answered {
    let content = ("content-type", "application/x-www-form-urlencoded");
    send(Method::POST, url, &[&[content], headers].concat(), form).await
}

/// Sends a request and reads the answer; redirects are not followed.
pub(crate) async fn send(
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answered {
    let client: Client<HttpConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::from(body.to_owned())).expect("a valid request");
    let exchange = async {
        let answer = client.request(request).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.expect("the body is whole").to_bytes();
        let body = String::from_utf8(body.to_vec()).expect("UTF-8");
        Answered { status: parts.status, headers: parts.headers, body }
    };
    tokio::time::timeout(super::HANG_GUARD, exchange)
        .await
        .unwrap_or_else(|_| panic!("{url} is not answered"))
}
