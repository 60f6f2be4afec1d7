//! Connections: accepted until a signal comes, and then ended after a moment.

use std::{
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper::{
    Request,
    body::{Body, Frame, Incoming, SizeHint},
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::io::InspectReader;
use tower_redlock_dashboard::{Dashboard, DashboardBody};

use super::{
    activity::{ActiveRequest, Activity},
    places::Places,
};
use crate::{exit::Failure, signals::Signals};

/// Time for responses that have begun.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// Maximum length of the head of a request over HTTP/1.1, in bytes. That over HTTP/2 has 16 KiB at most.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Pause after a connection that was not accepted: there may be too many open files.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::system(format!("cannot listen on {address}: {error}; --listen takes another one"))
    })
}

/// Serves until a signal comes. Beyond the limit, the connection that has been idle longest ends, or the newest waits.
pub(super) async fn accept_until_signal(
    listener: TcpListener,
    limit: usize,
    dashboard: Dashboard,
    signals: &mut Signals,
) {
    let places = Places::new(limit);
    let (mut connections, graceful) = (JoinSet::new(), GracefulShutdown::new());
    // It has no place yet.
    let mut newest = None;
    loop {
        tokio::select! {
            _ = signals.recv() => break,
            stream = accept(&listener), if newest.is_none() => newest = Some(stream),
            place = places.take(), if newest.is_some() => if let Some(stream) = newest.take() {
                let activity = place.activity().clone();
                let connection = connection(stream, dashboard.clone(), activity, &graceful);
                connections.spawn(async move {
                    let _place = place;
                    connection.await;
                });
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop((listener, newest));
    dashboard.end_streams();
    let _ = timeout(SHUTDOWN_GRACE, graceful.shutdown()).await;
    // Ends what is left.
    connections.shutdown().await;
}

/// Serves a connection over HTTP/1.1 or HTTP/2: the client chooses.
pub(super) fn connection<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    dashboard: Dashboard,
    activity: Activity,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + use<S> {
    let (of_requests, service) = (activity.clone(), TowerToHyperService::new(dashboard));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let mut active = of_requests.begin();
        // The decision on access is noted there.
        request.extensions_mut().insert(of_requests.clone());
        let response = service.call(request);
        async move {
            let response = response.await;
            active.answered();
            response.map(|response| response.map(|body| ActiveBody { body, _active: active }))
        }
    });
    let of_reads = activity.clone();
    let stream = TokioIo::new(InspectReader::new(stream, move |bytes| of_reads.note_read(bytes)));
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().max_buf_size(MAX_HEAD_BYTES);
    let connection = graceful.watch(http.serve_connection(stream, service).into_owned());
    async move {
        tokio::select! {
            biased;
            () = activity.is_over() => {}
            ended = connection => if let Err(error) = ended {
                tracing::debug!("a connection has failed: {error}");
            },
        }
    }
}

/// The body of a response, with its request, which lasts until it is sent.
struct ActiveBody {
    body: DashboardBody,
    _active: ActiveRequest,
}

impl Body for ActiveBody {
    type Data = <DashboardBody as Body>::Data;
    type Error = <DashboardBody as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error}");
                sleep(ACCEPT_RETRY_INTERVAL).await;
            }
        }
    }
}
