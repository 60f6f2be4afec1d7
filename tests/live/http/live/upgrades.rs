//! Websockets, which hold the lock until they are closed.

use std::{net::SocketAddr, time::Duration};

use axum::{
    Router,
    extract::{
        Request,
        ws::{WebSocket, WebSocketUpgrade},
    },
    response::Response,
    routing::any,
};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{Method, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{self, protocol::Role},
};
use tower_redlock::{
    LockError, RedlockLayer,
    error::LossCause,
    layer::http::{HeldUpgrade, RedlockHttp},
};

use super::{
    client::{Client, http1},
    site::{Site, last_segment, patient, serve, soon},
};

/// Time for a busy machine to upgrade a connection.
pub(super) const SHORT: Duration = Duration::from_secs(2);

pub(super) type Http2 = hyper::client::conn::http2::SendRequest<Empty<Bytes>>;

/// How the work of a connection ended.
pub(super) type Ends = UnboundedSender<Result<(), LockError>>;

/// Echoes until the peer closes the connection or is gone.
pub(super) async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if socket.send(message).await.is_err() {
            return;
        }
    }
}

/// Upgrades connections, and reports how their sessions end.
fn sessions<F>(
    ends: &Ends,
    session: impl Fn(HeldUpgrade, WebSocket) -> F + Clone + Send + Sync + 'static,
) -> Router
where
    F: Future<Output = Result<(), LockError>> + Send + 'static,
{
    let ends = ends.clone();
    let upgrade = async move |held: HeldUpgrade, upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(move |socket| async move {
            ends.send(session(held, socket).await).unwrap();
        })
    };
    Router::new().route("/ws/{key}", any(upgrade))
}

/// Echoes under the lock.
fn echoes(ends: &Ends) -> Router {
    sessions(ends, |held, socket| async move { held.run(|_| echo(socket)).await })
}

pub(super) struct Scene {
    pub(super) site: Site,
    pub(super) addr: SocketAddr,
    ends: UnboundedReceiver<Result<(), LockError>>,
}

pub(super) type Layer = RedlockLayer<fn(&Request) -> Option<String>, RedlockHttp>;

impl Scene {
    pub(super) async fn open(app: impl FnOnce(&Ends) -> Router) -> Self {
        Self::with(app, |layer| layer).await
    }

    pub(super) async fn with(
        app: impl FnOnce(&Ends) -> Router,
        set: impl FnOnce(Layer) -> Layer,
    ) -> Self {
        let site = Site::open(1, patient).await;
        let (sender, ends) = unbounded_channel();
        let layer = RedlockLayer::new(site.managers[0].clone(), last_segment as _);
        let layer = set(layer.http().hold_upgrade(true));
        let app = app(&sender).route("/free", any(async || "free")).layer(layer);
        Self { addr: serve(app).await, site, ends }
    }

    async fn try_connect(&self) -> Result<WebSocketStream<TcpStream>, tungstenite::Error> {
        let stream = TcpStream::connect(self.addr).await.unwrap();
        let url = format!("ws://{}/ws/a", self.addr);
        client_async(url, stream).await.map(|(socket, _)| socket)
    }

    async fn connect(&self) -> WebSocketStream<TcpStream> {
        self.try_connect().await.expect("an upgrade")
    }

    /// The response to an upgrade that is refused.
    async fn refused(&self) -> (StatusCode, String) {
        match self.try_connect().await {
            Err(tungstenite::Error::Http(answer)) => {
                let body = answer.body().clone().unwrap_or_default();
                (answer.status(), String::from_utf8(body).unwrap())
            }
            other => panic!("{other:?}"),
        }
    }

    /// Over HTTP/2: an open connection, and the response.
    pub(super) async fn connect_http2(&self) -> (Http2, http::Response<Incoming>) {
        let stream = TokioIo::new(TcpStream::connect(self.addr).await.unwrap());
        let connected = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await;
        let (mut sender, connection) = connected.unwrap();
        tokio::spawn(connection);
        let uri = |path: &str| format!("http://{}{path}", self.addr);
        let free = http::Request::get(uri("/free")).body(Empty::<Bytes>::new()).unwrap();
        // After a response, the server's settings have arrived: it accepts extended CONNECTs.
        assert_eq!(sender.send_request(free).await.unwrap().status(), 200);

        let mut connect = http::Request::connect(uri("/ws/a"))
            .header("sec-websocket-version", "13")
            .body(Empty::new())
            .unwrap();
        connect.extensions_mut().insert(hyper::ext::Protocol::from_static("websocket"));
        let answer = sender.send_request(connect).await.unwrap();
        (sender, answer)
    }

    async fn end(&mut self) -> Result<(), LockError> {
        soon("the work's end", self.ends.recv()).await.unwrap()
    }
}

/// Checks that a message is echoed.
async fn is_open<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut WebSocketStream<S>) {
    socket.send("ping".into()).await.unwrap();
    let echoed = soon("the echo", socket.next()).await.unwrap().unwrap();
    assert_eq!(echoed, "ping".into());
}

async fn is_cut<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut WebSocketStream<S>) {
    let end = soon("the end", socket.next()).await;
    assert!(matches!(end, None | Some(Err(_))), "{end:?}");
}

