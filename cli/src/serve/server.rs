//! Connections: accepted until a signal comes, and then ended after a moment.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tower_redlock_dashboard::Dashboard;

use crate::{exit::Failure, signals::EndSignals};

/// Time for responses that have begun.
const GRACE: Duration = Duration::from_secs(1);
/// Maximum time for the head of a request to arrive, also while none has begun: idle connections are closed.
const HEAD: Duration = Duration::from_secs(10);
/// Pause after a connection that was not accepted: there may be too many open files.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::system(format!("cannot listen on {address}: {error}; --listen takes another one"))
    })
}

/// Serves until a signal comes. Beyond the limit, connections wait to be accepted.
pub(super) async fn serve(
    listener: TcpListener,
    limit: usize,
    dashboard: Dashboard,
    signals: &mut EndSignals,
) {
    let limit = Arc::new(Semaphore::new(limit));
    let service = TowerToHyperService::new(dashboard.clone());
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let (mut connections, graceful) = (JoinSet::new(), GracefulShutdown::new());
    loop {
        tokio::select! {
            _ = signals.recv() => break,
            (stream, permit) = accept(&listener, &limit) => {
                let connection = http.serve_connection(TokioIo::new(stream), service.clone());
                let connection = graceful.watch(connection);
                connections.spawn(async move {
                    let _permit = permit;
                    if let Err(error) = connection.await {
                        tracing::debug!("a connection has failed: {error}");
                    }
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

async fn accept(
    listener: &TcpListener,
    limit: &Arc<Semaphore>,
) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // An error would say that it was closed, which it never is.
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
