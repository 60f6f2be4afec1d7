//! One connection through a proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::link::Relayed;

#[derive(Debug, Default)]
pub struct Shared {
    pub rules: watch::Sender<Rules>,
    pub connections: AtomicUsize,
    pub bytes_up: AtomicU64,
    held: Mutex<Vec<u8>>,
}

impl Shared {
    /// Calls `look` with the bytes that were received from clients and are held.
    pub fn with_held<T>(&self, look: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        look(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    pub delay: Duration,
    pub stalled: bool,
    /// Bytes per second, in each direction of each connection; zero means no limit.
    pub rate: u64,
}

pub async fn relay(
    client: TcpStream,
    upstream: SocketAddr,
    shared: Arc<Shared>,
    relayed: Relayed,
) -> io::Result<()> {
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let direction = |is_up| Direction {
        is_up,
        relayed: relayed.clone(),
        shared: shared.clone(),
        rules: shared.rules.subscribe(),
    };
    tokio::try_join!(
        pump(from_client, to_server, direction(true)),
        pump(from_server, to_client, direction(false)),
    )?;
    Ok(())
}

/// The effect of the network on the bytes of one direction.
#[derive(Clone)]
struct Direction {
    is_up: bool,
    relayed: Relayed,
    shared: Arc<Shared>,
    rules: watch::Receiver<Rules>,
}

impl Direction {
    /// Records a chunk, and returns its time in transit.
    fn arrival(&self, chunk: &[u8]) -> Duration {
        if !self.is_up {
            return self.shared.rules.borrow().delay;
        }
        self.shared.bytes_up.fetch_add(chunk.len() as u64, Ordering::SeqCst);
        if self.relayed.is_held() {
            self.shared.with_held(|held| held.extend_from_slice(chunk));
        }
        Duration::ZERO
    }

    async fn passable(&mut self) {
        if self.is_up {
            self.relayed.not_held().await;
        }
        let _ = self.rules.wait_for(|rules| !rules.stalled).await;
    }

    /// Treats an error as an end if the other end is already gone.
    fn forgive<T: Default>(&self, result: io::Result<T>) -> io::Result<T> {
        match result {
            Err(_) if self.relayed.outlives_client() => Ok(T::default()),
            other => other,
        }
    }
}

/// Forwards chunks, and the end of the stream as an empty chunk. Each is delayed as decided at its
/// arrival, and until it may pass.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
) -> io::Result<()> {
    let (queue, mut held) = mpsc::unbounded_channel();
    let mut at_exit = direction.clone();
    let arrive = async move {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = direction.forgive(from.read(&mut buffer).await)?;
            let due = Instant::now() + direction.arrival(&buffer[..count]);
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
            at_exit.passable().await;
            if chunk.is_empty() {
                return at_exit.forgive(to.shutdown().await);
            }
            at_exit.forgive(to.write_all(&chunk).await)?;
            let rate = at_exit.rules.borrow().rate;
            if let Some(micros) = (chunk.len() as u64 * 1_000_000).checked_div(rate) {
                sleep(Duration::from_micros(micros)).await;
            }
        }
        Ok(())
    };
    tokio::try_join!(arrive, deliver).map(|_: ((), ())| ())
}
