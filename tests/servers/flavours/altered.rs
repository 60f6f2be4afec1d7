//! A connector that alters the data between a client and its servers, so that a real server answers
//! like a server of another kind.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_redlock::node::redis::{Address, Connecting, Connector, IoStream, SocketConnector};

/// A text, and its replacement of the same length.
type Change = (String, String);

/// Changes of data that is read. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Altered {
    read: Arc<Mutex<Vec<Change>>>,
}

impl Altered {
    /// Replaces a text in answers from now on.
    pub(super) fn read(self, from: &str, to: &str) -> Self {
        self.change_read(from, to);
        self
    }

    /// Like [`read`](Self::read), while the connector is in use.
    pub(super) fn change_read(&self, from: &str, to: &str) {
        assert_eq!(from.len(), to.len());
        self.read.lock().unwrap().push((from.into(), to.into()));
    }
}

impl Connector for Altered {
    fn connect(&self, address: &Address) -> Connecting {
        let opening = SocketConnector::new().connect(address);
        let changes = self.clone();
        Box::pin(async move {
            let stream = AlteredStream { stream: opening.await?, changes };
            Ok(Box::new(stream) as Box<dyn IoStream>)
        })
    }
}

struct AlteredStream {
    stream: Box<dyn IoStream>,
    changes: Altered,
}

fn alter(bytes: &mut [u8], changes: &[Change]) {
    for (from, to) in changes {
        let length = from.len();
        for at in 0..(bytes.len() + 1).saturating_sub(length) {
            if &bytes[at..at + length] == from.as_bytes() {
                bytes[at..at + length].copy_from_slice(to.as_bytes());
            }
        }
    }
}

impl AsyncRead for AlteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = room.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, room))?;
        alter(&mut room.filled_mut()[before..], &self.changes.read.lock().unwrap());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for AlteredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
