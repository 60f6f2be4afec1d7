//! Connections: accepted until a signal comes, and then ended after a moment.

use std::{net::SocketAddr, time::Duration};

use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tower_redlock_dashboard::Dashboard;

use crate::{exit::Failure, signals::EndSignals};

/// Time for responses that have begun.
const GRACE: Duration = Duration::from_secs(1);
/// Pause after a connection that was not accepted: there may be too many open files.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::system(format!("cannot listen on {address}: {error}; --listen takes another one"))
    })
}

/// Serves until a signal comes.
pub(super) async fn serve(listener: TcpListener, dashboard: Dashboard, signals: &mut EndSignals) {
    let service = TowerToHyperService::new(dashboard.clone());
    let mut http = http1::Builder::new();
    // For the limit of the time in which a request's head has to arrive, 30 s.
    http.timer(TokioTimer::new());
    let (mut connections, graceful) = (JoinSet::new(), GracefulShutdown::new());
    loop {
        tokio::select! {
            _ = signals.recv() => break,
            stream = accept(&listener) => {
                let connection = http.serve_connection(TokioIo::new(stream), service.clone());
                let connection = graceful.watch(connection);
                connections.spawn(async move {
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

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}
