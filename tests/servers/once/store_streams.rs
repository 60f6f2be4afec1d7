//! Streams of a `RedisStore` that panic, or carry what nobody asked for.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_redlock::{
    node::redis::{Address, Connecting, Connector, IoStream, SocketConnector},
    once::{RedisStore, ResponseStore},
};

use super::redis_store::{DAY, builder, cause, get, put};
use crate::{
    facts::log::{Log, LoggedSpawner},
    support::RedisServer,
};

/// What goes wrong with a stream, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Panics {
    AtConnect,
    AtRead,
    AtWrite,
    AtDrop,
}

/// Opens streams of which one goes wrong when the test says so.
#[derive(Clone, Debug, Default)]
struct Faulty(Arc<Faults>);

#[derive(Debug, Default)]
struct Faults {
    panics: Mutex<Option<Panics>>,
    connections: AtomicUsize,
}

impl Faulty {
    fn panics(&self, at: Panics) {
        *self.0.panics.lock().unwrap() = Some(at);
    }

    fn connections(&self) -> usize {
        self.0.connections.load(Ordering::SeqCst)
    }

    fn pass(&self, at: Panics) {
        let taken = self.0.panics.lock().unwrap().take_if(|panics| *panics == at);
        assert!(taken.is_none(), "as the test wants it: {at:?}");
    }
}

impl Connector for Faulty {
    fn connect(&self, address: &Address) -> Connecting {
        self.pass(Panics::AtConnect);
        self.0.connections.fetch_add(1, Ordering::SeqCst);
        let (opening, faulty) = (SocketConnector::new().connect(address), self.clone());
        Box::pin(async move {
            let stream = FaultyStream { inner: opening.await?, faulty };
            Ok(Box::new(stream) as Box<dyn IoStream>)
        })
    }
}

struct FaultyStream {
    inner: Box<dyn IoStream>,
    faulty: Faulty,
}

impl AsyncRead for FaultyStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.faulty.pass(Panics::AtRead);
        Pin::new(&mut self.inner).poll_read(cx, room)
    }
}

impl AsyncWrite for FaultyStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.faulty.pass(Panics::AtWrite);
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl Drop for FaultyStream {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.faulty.pass(Panics::AtDrop);
        }
    }
}

fn store(server: &RedisServer, faulty: &Faulty, log: &Log) -> RedisStore {
    let builder = builder(server).connector(faulty.clone());
    builder.spawner(LoggedSpawner::start(log)).build().unwrap()
}

#[tokio::test]
async fn a_panic_is_an_error_and_the_next_is_served() {
    let mut server = RedisServer::with(&["--appendonly", "yes"]);
    let (log, faulty) = (Log::new(), Faulty::default());
    let store = store(&server, &faulty, &log);
    for (panics, token) in [Panics::AtRead, Panics::AtWrite, Panics::AtDrop].into_iter().zip(1..) {
        assert!(put(&store, "a", token, DAY, token).await);
        let known = log.count("WARN");
        faulty.panics(panics);
        if panics == Panics::AtDrop {
            // The next question finds the connection closed.
            server.restart_keeping_data();
        }
        let text = cause(&store.get("a").await.unwrap_err());
        assert!(text.contains("panicked"), "{panics:?}: {text}");
        log.wait_for("WARN", &["panicked", &server.addr().to_string()]).await;
        assert_eq!(log.count("WARN"), known + 1, "{}", log.text());
        assert_eq!(get(&store, "a").await, Some((token, token)), "{panics:?}");
    }
    assert_eq!(faulty.connections(), 4);
}

#[tokio::test]
async fn a_panic_while_connecting_is_logged() {
    let (server, log, faulty) = (RedisServer::start(), Log::new(), Faulty::default());
    let store = store(&server, &faulty, &log);
    faulty.panics(Panics::AtConnect);
    let text = cause(&store.get("a").await.unwrap_err());
    assert!(text.contains("panicked"), "{text}");
    log.wait_for("WARN", &["panicked", &server.addr().to_string()]).await;
    crate::support::eventually_async("it connects", async || store.get("a").await.is_ok()).await;
}

struct Unwakeable;

impl Wake for Unwakeable {
    fn wake(self: Arc<Self>) {
        panic!("as the test wants it: a waker");
    }
}

#[tokio::test]
async fn a_waker_that_panics_ends_nothing() {
    let (server, log, faulty) = (RedisServer::start(), Log::new(), Faulty::default());
    let store = store(&server, &faulty, &log);
    assert!(put(&store, "a", 1, DAY, 1).await);
    server.freeze();
    let mut got = Box::pin(store.get("a"));
    let waker = Waker::from(Arc::new(Unwakeable));
    assert!(got.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    server.thaw();
    assert_eq!(get(&store, "a").await, Some((1, 1)));
    assert!(got.await.unwrap().is_some());
    assert_eq!(faulty.connections(), 1);
}
