//! Connections: accepted until a signal comes, and then ended after a moment.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use hyper::service::{Service as _, service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::io::InspectReader;
use tower_redlock_dashboard::Dashboard;

use super::activity::Activity;
use crate::{exit::Failure, signals::Signals};

/// Time for responses that have begun.
const GRACE: Duration = Duration::from_secs(1);
/// Maximum length of the head of a request over HTTP/1.1, in bytes. That over HTTP/2 has 16 KiB at most.
const MAX_HEAD: usize = 64 << 10;
/// Pause after a connection that was not accepted: there may be too many open files.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::system(format!("cannot listen on {address}: {error}; --listen takes another one"))
    })
}

/// Serves until a signal comes. Beyond the limit, connections wait to be accepted.
pub(super) async fn accept_until_signal(
    listener: TcpListener,
    limit: usize,
    dashboard: Dashboard,
    signals: &mut Signals,
) {
    let limit = Arc::new(Semaphore::new(limit));
    let (mut connections, graceful) = (JoinSet::new(), GracefulShutdown::new());
    loop {
        tokio::select! {
            _ = signals.recv() => break,
            (stream, permit) = accept(&listener, &limit) => {
                let connection = connection(stream, dashboard.clone(), &graceful);
                connections.spawn(async move {
                    let _permit = permit;
                    connection.await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    dashboard.end_streams();
    let _ = timeout(GRACE, graceful.shutdown()).await;
    // Ends what is left.
    connections.shutdown().await;
}

/// Serves a connection over HTTP/1.1 or HTTP/2: the client chooses.
fn connection<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    dashboard: Dashboard,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + use<S> {
    let activity = Activity::new();
    let (of_requests, service) = (activity.clone(), TowerToHyperService::new(dashboard));
    let service = service_fn(move |request| {
        let (request_is_active, response) = (of_requests.begin(), service.call(request));
        async move {
            let _is_active = request_is_active;
            response.await
        }
    });
    let of_reads = activity.clone();
    let stream = TokioIo::new(InspectReader::new(stream, move |bytes| of_reads.note_read(bytes)));
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().max_buf_size(MAX_HEAD);
    let connection = graceful.watch(http.serve_connection(stream, service).into_owned());
    async move {
        tokio::select! {
            biased;
            ended = connection => if let Err(error) = ended {
                tracing::debug!("a connection has failed: {error}");
            },
            () = activity.expired() => {}
        }
    }
}

async fn accept(
    listener: &TcpListener,
    limit: &Arc<Semaphore>,
) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // Fails only for a closed semaphore, and this one is never closed.
    let permit = Arc::clone(limit).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tower_redlock::{
        Redlock,
        node::{Node, NodeHealth, Op, Reply},
    };
    use tower_redlock_dashboard::Access;

    use super::*;

    /// A node that answers nothing.
    #[derive(Debug, Default)]
    struct Silent(Mutex<Vec<Reply>>);

    impl Node for Silent {
        fn send(&self, _: Op, reply: Reply) {
            self.0.lock().unwrap().push(reply);
        }

        fn name(&self) -> &'static str {
            "silent"
        }

        fn health(&self) -> NodeHealth {
            NodeHealth::voting("silent")
        }
    }

    fn connect() -> DuplexStream {
        connect_to(Redlock::embedded())
    }

    fn connect_to(redlock: Redlock) -> DuplexStream {
        let access = |_: &hyper::http::request::Parts| Access::All;
        let dashboard = Dashboard::new(redlock).access(access);
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        // Its end would end the connection.
        let graceful = Box::leak(Box::new(GracefulShutdown::new()));
        tokio::spawn(connection(theirs, dashboard, graceful));
        ours
    }

    /// Sends a request; whether the response begins.
    async fn is_answered(stream: &mut DuplexStream) -> bool {
        let _ = stream.write_all(b"GET /style.css HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let mut begin = [0; 8];
        if stream.read_exact(&mut begin).await.is_err() {
            return false;
        }
        // The rest of the response, which comes at once.
        let mut rest = vec![0; 1 << 20];
        while let Ok(Ok(1..)) = timeout(Duration::from_millis(1), stream.read(&mut rest)).await {}
        begin == *b"HTTP/1.1"
    }

    async fn is_closed(stream: &mut DuplexStream) -> bool {
        let mut rest = [0; 64];
        matches!(timeout(Duration::from_millis(1), stream.read(&mut rest)).await, Ok(Ok(0)))
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_outlive_balancers() {
        let mut stream = connect();
        for _ in 0..3 {
            assert!(is_answered(&mut stream).await);
            sleep(Duration::from_secs(600)).await;
        }
        sleep(Duration::from_secs(22)).await;
        assert!(is_closed(&mut stream).await);
        let mut unused = connect();
        sleep(Duration::from_secs(12)).await;
        assert!(is_closed(&mut unused).await);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_heads_are_given_up() {
        let mut stream = connect();
        assert!(is_answered(&mut stream).await);
        sleep(Duration::from_secs(60)).await;
        stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        for _ in 0..9 {
            sleep(Duration::from_secs(1)).await;
            stream.write_all(b"a: b\r\n").await.unwrap();
        }
        assert!(!is_closed(&mut stream).await);
        sleep(Duration::from_secs(3)).await;
        assert!(is_closed(&mut stream).await);
    }

    /// Opens a connection over HTTP/2: the preface, and empty settings (RFC 9113, section 3.4).
    async fn begin_http2(mut stream: DuplexStream) -> DuplexStream {
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        send_frame(&mut stream, 4, 0, 0, &[]).await;
        assert_eq!(next_frame(&mut stream).await, 4, "the settings of the server");
        stream
    }

    /// Sends a frame (RFC 9113, section 4.1).
    async fn send_frame(to: &mut DuplexStream, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [&length[..], &[kind, flags], &stream.to_be_bytes()].concat();
        to.write_all(&[&head, payload].concat()).await.unwrap();
    }

    /// Receives a frame. Returns its type.
    async fn next_frame(from: &mut DuplexStream) -> u8 {
        let mut head = [0; 9];
        from.read_exact(&mut head).await.expect("a frame");
        let [a, b, c, kind, ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]).try_into().unwrap();
        from.read_exact(&mut vec![0; length]).await.expect("its payload");
        kind
    }

    #[tokio::test(start_paused = true)]
    async fn http2_is_spoken() {
        let mut stream = begin_http2(connect()).await;
        sleep(Duration::from_secs(60)).await;
        // A ping, after much longer than a head may take.
        send_frame(&mut stream, 6, 0, 0, b"12345678").await;
        sleep(Duration::from_secs(60)).await;
        assert!(!is_closed(&mut stream).await);
    }

    #[tokio::test(start_paused = true)]
    async fn reset_requests_end() {
        let redlock = Redlock::builder().node(Silent::default()).build().unwrap();
        let mut stream = begin_http2(connect_to(redlock)).await;
        // HEADERS with END_STREAM and END_HEADERS: GET, http, and a path, by HPACK's static table.
        let head = [&[0x82, 0x86, 0x04, 15][..], b"/api/once?key=a"].concat();
        send_frame(&mut stream, 1, 5, 1, &head).await;
        sleep(Duration::from_millis(100)).await;

        // RST_STREAM, with CANCEL.
        send_frame(&mut stream, 3, 0, 1, &8_u32.to_be_bytes()).await;

        // The connection is idle from then on.
        sleep(Duration::from_secs(622)).await;
        while timeout(Duration::from_millis(1), stream.read_u8())
            .await
            .is_ok_and(|read| read.is_ok())
        {}
        assert!(is_closed(&mut stream).await, "the request has ended");
    }
}
