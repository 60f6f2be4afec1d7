//! Which requests are the same as the first with their key.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, body::Body, routing::post};
use bytes::Bytes;
use http::{
    Request, StatusCode,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, IF_RANGE, RANGE},
};
use tower::ServiceExt;
use tower_redlock::{key::RequestHead, once::Fingerprint};

use super::requests::{layer, pay};
use crate::client::Answer;
use crate::log::Log;
use crate::once_http::fixture::{Fixture, serve};

fn handler(fixture: &Fixture) -> Router {
    let runs = fixture.runs.clone();
    Router::new().route(
        "/pay",
        post(async move |body: Bytes| format!("run {} of {}", runs.run(), body.len())),
    )
}

fn typed(headers: &[(&'static str, &str)], body: &str) -> Request<Body> {
    let mut request = pay("k", body.to_owned());
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

#[track_caller]
fn assert_replayed(answer: &Answer) {
    answer.assert_replayed();
}

#[track_caller]
fn assert_other(answer: &Answer) {
    answer.assert_key_reused();
}

#[tokio::test]
async fn headers_count_where_they_are_named() {
    let fixture = Fixture::new(3);
    let once = layer(&fixture.at_blue).fingerprint_headers([CONTENT_TYPE, ACCEPT]);
    let client = serve(handler(&fixture).route_layer(once)).await;
    let json = ("content-type", "application/json");
    assert_eq!(client.send(typed(&[json], "3")).await.code(), 200);
    assert_replayed(&client.send(typed(&[json], "3")).await);
    let text = ("content-type", "text/plain");
    let other = ("traceparent", "anew");
    assert_replayed(&client.send(typed(&[json, other], "3")).await);
    assert_other(&client.send(typed(&[text], "3")).await);
    assert_other(&client.send(typed(&[json, text], "3")).await);
    assert_other(&client.send(typed(&[], "3")).await);
    assert_other(&client.send(typed(&[json, ("accept", "text/csv")], "3")).await);
    assert_other(&client.send(typed(&[json], "4")).await);
    assert_eq!(fixture.runs.count(), 1);
}

/// The service gets `accept-encoding: identity`, and no range.
#[tokio::test]
async fn headers_count_as_they_were_sent() {
    let hook = |head: &RequestHead<'_>, _: &[u8]| {
        let sent = [ACCEPT_ENCODING, RANGE, IF_RANGE].map(|name| head.headers().get(name));
        Fingerprint::of(head, format!("{sent:?}").as_bytes())
    };
    for is_hook in [false, true] {
        let fixture = Fixture::new(3);
        let once = layer(&fixture.at_blue);
        let once = if is_hook {
            once.fingerprint(hook)
        } else {
            once.fingerprint_headers([ACCEPT_ENCODING, RANGE, IF_RANGE])
        };
        let client = serve(handler(&fixture).route_layer(once)).await;
        let gzip = ("accept-encoding", "gzip");
        assert_eq!(client.send(typed(&[gzip], "3")).await.code(), 200);
        assert_replayed(&client.send(typed(&[gzip], "3")).await);
        assert_other(&client.send(typed(&[], "3")).await);
        assert_other(&client.send(typed(&[("accept-encoding", "identity")], "3")).await);
        assert_other(&client.send(typed(&[gzip, ("range", "bytes=0-3")], "3")).await);
        assert_other(&client.send(typed(&[gzip, ("if-range", "\"x\"")], "3")).await);
        assert_eq!(fixture.runs.count(), 1);
    }
}

#[tokio::test]
async fn json_counts_by_its_meaning() {
    let fixture = Fixture::new(3);
    let once = layer(&fixture.at_blue).fingerprint_json(["/sent_at"]);
    let client = serve(handler(&fixture).route_layer(once)).await;
    let send = async |body: &'static str| client.send(typed(&[], body)).await;
    assert_eq!(send(r#"{"sum":3,"to":"a/b","sent_at":1}"#).await.code(), 200);
    assert_replayed(&send(r#"{ "to": "a\/b", "sent_at": 2, "sum": 3 }"#).await);
    assert_other(&send(r#"{"sum":4,"to":"a/b","sent_at":1}"#).await);
    assert_other(&send(r#"{"sum":3,"to":"a/b","sum":3}"#).await);
    assert_eq!(fixture.runs.count(), 1);
    for pointer in ["", "sent_at", "/a~2"] {
        let set = || layer(&fixture.at_blue).fingerprint_json([pointer]);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(set));
        assert!(outcome.is_err(), "{pointer:?}");
    }
}

#[tokio::test]
async fn other_fingerprint_settings_are_422() {
    let fixture = Fixture::new(3);
    let serve = async |once| serve(handler(&fixture).route_layer(once)).await;
    let hook = |head: &RequestHead<'_>, body: &[u8]| Fingerprint::of(head, body);
    let settings = [
        serve(layer(&fixture.at_blue)).await,
        serve(layer(&fixture.at_blue).fingerprint_headers([CONTENT_TYPE])).await,
        serve(layer(&fixture.at_blue).fingerprint_headers([ACCEPT])).await,
        serve(layer(&fixture.at_blue).fingerprint(hook)).await,
        serve(layer(&fixture.at_blue).fingerprint_json([])).await,
        serve(layer(&fixture.at_blue).fingerprint_json(["/at"])).await,
    ];
    for (i, first) in settings.iter().enumerate() {
        let request = || {
            let mut request = typed(&[], "3");
            let key = format!("k-{i}").parse().unwrap();
            request.headers_mut().insert("idempotency-key", key);
            request
        };
        assert_eq!(first.send(request()).await.code(), 200);
        for (j, client) in settings.iter().enumerate() {
            let again = client.send(request()).await;
            if i == j { assert_replayed(&again) } else { assert_other(&again) }
        }
    }
    // Names in another order, and twice, are the same setting; no names are none.
    let both = serve(layer(&fixture.at_blue).fingerprint_headers([CONTENT_TYPE, ACCEPT])).await;
    assert_eq!(both.send(typed(&[], "3")).await.code(), 200);
    let names = [ACCEPT, CONTENT_TYPE, ACCEPT];
    let same = serve(layer(&fixture.at_green).fingerprint_headers(names)).await;
    assert_replayed(&same.send(typed(&[], "3")).await);
    let none = layer(&fixture.at_blue).fingerprint(hook).fingerprint_headers([]);
    let mut request = typed(&[], "3");
    request.headers_mut().insert("idempotency-key", "k-0".parse().unwrap());
    assert_replayed(&serve(none).await.send(request).await);
}

/// The pieces between boundaries, each with its length.
fn of_parts(head: &RequestHead<'_>, body: &[u8]) -> Fingerprint {
    let content_type = head.headers()[CONTENT_TYPE].to_str().unwrap();
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    let delimiter = format!("--{boundary}").into_bytes();
    let (mut rest, mut pieces) = (body, Vec::new());
    while let Some(end) = rest.windows(delimiter.len()).position(|at| at == delimiter) {
        pieces.extend((end as u64).to_be_bytes());
        pieces.extend(&rest[..end]);
        rest = &rest[end + delimiter.len()..];
    }
    pieces.extend(rest);
    Fingerprint::of(head, &pieces)
}

/// A form with a field and a file, as RFC 7578 has it.
fn upload(boundary: &str, amount: u32, file: &[u8]) -> Request<Body> {
    let mut body = format!(
        "--{boundary}\r\n\
         Content-Disposition: form-data; name=\"amount\"\r\n\r\n\
         {amount}\r\n\
         --{boundary}\r\n\
         Content-Disposition: form-data; name=\"receipt\"; filename=\"receipt.png\"\r\n\
         Content-Type: image/png\r\n\r\n"
    )
    .into_bytes();
    body.extend(file);
    body.extend(format!("\r\n--{boundary}--\r\n").bytes());
    let mut request = pay("k", body);
    let content_type = format!("multipart/form-data; boundary={boundary}");
    request.headers_mut().insert(CONTENT_TYPE, content_type.parse().unwrap());
    request
}

const FIRST: &str = "----formdata-7MA4YWxkTrZu0gW";
const AGAIN: &str = "----formdata-0pZl2HqYtR9sKd3";

#[tokio::test]
async fn custom_fingerprint_ignores_boundaries() {
    let (fixture, file) = (Fixture::new(3), b"\x89PNG\r\n\x1a\n\0--\xff");
    let client = serve(handler(&fixture).route_layer(layer(&fixture.at_blue))).await;
    assert_eq!(client.send(upload(FIRST, 3, file)).await.code(), 200);
    assert_other(&client.send(upload(AGAIN, 3, file)).await);

    let fixture = Fixture::new(3);
    let once = layer(&fixture.at_blue).fingerprint(of_parts);
    let client = serve(handler(&fixture).route_layer(once)).await;
    let first = client.send(upload(FIRST, 3, file)).await;
    assert_eq!(first.code(), 200);
    for boundary in [FIRST, AGAIN] {
        let again = client.send(upload(boundary, 3, file)).await;
        assert_replayed(&again);
        assert_eq!(again.body, first.body);
        assert_other(&client.send(upload(boundary, 30, file)).await);
        assert_other(&client.send(upload(boundary, 3, &file[1..])).await);
    }
    let mut elsewhere = upload(AGAIN, 3, file);
    *elsewhere.uri_mut() = "/pay".parse().unwrap();
    assert_other(&client.send(elsewhere).await);
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn panicking_fingerprint_runs_nothing() {
    let fixture = Fixture::new(3);
    let asked = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&asked);
    let once = layer(&fixture.at_blue).fingerprint(move |head, body| {
        count.fetch_add(1, Ordering::SeqCst);
        assert_ne!(body, b"panic", "on purpose");
        Fingerprint::of(head, body)
    });
    let client = serve(handler(&fixture).route_layer(once)).await;
    assert!(client.try_send(typed(&[], "panic")).await.is_err(), "the server hangs up");
    fixture.is_free().await;
    assert_eq!(client.send(typed(&[], "3")).await.status, StatusCode::OK);
    assert_replayed(&client.send(typed(&[], "3")).await);
    assert_eq!((fixture.runs.count(), asked.load(Ordering::SeqCst)), (1, 3));
}

#[tokio::test]
async fn reused_key_is_a_warning() {
    let fixture = Fixture::new(3);
    let app = handler(&fixture).route_layer(layer(&fixture.at_blue));
    let log = Log::new();
    let send = async |body: &str| {
        let answer = app.clone().oneshot(pay("k", body.to_owned())).await;
        answer.unwrap().status().as_u16()
    };

    let codes = log.during(async { [send("1").await, send("2").await] }).await;

    assert_eq!(codes, [200, 422]);
    let text = log.text();
    let line = text.lines().find(|line| line.starts_with("WARN message=request rejected"));
    assert!(line.is_some_and(|line| line.contains("outcome=key-reused")), "{text}");
}
