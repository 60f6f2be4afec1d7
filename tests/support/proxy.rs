//! A network with moods.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc as blocking};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::background::Background;
use super::port;
use super::relay::{Shared, relay};

/// A TCP proxy in front of one server, on a thread of its own.
///
/// All methods take effect before they return. The moods are independent: `heal` ends a `cut`, not
/// a `stall`.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    orders: mpsc::UnboundedSender<(Order, Done)>,
    background: Background,
}

#[derive(Debug)]
enum Order {
    Cut,
    Heal,
}

type Done = blocking::Sender<()>;

impl Proxy {
    pub fn start(upstream: SocketAddr) -> Self {
        let shared = Arc::<Shared>::default();
        let (orders, received) = mpsc::unbounded_channel();
        let background = Background::run({
            let shared = shared.clone();
            move |listener| serve(listener, upstream, shared, received)
        });
        Self { shared, orders, background }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    pub fn addr(&self) -> SocketAddr {
        self.background.addr()
    }

    /// Replies that arrive from now on reach the client `delay` later (and up to 2 ms more: the
    /// timer's grain). This is latency, not throughput: replies close behind one another are all
    /// late by the same time, in order.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.rules.send_modify(|rules| rules.delay = delay);
    }

    /// Holds back all bytes, both ways. Connections stay open, and new ones are accepted.
    pub fn stall(&self) {
        self.shared.rules.send_modify(|rules| rules.stalled = true);
    }

    /// Lets the bytes go that were held, and those that follow.
    pub fn resume(&self) {
        self.shared.rules.send_modify(|rules| rules.stalled = false);
    }

    /// Closes every connection, loses what was on its way, and refuses new ones until
    /// [`heal`](Self::heal).
    pub fn cut(&self) {
        self.order(Order::Cut);
        port::await_refusal(self.addr());
    }

    /// Accepts connections again, on the same port.
    pub fn heal(&self) {
        self.order(Order::Heal);
    }

    /// Connections accepted since the start.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Bytes received from clients since the start, held ones included.
    pub fn bytes_up(&self) -> u64 {
        self.shared.bytes_up.load(Ordering::SeqCst)
    }

    fn order(&self, order: Order) {
        let (done, wait) = blocking::channel();
        self.orders.send((order, done)).expect("the proxy runs");
        wait.recv().expect("the proxy runs");
    }
}

async fn serve(
    listener: TcpListener,
    upstream: SocketAddr,
    shared: Arc<Shared>,
    mut orders: mpsc::UnboundedReceiver<(Order, Done)>,
) {
    let addr = listener.local_addr().expect("a bound listener");
    let mut listener = Some(listener);
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some((order, done)) = orders.recv() => {
                match order {
                    Order::Cut => {
                        listener = None;
                        open.shutdown().await;
                    }
                    Order::Heal if listener.is_none() => {
                        listener = Some(TcpListener::bind(addr).await.expect("the port is ours"));
                    }
                    Order::Heal => {}
                }
                let _ = done.send(());
            }
            client = accept(listener.as_ref()) => {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                open.spawn(relay(client, upstream, shared.clone()));
            }
            Some(_) = open.join_next() => {}
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    match listener {
        Some(listener) => port::accept(listener).await,
        None => pending().await,
    }
}
