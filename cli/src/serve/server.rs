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
        of_requests.begin();
        let (response, of_request) = (service.call(request), of_requests.clone());
        async move {
            let response = response.await;
            of_request.end();
            response
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tower_redlock::Redlock;

    use super::*;

    fn connect() -> DuplexStream {
        let dashboard = Dashboard::new(Redlock::embedded());
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

    /// The preface of a client, and its empty settings (RFC 9113, section 3.4).
    #[tokio::test(start_paused = true)]
    async fn http2_is_spoken() {
        let mut stream = connect();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
        let mut frame = [0; 9];
        stream.read_exact(&mut frame).await.unwrap();
        assert_eq!(frame[3], 4, "settings: {frame:?}");
        sleep(Duration::from_secs(60)).await;
        // A ping, after much longer than a head may take.
        stream.write_all(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]).await.unwrap();
        sleep(Duration::from_secs(60)).await;
        assert!(!is_closed(&mut stream).await);
    }
}
