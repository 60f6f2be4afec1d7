//! A proxy that ends connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::background::Background;
use super::port;

/// The behaviour of a [`Breaker`] towards each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaks {
    /// Accepts it, and closes it at once.
    AtOnce,
    /// Closes it after this number of bytes from the server.
    AfterBytes(u64),
    /// Closes it after this time.
    After(Duration),
    /// Closes it when no byte has come from the client for this time.
    Idle(Duration),
    /// Keeps it open, and sends nothing.
    Silent,
    /// Forwards one byte from the server in each interval.
    Dripping(Duration),
}

/// A TCP proxy in front of servers that ends each connection, on a thread of its own. Connections lead to the
/// servers in turn.
#[derive(Debug)]
pub struct Breaker {
    connections: Arc<AtomicUsize>,
    background: Background,
}

impl Breaker {
    pub fn start(upstreams: impl IntoIterator<Item = SocketAddr>, breaks: Breaks) -> Self {
        let upstreams: Vec<_> = upstreams.into_iter().collect();
        let connections = Arc::<AtomicUsize>::default();
        let background = Background::run({
            let connections = connections.clone();
            async move |listener: TcpListener| {
                loop {
                    let client = port::accept(&listener).await;
                    let number = connections.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(relay(
                        client,
                        upstreams.get(number % upstreams.len().max(1)).copied(),
                        breaks,
                    ));
                }
            }
        });
        Self { connections, background }
    }

    /// The URL by which clients log in as [`RedisServer::url`](super::RedisServer::url) says.
    pub fn url(&self) -> String {
        format!("{}{}", super::acl::login(), self.background.addr())
    }

    /// Connections accepted since the start.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn relay(
    mut client: TcpStream,
    upstream: Option<SocketAddr>,
    breaks: Breaks,
) -> io::Result<()> {
    match breaks {
        Breaks::AtOnce => return Ok(()),
        Breaks::Silent => {
            // Until the client closes it.
            tokio::io::copy(&mut client, &mut tokio::io::sink()).await?;
            return Ok(());
        }
        _ => {}
    }
    let mut server = TcpStream::connect(upstream.expect("a server")).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    if let Breaks::After(time) = breaks {
        let _ = timeout(time, copy_bidirectional(&mut client, &mut server)).await;
        return Ok(());
    }
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        let mut bytes = vec![0; 16 * 1024];
        loop {
            let count = match breaks {
                Breaks::Idle(time) => timeout(time, from_client.read(&mut bytes)).await??,
                _ => from_client.read(&mut bytes).await?,
            };
            if count == 0 {
                return Ok(());
            }
            to_server.write_all(&bytes[..count]).await?;
        }
    };
    let down = async {
        match breaks {
            Breaks::AfterBytes(count) => {
                tokio::io::copy(&mut from_server.take(count), &mut to_client).await?;
            }
            Breaks::Dripping(time) => loop {
                to_client.write_u8(from_server.read_u8().await?).await?;
                sleep(time).await;
            },
            _ => {
                tokio::io::copy(&mut from_server, &mut to_client).await?;
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
    }
}
