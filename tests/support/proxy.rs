//! A network with moods.

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
/// All methods take effect before they return. The moods are independent: `heal` ends a `cut`, not
/// a `stall`.
///
/// A request that reaches the server after its client has gone on to other connections is made by
/// [`hold`](Self::hold), [`drop_clients`](Self::drop_clients) and [`deliver`](Self::deliver).
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

    /// Lets at most so many bytes pass in a second, each way of each connection; zero: all.
    pub fn set_rate(&self, rate: u64) {
        self.shared.rules.send_modify(|rules| rules.rate = rate);
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

    /// Holds back, on the connections that are open now, all bytes to the server that come from now
    /// on. New connections are not concerned. A client may close such a connection: to the server
    /// it stays open.
    pub fn hold(&self) {
        self.order(Order::Hold);
    }

    /// Whether these bytes are among those that are held.
    pub fn holds(&self, bytes: impl AsRef<[u8]>) -> bool {
        let bytes = bytes.as_ref();
        self.shared.with_held(|held| held.windows(bytes.len()).any(|window| window == bytes))
    }

    /// Closes the clients' ends of the held connections. What the server still has to say there is
    /// lost, and what the clients have sent stays held.
    pub fn drop_clients(&self) {
        self.order(Order::DropClients);
    }

    /// Sends what was held to the server, one connection after the other in the order of their
    /// beginnings, and returns when the server has worked it off. The clients' ends are closed
    /// where they are still open.
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
