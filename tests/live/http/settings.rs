//! The parts of the request that the layer sets for the service.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::pin,
    task::Poll,
};

use bytes::Bytes;
use http::{HeaderName, Request, Response};
use http_body_util::Empty;
use tower::{Layer, Service, service_fn};
use tower_redlock::LockContext;

use crate::http::fixture::{Fixture, HttpLayer, poll};

const TOKEN: &str = "fencing-token";

/// The request as the service sees it.
fn seen(layer: &HttpLayer, request: Request<()>) -> Request<()> {
    let (send, requests) = std::sync::mpsc::channel();
    let service = service_fn(move |request: Request<()>| -> Ready<Result<_, Infallible>> {
        send.send(request).unwrap();
        ready(Ok(Response::new(Empty::<Bytes>::new())))
    });
    let Poll::Ready(Ok(response)) = poll(pin!(layer.layer(service).call(request))) else {
        panic!()
    };
    assert_eq!(response.status(), 200);
    requests.recv().unwrap()
}

fn tokens(request: &Request<()>) -> Vec<&[u8]> {
    request.headers().get_all(TOKEN).iter().map(http::HeaderValue::as_bytes).collect()
}

fn spoofed(method: http::Method) -> Request<()> {
    let request = Request::builder().method(method).uri("/");
    request.header(TOKEN, "1").header("Fencing-Token", "9007199254740991").body(()).unwrap()
}

#[test]
fn service_finds_context_of_its_lock() {
    let fixture = Fixture::new();
    let request = seen(&fixture.layer(), Request::post("/").body(()).unwrap());
    let context = request.extensions().get::<LockContext>().expect("guarded");
    assert_eq!(context.resource().to_string(), "x");
    assert!(tokens(&request).is_empty(), "only where it is asked for");
    let request = seen(&fixture.layer(), Request::get("/").body(()).unwrap());
    assert!(request.extensions().get::<LockContext>().is_none(), "unguarded");
}

#[test]
fn client_cannot_set_the_token_header() {
    let fixture = Fixture::new();
    let layer = fixture.layer().token_header(TOKEN);
    let request = seen(&layer, spoofed(http::Method::POST));
    let token = request.extensions().get::<LockContext>().unwrap().fencing_token();
    assert_eq!(tokens(&request), [token.to_string().as_bytes()]);

    let request = seen(&layer, spoofed(http::Method::GET));
    assert!(tokens(&request).is_empty(), "a request without a lock has no token");
}

#[test]
fn without_token_header_headers_pass_unchanged() {
    let fixture = Fixture::new();
    for method in [http::Method::POST, http::Method::GET] {
        assert_eq!(tokens(&seen(&fixture.layer(), spoofed(method))).len(), 2);
    }
}

#[test]
fn token_header_takes_any_name_type() {
    let fixture = Fixture::new();
    let _ = fixture.layer().token_header(HeaderName::from_static(TOKEN));
    let _ = fixture.layer().token_header(String::from(TOKEN));
}

#[test]
#[should_panic(expected = "the name of a header")]
fn invalid_token_header_panics() {
    let _ = Fixture::new().layer().token_header("fencing token");
}
