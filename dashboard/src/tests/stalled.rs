//! Tests of viewers that receive nothing: connections over HTTP/2 with a flow-control window of zero.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use hyper::server::conn::http2;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::{Access, Dashboard, of};
use crate::events::EventLog;

const STREAM: &str = "/api/events/stream";
/// Number of streams that a dashboard has.
const STREAMS: usize = 256;
const HANG_GUARD: Duration = Duration::from_secs(20);

/// Serves a dashboard over HTTP/2.
async fn serve(dashboard: Dashboard) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let (stream, service) =
                (TokioIo::new(connection), TowerToHyperService::new(dashboard.clone()));
            let http = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http.serve_connection(stream, service));
        }
    });
    address
}

/// Sends GETs on one connection that lets the server send no byte of a body (RFC 9113, section 6.5.2). Returns the
/// connection once the head of each response has arrived.
async fn stall(address: SocketAddr, path: &str, requests: usize) -> TcpStream {
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    // SETTINGS with SETTINGS_INITIAL_WINDOW_SIZE = 0.
    connection.write_all(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])).await.unwrap();
    for request in 0..requests {
        let stream = u32::try_from(2 * request + 1).unwrap();
        // HEADERS with END_STREAM and END_HEADERS: GET, http, and the path, by HPACK's static table.
        let mut head = vec![0x82, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        head.extend(path.as_bytes());
        connection.write_all(&frame(1, 5, stream, &head)).await.unwrap();
    }
    let mut heads = 0;
    while heads < requests {
        let mut header = [0; 9];
        connection.read_exact(&mut header).await.expect("a frame");
        let [a, b, c, kind, ..] = header;
        let length = u32::from_be_bytes([0, a, b, c]).try_into().unwrap();
        let mut payload: Vec<u8> = vec![0; length];
        connection.read_exact(&mut payload).await.expect("its payload");
        if kind == 1 {
            // `:status: 200` of the static table.
            assert_eq!(payload[0], 0x88, "the response begins");
            heads += 1;
        }
    }
    connection
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[tokio::test]
async fn stalled_streams_end_in_time() {
    let mut dashboard = of(Access::ReadOnly);
    dashboard.0.log = Arc::new(EventLog::with_stream_time(Duration::from_secs(2)));
    let log = Arc::clone(&dashboard.0.log);
    let address = serve(dashboard).await;

    let _connections =
        [stall(address, STREAM, STREAMS / 2).await, stall(address, STREAM, STREAMS / 2).await];

    let ended = timeout(HANG_GUARD, log.streams_have_ended()).await;
    ended.expect("the streams end although nothing reads them");
}
