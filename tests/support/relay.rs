//! One connection through a proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

#[derive(Debug, Default)]
pub struct Shared {
    pub rules: watch::Sender<Rules>,
    pub connections: AtomicUsize,
    pub bytes_up: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    pub delay: Duration,
    pub stalled: bool,
}

pub async fn relay(client: TcpStream, upstream: SocketAddr, shared: Arc<Shared>) -> io::Result<()> {
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let no_delay = |count: u64| {
        shared.bytes_up.fetch_add(count, Ordering::SeqCst);
        Duration::ZERO
    };
    let delay = |_| shared.rules.borrow().delay;
    tokio::try_join!(
        pump(from_client, to_server, shared.rules.subscribe(), no_delay),
        pump(from_server, to_client, shared.rules.subscribe(), delay),
    )?;
    Ok(())
}

/// Carries chunks, and the end of the stream as an empty one, each held back by what `delay` said
/// at its arrival.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut rules: watch::Receiver<Rules>,
    delay: impl Fn(u64) -> Duration,
) -> io::Result<()> {
    let (queue, mut held) = mpsc::unbounded_channel();
    let arrive = async move {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = from.read(&mut buffer).await?;
            let due = Instant::now() + delay(count as u64);
            let _ = queue.send((due, buffer[..count].to_vec()));
            if count == 0 {
                return Ok(());
            }
        }
    };
    let deliver = async move {
        while let Some((due, chunk)) = held.recv().await {
            // The timer would round a time that has passed up to its next tick.
            if due > Instant::now() {
                sleep_until(due).await;
            }
            let _ = rules.wait_for(|rules| !rules.stalled).await;
            if chunk.is_empty() {
                return to.shutdown().await;
            }
            to.write_all(&chunk).await?;
        }
        Ok(())
    };
    tokio::try_join!(arrive, deliver).map(|_: ((), ())| ())
}
