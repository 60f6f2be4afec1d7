//! A network whose faults a test controls.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc as blocking};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::background::Background;
use super::link::Link;
use super::port;
use super::relay::{Shared, relay};
use super::wait::HANG_GUARD;

/// A TCP proxy in front of one server, on a thread of its own.
///
/// All methods take effect before they return. The faults are independent: `heal` ends a `cut`, not
/// a `stall`.
///
/// A request that reaches the server after its client has switched to other connections is made
/// with [`hold`](Self::hold), [`drop_clients`](Self::drop_clients) and [`deliver`](Self::deliver).
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
    Hold,
    DropClients,
    Deliver,
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

    /// The URL by which clients log in as [`RedisServer::url`](super::RedisServer::url) says.
    pub fn url(&self) -> String {
        format!("{}{}", super::acl::login(), self.addr())
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

    /// Limits the bytes per second, in each direction of each connection; zero means no limit.
    pub fn set_rate(&self, rate: u64) {
        self.shared.rules.send_modify(|rules| rules.rate = rate);
    }

    /// Holds back all bytes in both directions. Connections stay open, and new ones are accepted.
    pub fn stall(&self) {
        self.shared.rules.send_modify(|rules| rules.stalled = true);
    }

    /// Forwards the bytes that were held, and those that follow.
    pub fn resume(&self) {
        self.shared.rules.send_modify(|rules| rules.stalled = false);
    }

    /// Closes every connection, loses the bytes in flight, and refuses new connections until
    /// [`heal`](Self::heal).
    pub fn cut(&self) {
        self.order(Order::Cut);
        port::await_refusal(self.addr());
    }

    /// Accepts connections again, on the same port.
    pub fn heal(&self) {
        self.order(Order::Heal);
    }

    /// Holds back, on the connections that are open now, all bytes to the server that arrive from
    /// now on. New connections are not affected. If a client closes such a connection, it stays
    /// open for the server.
    pub fn hold(&self) {
        self.order(Order::Hold);
    }

    /// Whether these bytes are among those that are held.
    pub fn holds(&self, bytes: impl AsRef<[u8]>) -> bool {
        let bytes = bytes.as_ref();
        self.shared.with_held(|held| held.windows(bytes.len()).any(|window| window == bytes))
    }

    /// Closes the clients' ends of the held connections. Later answers of the server on them are
    /// lost, and the bytes that the clients have sent stay held.
    pub fn drop_clients(&self) {
        self.order(Order::DropClients);
    }

    /// Sends the held bytes to the server, one connection after the other in the order of their
    /// begins, and returns when the server has processed them. Clients' ends that are still open
    /// are closed.
    pub fn deliver(&self) {
        self.order(Order::Deliver);
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
        wait.recv_timeout(HANG_GUARD).expect("the proxy obeys");
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
    let mut links = Vec::<Link>::new();
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
                    Order::Hold => links.iter().for_each(Link::hold),
                    Order::DropClients => {
                        links.iter().filter(|link| link.is_held()).for_each(Link::drop_client);
                    }
                    Order::Deliver => {
                        shared.with_held(Vec::clear);
                        let held = links.extract_if(.., |link| link.is_held());
                        open.spawn(deliver(held.collect(), done));
                        continue;
                    }
                }
                let _ = done.send(());
            }
            client = accept(listener.as_ref()) => {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                links.retain(|link| !link.is_over());
                let (link, relayed) = Link::new(&client).expect("a descriptor is left");
                links.push(link);
                open.spawn(relay(client, upstream, shared.clone(), relayed));
            }
            Some(_) = open.join_next() => {}
        }
    }
}

/// The rest of the proxy's traffic is not delayed.
async fn deliver(held: Vec<Link>, done: Done) -> io::Result<()> {
    for link in held {
        link.deliver().await;
    }
    let _ = done.send(());
    Ok(())
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    match listener {
        Some(listener) => port::accept(listener).await,
        None => pending().await,
    }
}
