//! A TCP proxy between one worker and one server: it blocks either direction, delays replies, and
//! holds the request during which a fault strikes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tower_redlock_verify::support::port::{self, Port};

use crate::relay::relay;

#[derive(Debug)]
pub(crate) struct Proxy {
    port: Port,
    rules: watch::Sender<Rules>,
    gate: Arc<GateState>,
    task: AbortHandle,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The address for new connections.
    pub(crate) upstream: SocketAddr,
    /// Whether bytes to the server are kept, as in TCP's buffers.
    pub(crate) blocks_requests: bool,
    /// Whether bytes to the client are kept.
    pub(crate) blocks_replies: bool,
    /// Latency of replies.
    pub(crate) delay: Duration,
    pub(crate) gate: Gate,
    /// Connections of an earlier generation are closed.
    pub(crate) generation: u64,
}

/// The treatment of the next request that the trigger matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// It is held.
    Hold,
    /// It passes, and its reply is held.
    HoldReply,
}

/// The way to recognise a request about the contended name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trigger {
    Text(&'static str),
    /// Number of bytes, if the text is encrypted.
    Length(usize),
}

#[derive(Debug)]
pub(crate) struct GateState {
    pub(crate) trigger: Trigger,
    /// Whether a request or its reply was held.
    pub(crate) is_reached: AtomicBool,
}

impl Trigger {
    pub(crate) fn matches(self, chunk: &[u8]) -> bool {
        match self {
            Self::Text(text) => chunk.windows(text.len()).any(|window| window == text.as_bytes()),
            Self::Length(length) => chunk.len() >= length,
        }
    }
}

impl Proxy {
    pub(crate) fn start(runtime: &Handle, upstream: SocketAddr, trigger: Trigger) -> Self {
        let (listener, port) = port::listen();
        let rules = watch::Sender::new(Rules {
            upstream,
            blocks_requests: false,
            blocks_replies: false,
            delay: Duration::ZERO,
            gate: Gate::Open,
            generation: 0,
        });
        let gate = Arc::new(GateState { trigger, is_reached: AtomicBool::new(false) });
        let task = {
            let _in_runtime = runtime.enter();
            let listener = TcpListener::from_std(listener).expect("a listener of this process");
            tokio::spawn(serve(listener, rules.subscribe(), Arc::clone(&gate))).abort_handle()
        };
        Self { port, rules, gate, task }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Rules)) {
        self.rules.send_modify(change);
    }

    /// Closes all connections, and loses the bytes in flight.
    pub(crate) fn disconnect(&self) {
        self.set(|rules| rules.generation += 1);
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.gate.is_reached.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, rules: watch::Receiver<Rules>, gate: Arc<GateState>) {
    // Dropped with this task, and its connections with it.
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            client = port::accept(&listener) => {
                open.spawn(connection(client, rules.clone(), Arc::clone(&gate)));
            }
            Some(_) = open.join_next() => {}
        }
    }
}

async fn connection(client: TcpStream, rules: watch::Receiver<Rules>, gate: Arc<GateState>) {
    let now = *rules.borrow();
    let Ok(server) = TcpStream::connect(now.upstream).await else { return };
    let mut ended = rules.clone();
    tokio::select! {
        _ = relay(client, server, rules, gate) => {}
        _ = ended.wait_for(|rules| rules.generation != now.generation) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;
    use tower_redlock_verify::support::wait::HANG_GUARD;

    use super::*;

    /// A proxy in front of an echo server, and a connection to it.
    async fn scene() -> (Proxy, TcpStream) {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let upstream = server.local_addr().expect("a bound listener");
        tokio::spawn(async move {
            while let Ok((mut client, _)) = server.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = client.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        let proxy = Proxy::start(&Handle::current(), upstream, Trigger::Text("name"));
        let mut client = TcpStream::connect(proxy.addr()).await.expect("the proxy listens");
        assert_eq!(echo(&mut client, "hello").await, "hello");
        (proxy, client)
    }

    async fn echo(client: &mut TcpStream, text: &str) -> String {
        client.write_all(text.as_bytes()).await.expect("the proxy reads");
        reply(client).await
    }

    /// Returns the received data; empty at the end of the connection.
    async fn reply(client: &mut TcpStream) -> String {
        let mut buffer = [0; 64];
        let count = in_time(client.read(&mut buffer)).await.unwrap_or_default();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    }

    async fn in_time<T>(work: impl Future<Output = T>) -> T {
        timeout(HANG_GUARD, work).await.expect("it ends")
    }

    async fn reached(proxy: &Proxy) {
        in_time(async {
            while !proxy.is_reached() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    fn has_reply(client: &TcpStream) -> bool {
        client.try_read(&mut [0; 1]).is_ok()
    }

    #[tokio::test]
    async fn gate_holds_request_or_reply() {
        for gate in [Gate::Hold, Gate::HoldReply] {
            let (proxy, mut client) = scene().await;
            proxy.set(|rules| rules.gate = gate);
            assert_eq!(echo(&mut client, "another").await, "another", "{gate:?}");
            assert!(!proxy.is_reached());
            client.write_all(b"the name").await.expect("the proxy reads");
            reached(&proxy).await;
            assert!(!has_reply(&client), "{gate:?}");
            proxy.set(|rules| rules.gate = Gate::Open);
            assert_eq!(reply(&mut client).await, "the name", "{gate:?}");
        }
    }

    #[tokio::test]
    async fn blocked_bytes_pass_after_repair() {
        for blocks_requests in [true, false] {
            let (proxy, mut client) = scene().await;
            let set = |blocks: bool| {
                proxy.set(|rules| {
                    rules.blocks_requests = blocks && blocks_requests;
                    rules.blocks_replies = blocks && !blocks_requests;
                });
            };
            set(true);
            client.write_all(b"late").await.expect("the proxy reads");
            // A connection that is not blocked gets its reply before this.
            let (_other, mut unblocked) = scene().await;
            assert_eq!(echo(&mut unblocked, "prompt").await, "prompt");
            assert!(!has_reply(&client));
            set(false);
            assert_eq!(reply(&mut client).await, "late");
        }
    }

    #[tokio::test]
    async fn disconnect_closes_open_connections_only() {
        let (proxy, mut client) = scene().await;
        proxy.disconnect();
        assert_eq!(reply(&mut client).await, "");
        let mut again = TcpStream::connect(proxy.addr()).await.expect("the proxy listens");
        assert_eq!(echo(&mut again, "again").await, "again");
    }

    #[tokio::test]
    async fn new_connections_follow_upstream() {
        let (proxy, mut client) = scene().await;
        let nobody = port::unused();
        proxy.set(|rules| rules.upstream = nobody.addr());
        assert_eq!(echo(&mut client, "still").await, "still");
        let mut moved = TcpStream::connect(proxy.addr()).await.expect("the proxy listens");
        assert_eq!(reply(&mut moved).await, "");
    }

    #[test]
    fn trigger_matches_text_or_length() {
        assert!(Trigger::Text("name").matches(b"a name b"));
        assert!(!Trigger::Text("name").matches(b"nam"));
        assert!(Trigger::Length(3).matches(b"abc"));
        assert!(!Trigger::Length(3).matches(b"ab"));
    }
}