#[tokio::test]
async fn one_socket_at_a_time() {
    let mut scene = Scene::open(echoes).await;
    let mut first = scene.connect().await;
    is_open(&mut first).await;
    scene.site.held("a").await;
    assert_eq!(scene.refused().await.0, StatusCode::CONFLICT);
    is_open(&mut first).await;

    first.close(None).await.unwrap();
    assert_eq!(scene.end().await, Ok(()));
    scene.site.all_keys_gone().await;
    let mut second = scene.connect().await;
    is_open(&mut second).await;
    scene.site.held("a").await;
}

#[tokio::test]
async fn peer_that_vanishes_frees_key() {
    let mut scene = Scene::open(echoes).await;
    let mut first = scene.connect().await;
    is_open(&mut first).await;
    scene.site.held("a").await;

    // Without a closing handshake.
    drop(first);

    assert_eq!(scene.end().await, Ok(()));

    scene.site.all_keys_gone().await;
    is_open(&mut scene.connect().await).await;
}

#[tokio::test]
async fn a_lost_lock_cuts_the_connection() {
    let mut scene = Scene::with(echoes, |layer| layer.max_hold(SHORT)).await;
    let mut socket = scene.connect().await;
    is_cut(&mut socket).await;
    let end = scene.end().await;
    let Err(LockError::Lost { cause, .. }) = end else { panic!("{end:?}") };
    assert_eq!(cause, LossCause::MaxHold { limit: SHORT });
    scene.site.all_keys_gone().await;
}

#[tokio::test]
async fn kept_handle_holds_the_lock() {
    let app = |ends: &Ends| {
        sessions(ends, |held, socket| async move {
            echo(socket).await;
            held.context().ensure_valid()
        })
    };
    let mut scene = Scene::open(app).await;
    let mut socket = scene.connect().await;
    is_open(&mut socket).await;

    scene.site.held("a").await;

    assert_eq!(scene.refused().await.0, StatusCode::CONFLICT);

    drop(socket);
    assert_eq!(scene.end().await, Ok(()));

    scene.site.all_keys_gone().await;
}

#[tokio::test]
async fn upgrade_is_refused_unless_held() {
    let scene = Scene::with(echoes, |layer| layer.hold_upgrade(false)).await;
    let (status, body) = scene.refused().await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(body.contains("hold_upgrade"), "the handler finds no handle: {body}");
    scene.site.all_keys_gone().await;
}

#[tokio::test]
async fn dropped_handle_frees_the_key() {
    let app = |_: &Ends| {
        let upgrade = async move |held: HeldUpgrade, upgrade: WebSocketUpgrade| {
            drop(held);
            upgrade.on_upgrade(echo)
        };
        Router::new().route("/ws/{key}", any(upgrade))
    };
    let scene = Scene::open(app).await;
    let mut socket = scene.connect().await;
    scene.site.all_keys_gone().await;

    is_open(&mut socket).await;
}

#[tokio::test]
async fn work_does_not_begin_without_upgrade() {
    let app = |ends: &Ends| {
        let ends = ends.clone();
        let answer = async move |held: HeldUpgrade| {
            tokio::spawn(async move {
                ends.send(held.run(|_| async { panic!("it was not upgraded") }).await).unwrap();
            });
            "no upgrade"
        };
        Router::new().route("/ws/{key}", any(answer))
    };
    let mut scene = Scene::open(app).await;

    let client = Client::new(http1(), scene.addr);

    assert_eq!(client.send(Method::GET, "/ws/a").await.unwrap().text, "no upgrade");

    let end = scene.end().await;
    assert!(matches!(end, Err(LockError::Lost { cause: LossCause::Released, .. })), "{end:?}");

    scene.site.all_keys_gone().await;
}

#[tokio::test]
async fn nested_layers_are_all_held() {
    let app = |ends: &Ends| {
        let ends = ends.clone();
        let upgrade = async move |inner: HeldUpgrade,
                                  outer: HeldUpgrade,
                                  upgrade: WebSocketUpgrade|
                    -> Response {
            assert_eq!(inner.context().resource().to_string(), "inner");
            assert_eq!(outer.context().resource().to_string(), "a");
            upgrade.on_upgrade(move |socket| async move {
                let both = outer.run(|_| inner.run(|_| echo(socket)));
                ends.send(both.await.and_then(|inner| inner)).unwrap();
            })
        };
        let redlock = tower_redlock::Redlock::embedded();
        let inner = RedlockLayer::new(redlock, |_: &Request| "inner").http().hold_upgrade(true);
        Router::new().route("/ws/{key}", any(upgrade)).route_layer(inner)
    };
    let mut scene = Scene::open(app).await;
    let mut socket = scene.connect().await;
    is_open(&mut socket).await;

    scene.site.held("a").await;

    assert_eq!(scene.refused().await.0, StatusCode::CONFLICT);

    drop(socket);
    assert_eq!(scene.end().await, Ok(()));

    scene.site.all_keys_gone().await;
}

#[tokio::test]
async fn http2_connects_are_held_too() {
    let mut scene = Scene::open(echoes).await;
    let (_connection, answer) = scene.connect_http2().await;

    assert_eq!((answer.version(), answer.status()), (http::Version::HTTP_2, StatusCode::OK));

    let upgraded = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
    is_open(&mut socket).await;
    scene.site.held("a").await;

    assert_eq!(scene.refused().await.0, StatusCode::CONFLICT);

    // The stream ends, the connection does not.
    drop(socket);
    assert_eq!(scene.end().await, Ok(()));

    scene.site.all_keys_gone().await;
}
