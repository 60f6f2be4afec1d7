//! One principal on several hosts.

use std::net::SocketAddr;

use axum::{Router, body::Body, routing::post};
use http::{Request, header::HOST};
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::requests::{layer, pay};
use crate::once_http::fixture::{Fixture, Runs, serve};

fn app(runs: &Runs) -> Router {
    let runs = runs.clone();
    Router::new().route("/pay", post(async move || runs.run().to_string()))
}

fn at(host: &str) -> Request<Body> {
    let mut request = pay("k", "x");
    request.headers_mut().insert(HOST, host.parse().unwrap());
    request
}

/// Returns the body of the response over a new connection.
async fn over_http2(addr: SocketAddr, target: &str) -> String {
    let stream = TokioIo::new(TcpStream::connect(addr).await.unwrap());
    let connected = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await;
    let (mut sender, connection) = connected.unwrap();
    tokio::spawn(connection);
    let mut request = pay("k", "x");
    request.headers_mut().remove(HOST);
    *request.uri_mut() = format!("{target}/pay?now=1").parse().unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.version(), http::Version::HTTP_2);
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().into()).unwrap()
}

/// Returns the response to a request with these lines in its head, over HTTP/1.0.
async fn over_http10(addr: SocketAddr, lines: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let request = format!(
        "POST /pay?now=1 HTTP/1.0\r\nx-caller: alice\r\nidempotency-key: k\r\ncontent-length: 1\r\n{lines}\r\nx"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn hosts_have_keys_of_their_own() {
    let fixture = Fixture::new(3);
    let client = serve(app(&fixture.runs).route_layer(layer(&fixture.at_blue))).await;
    for replayed in [None, Some("true")] {
        for (host, run) in [("a.example", "1"), ("b.example", "2"), ("a.example:8080", "3")] {
            let answer = client.send(at(host)).await;
            assert_eq!(
                (&answer.body[..], answer.header("idempotency-replayed")),
                (run.as_bytes(), replayed)
            );
        }
    }
}

#[tokio::test]
async fn http_versions_name_one_host_alike() {
    let fixture = Fixture::new(3);
    let client = serve(app(&fixture.runs).route_layer(layer(&fixture.at_blue))).await;
    assert_eq!(client.send(at("a.example")).await.body, "1");
    assert_eq!(client.send(at("A.Example")).await.body, "1");
    let addr = client.addr();
    assert_eq!(over_http2(addr, "http://a.example").await, "1");
    assert_eq!(over_http2(addr, "http://a.example:80").await, "1");
    assert_eq!(over_http2(addr, "http://b.example").await, "2");
    assert_eq!(client.send(at("b.example")).await.body, "2");
    assert!(over_http10(addr, "host: b.example\r\n").await.ends_with("\r\n\r\n2"));
}

#[tokio::test]
async fn missing_hosts_share_keys() {
    let fixture = Fixture::new(3);
    let client = serve(app(&fixture.runs).route_layer(layer(&fixture.at_blue))).await;
    assert_eq!(client.send(at("a.example")).await.body, "1");
    for replayed in [false, true] {
        let answer = over_http10(client.addr(), "").await;
        assert!(answer.ends_with("\r\n\r\n2"), "{answer}");
        assert_eq!(answer.contains("idempotency-replayed: true"), replayed, "{answer}");
    }
    let name = "idempotency:pay:///5:alice:k";
    assert!(fixture.at_green.once_key(name).status().await.unwrap().is_some());
}

#[tokio::test]
async fn two_hosts_are_a_bad_request() {
    let fixture = Fixture::new(3);
    let client = serve(app(&fixture.runs).route_layer(layer(&fixture.at_blue))).await;
    for host in ["a b", "user@a.example"] {
        client.send(at(host)).await.assert_bad_key();
    }
    let twice = over_http10(client.addr(), "host: a.example\r\nhost: b.example\r\n").await;
    assert!(twice.starts_with("HTTP/1.0 400"), "{twice}");
    assert_eq!(fixture.runs.count(), 0);
}

#[tokio::test]
async fn any_host_shares_keys() {
    let fixture = Fixture::new(3);
    let client = serve(app(&fixture.runs).route_layer(layer(&fixture.at_blue).any_host())).await;
    assert_eq!(client.send(at("a.example")).await.body, "1");
    assert_eq!(client.send(at("b.example")).await.body, "1");
    assert_eq!(over_http2(client.addr(), "http://c.example").await, "1");
    assert!(over_http10(client.addr(), "").await.ends_with("\r\n\r\n1"));
    assert!(
        fixture.at_green.once_key("idempotency:pay:5:alice:k").status().await.unwrap().is_some()
    );
}
