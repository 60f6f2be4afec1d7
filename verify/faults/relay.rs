//! One connection through a proxy.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::proxy::{Gate, GateState, Rules};

/// Ends when one of the two directions ends.
pub(crate) async fn relay(
    client: TcpStream,
    server: TcpStream,
    rules: watch::Receiver<Rules>,
    gate: Arc<GateState>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let holds_reply = Arc::new(AtomicBool::new(false));
    let direction = |is_request| Direction {
        is_request,
        rules: rules.clone(),
        gate: Arc::clone(&gate),
        holds_reply: Arc::clone(&holds_reply),
    };
    tokio::select! {
        ended = pump(from_client, to_server, direction(true)) => ended,
        ended = pump(from_server, to_client, direction(false)) => ended,
    }
}

struct Direction {
    is_request: bool,
    rules: watch::Receiver<Rules>,
    gate: Arc<GateState>,
    /// Whether the request that the gate waited for has passed.
    holds_reply: Arc<AtomicBool>,
}

impl Direction {
    /// Returns the earliest time at which a chunk may be forwarded.
    fn due(&self) -> Instant {
        let now = Instant::now();
        if self.is_request { now } else { now + self.rules.borrow().delay }
    }

    /// Waits until the chunk may pass.
    async fn passable(&mut self, chunk: &[u8]) {
        let is_held = if self.is_request {
            self.stops_at_gate(chunk)
        } else {
            self.holds_reply.load(Ordering::SeqCst)
        };
        if is_held {
            self.gate.is_reached.store(true, Ordering::SeqCst);
            let _ = self.rules.wait_for(|rules| rules.gate == Gate::Open).await;
            self.holds_reply.store(false, Ordering::SeqCst);
        }
        let is_request = self.is_request;
        let is_open = |rules: &Rules| {
            !if is_request { rules.blocks_requests } else { rules.blocks_replies }
        };
        let _ = self.rules.wait_for(is_open).await;
    }

    fn stops_at_gate(&self, chunk: &[u8]) -> bool {
        let gate = self.rules.borrow().gate;
        if gate == Gate::Open || !self.gate.trigger.matches(chunk) {
            return false;
        }
        self.holds_reply.store(gate == Gate::HoldReply, Ordering::SeqCst);
        gate == Gate::Hold
    }
}

/// Forwards chunks in order. Chunks are read while others wait, so that the sender is not blocked.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut direction: Direction,
) -> io::Result<()> {
    let (queue, mut chunks) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let rules = direction.rules.clone();
    let arrivals = Direction {
        is_request: direction.is_request,
        rules,
        gate: Arc::clone(&direction.gate),
        holds_reply: Arc::clone(&direction.holds_reply),
    };
    let arrive = async move {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = from.read(&mut buffer).await?;
            let _ = queue.send((arrivals.due(), buffer[..count].to_vec()));
            if count == 0 {
                return Ok(());
            }
        }
    };
    let deliver = async move {
        while let Some((due, chunk)) = chunks.recv().await {
            if due > Instant::now() {
                sleep_until(due).await;
            }
            direction.passable(&chunk).await;
            if chunk.is_empty() {
                return Ok(());
            }
            to.write_all(&chunk).await?;
        }
        Ok(())
    };
    tokio::try_join!(arrive, deliver).map(|_: ((), ())| ())
}
