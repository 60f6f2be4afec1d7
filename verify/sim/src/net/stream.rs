//! The clients' end of a connection: a stream, and the connector that opens it.

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_redlock::node::redis::{Address, Connecting, Connector, IoStream};

use super::{
    Net,
    conn::{Conn, Opening},
    deliver::Event,
};
use crate::redis::ConnId;

/// Opens the connections of one process of a client. A server is addressed by its number, as the port.
#[derive(Clone, Debug)]
pub struct SimConnector {
    net: Net,
    client: usize,
    generation: u64,
}

impl SimConnector {
    /// The connector of the process that the client runs now.
    pub fn new(net: &Net, client: usize) -> Self {
        let generation = net.lock().clients[client].generation;
        Self { net: net.clone(), client, generation }
    }

    /// Opens a connection.
    pub fn open(
        &self,
        server: usize,
    ) -> impl Future<Output = io::Result<SimStream>> + Send + use<> {
        let (client, generation) = (self.client, self.generation);
        let id = self.net.with(|state, now| {
            let id = state.next;
            state.next += 1;
            state.conns.insert(id, Conn::new(client, generation, server));
            if state.clients[client].generation == generation {
                state.send(now, Event::Syn(id));
                state.double(now, id);
            }
            id
        });
        Open(Some(SimStream { net: self.net.clone(), id }))
    }
}

impl Connector for SimConnector {
    fn connect(&self, address: &Address) -> Connecting {
        let server = match address {
            Address::Tcp { port, .. } => usize::from(*port),
            _ => usize::MAX,
        };
        let opening = self.open(server);
        Box::pin(async move { Ok(Box::new(opening.await?) as Box<dyn IoStream>) })
    }
}

struct Open(Option<SimStream>);

impl Future for Open {
    type Output = io::Result<SimStream>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(stream) = &self.0 else { return Poll::Pending };
        let opening = stream.with_conn(|conn| {
            if conn.opening == Opening::Waits {
                conn.waker = Some(cx.waker().clone());
            }
            conn.opening
        });
        match (opening, self.0.take()) {
            (Some(Opening::Open), Some(stream)) => Poll::Ready(Ok(stream)),
            (Some(Opening::Waits), stream) => {
                self.0 = stream;
                Poll::Pending
            }
            _ => Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into())),
        }
    }
}

/// A connection.
pub struct SimStream {
    net: Net,
    id: ConnId,
}

impl fmt::Debug for SimStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimStream").field(&self.id).finish()
    }
}

impl SimStream {
    fn with_conn<T>(&self, run: impl FnOnce(&mut Conn) -> T) -> Option<T> {
        self.net.lock().conns.get_mut(&self.id).map(run)
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.with_conn(|conn| {
            if !conn.received.is_empty() {
                let length = conn.received.len().min(into.remaining());
                into.put_slice(&conn.received[..length]);
                conn.received.drain(..length);
                return Poll::Ready(Ok(()));
            }
            match conn.ended {
                Some(io::ErrorKind::UnexpectedEof) => Poll::Ready(Ok(())),
                Some(kind) => Poll::Ready(Err(kind.into())),
                None => {
                    conn.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        });
        read.unwrap_or_else(|| Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())))
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let id = self.id;
        Poll::Ready(self.net.with(|state, now| {
            let Some(conn) = state.conns.get(&id) else {
                return Err(io::ErrorKind::ConnectionReset.into());
            };
            if conn.ended.is_some() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if state.clients[conn.client].generation == conn.generation {
                let twin = conn.twin;
                state.send(now, Event::Up(id, bytes.to_vec()));
                if let Some(twin) = twin {
                    state.send(now, Event::Up(twin, bytes.to_vec()));
                }
            }
            Ok(bytes.len())
        }))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let id = self.id;
        self.net.with(|state, now| {
            let Some(conn) = state.conns.get_mut(&id) else { return };
            conn.waker = None;
            // `Net::end_client` closes the connections that an ended process leaves open.
            if state.clients[conn.client].generation == conn.generation {
                let twin = conn.twin;
                state.send(now, Event::UpEnd(id));
                if let Some(twin) = twin {
                    state.send(now, Event::UpEnd(twin));
                }
            }
        });
    }
}
