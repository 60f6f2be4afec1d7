//! A server over a real connection, and a client whose bodies are streamed.

use std::{convert::Infallible, net::SocketAddr};

use axum::BoxError;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, channel::Channel};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use tokio::net::TcpListener;
use tower::Service;

/// Serves one connection over HTTP/1 or HTTP/2; the service takes hyper's own bodies.
pub(crate) async fn serve<S, B>(service: S) -> SocketAddr
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
        let service = TowerToHyperService::new(service);
        // The client checks how the connection ends.
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    });
    addr
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: Bytes,
}

/// Sends a body of unknown length in pieces, with a trailer at its end, over HTTP/2.
pub(crate) async fn send(addr: SocketAddr, pieces: Vec<Bytes>) -> Answer {
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    tokio::spawn(async move {
        for piece in pieces {
            // A server that has responded may stop reading.
            if sender.send_data(piece).await.is_err() {
                return;
            }
        }
        let trailers: HeaderMap =
            [("x-sum".parse().unwrap(), "7".parse().unwrap())].into_iter().collect();
        let _ = sender.send(Frame::trailers(trailers)).await;
    });
    let request = Request::post(format!("http://{addr}/hook?x=1")).body(body).expect("a request");
    let response = client.request(request).await.expect("an answer");
    let status = response.status().as_u16();
    let text = response.into_body().collect().await.expect("a whole body").to_bytes();
    Answer { status, text }
}
