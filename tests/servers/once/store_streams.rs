//! Streams of a `RedisStore` that panic, or that carry unsolicited replies.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_redlock::{
    FencingToken,
    node::redis::{Address, Connecting, Connector, IoStream, SocketConnector},
    once::{RedisStore, ResponseStore},
};

use crate::fixture::{Log, LoggedSpawner, RedisServer};

use super::redis_store::{DAY, builder, cause, get, put, response};

/// The place at which a stream panics, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Panic {
    Connect,
    Read,
    Write,
    Drop,
}

/// The time at which an unsolicited reply arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surplus {
    /// While no command is outstanding.
    Idle,
    /// After the next command, before its answer.
    Asked,
    /// Together with the next answer, and following it.
    Answered,
}

/// Opens streams, one of which fails on demand.
#[derive(Clone, Debug, Default)]
struct Faulty(Arc<Faults>);

#[derive(Debug, Default)]
struct Faults {
    panics: Mutex<Option<Panic>>,
    surplus: Mutex<Option<(Surplus, Vec<u8>)>>,
    connections: AtomicUsize,
}

impl Faulty {
    fn panics(&self, at: Panic) {
        *self.0.panics.lock().unwrap() = Some(at);
    }

    fn send(&self, surplus: Surplus, bytes: Vec<u8>) {
        *self.0.surplus.lock().unwrap() = Some((surplus, bytes));
    }

    fn take_surplus(&self, at: Surplus) -> Option<Vec<u8>> {
        let taken = self.0.surplus.lock().unwrap().take_if(|(surplus, _)| *surplus == at);
        taken.map(|(_, bytes)| bytes)
    }

    fn connections(&self) -> usize {
        self.0.connections.load(Ordering::SeqCst)
    }

    fn pass(&self, at: Panic) {
        let taken = self.0.panics.lock().unwrap().take_if(|panics| *panics == at);
        assert!(taken.is_none(), "on purpose: {at:?}");
    }
}

impl Connector for Faulty {
    fn connect(&self, address: &Address) -> Connecting {
        self.pass(Panic::Connect);
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
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.faulty.pass(Panic::Read);
        if let Some(surplus) = self.faulty.take_surplus(Surplus::Idle) {
            buf.put_slice(&surplus);
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if let Some(surplus) = self.faulty.take_surplus(Surplus::Answered) {
            buf.put_slice(&surplus);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for FaultyStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.faulty.pass(Panic::Write);
        if let Some(surplus) = self.faulty.take_surplus(Surplus::Asked) {
            self.faulty.send(Surplus::Idle, surplus);
        }
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
            self.faulty.pass(Panic::Drop);
        }
    }
}

fn store(server: &RedisServer, faulty: &Faulty, log: &Log) -> RedisStore {
    let builder = builder(server).connector(faulty.clone());
    builder.spawner(LoggedSpawner::start(log)).build().unwrap()
}

#[tokio::test]
async fn panic_does_not_stop_the_store() {
    let mut server = RedisServer::with(&["--appendonly", "yes"]);
    let (log, faulty) = (Log::new(), Faulty::default());
    let store = store(&server, &faulty, &log);
    for (panics, token) in [Panic::Read, Panic::Write, Panic::Drop].into_iter().zip(1..) {
        assert!(put(&store, "a", token, DAY, token).await);
        let known = log.count("WARN");
        faulty.panics(panics);
        if panics == Panic::Drop {
            // The next call finds the connection closed.
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
    faulty.panics(Panic::Connect);
    let text = cause(&store.get("a").await.unwrap_err());
    assert!(text.contains("panicked"), "{text}");
    log.wait_for("WARN", &["panicked", &server.addr().to_string()]).await;
    crate::fixture::eventually_async("the store connects", async || store.get("a").await.is_ok())
        .await;
}

struct Unwakeable;

impl Wake for Unwakeable {
    fn wake(self: Arc<Self>) {
        panic!("on purpose: a waker");
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

/// The server's answer to a GET of the key's response.
fn reply(server: &RedisServer, key: &str) -> Vec<u8> {
    let stored = server.get(&format!("redlock:answer:{key}")).unwrap();
    [format!("${}\r\n", stored.len()).as_bytes(), &stored, b"\r\n"].concat()
}

#[tokio::test]
async fn surplus_reply_answers_no_request() {
    for surplus in [Surplus::Idle, Surplus::Answered] {
        let (server, log, faulty) = (RedisServer::start(), Log::new(), Faulty::default());
        let store = store(&server, &faulty, &log);
        assert!(put(&store, "a", 1, DAY, 1).await);
        assert!(put(&store, "b", 2, DAY, 1).await);
        assert_eq!(faulty.connections(), 1);
        faulty.send(surplus, reply(&server, "a"));
        assert_eq!(get(&store, "b").await, Some((1, 2)), "{surplus:?}");
        assert_eq!(faulty.connections(), 2, "{surplus:?}");
        log.wait_for("WARN", &["unsolicited reply", &server.addr().to_string()]).await;
        assert!(put(&store, "b", 3, DAY, 1).await);
        assert_eq!(get(&store, "b").await, Some((1, 3)), "{surplus:?}");
        assert_eq!(faulty.connections(), 2, "{surplus:?}");
    }
}

#[tokio::test]
async fn reply_to_another_question_is_error() {
    let (server, log, faulty) = (RedisServer::start(), Log::new(), Faulty::default());
    let store = store(&server, &faulty, &log);
    assert!(put(&store, "a", 1, DAY, 1).await);
    assert!(put(&store, "b", 2, DAY, 1).await);
    let answer_of_a = reply(&server, "a");
    for (connections, surplus) in (2..).zip([answer_of_a, b":1\r\n".to_vec()]) {
        faulty.send(Surplus::Asked, surplus);
        let text = cause(&store.get("b").await.unwrap_err());
        assert!(text.contains("something else"), "{text}");
        // The reply for b would answer it.
        assert_eq!(get(&store, "a").await, Some((1, 1)));
        assert_eq!(faulty.connections(), connections);
    }
    faulty.send(Surplus::Asked, reply(&server, "a"));
    let token = FencingToken::new(1);
    let text = cause(&store.put("b", response("x"), DAY, token).await.unwrap_err());
    assert!(text.contains("0 or 1"), "{text}");
    assert_eq!(get(&store, "a").await, Some((1, 1)));
    log.wait_for("WARN", &["may be to another command", &server.addr().to_string()]).await;
}

#[tokio::test]
async fn response_under_wrong_key_is_error() {
    let (server, log, faulty) = (RedisServer::start(), Log::new(), Faulty::default());
    let store = store(&server, &faulty, &log);
    assert!(put(&store, "a", 1, DAY, 1).await);
    server.cli(&["COPY", "redlock:answer:a", "redlock:answer:b"]);
    let text = cause(&store.get("b").await.unwrap_err());
    assert!(text.contains("something else"), "{text}");
    log.wait_for("WARN", &["another", &server.addr().to_string()]).await;
    assert_eq!(get(&store, "a").await, Some((1, 1)));
    assert!(put(&store, "b", 2, DAY, 1).await);
    assert_eq!(get(&store, "b").await, Some((1, 2)));
}
