//! A connector that sees each command before its server does, and may answer in its place.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};
use tower_redlock::node::redis::{Address, Connecting, Connector, IoStream, SocketConnector};

use super::{Command, Resp, decode};

/// Returns what one connection answers in place of its server.
pub type Answering = Box<dyn FnMut(&Command) -> Option<Vec<u8>> + Send>;

/// Connects to servers, to one of them through an [`Answering`] of each connection.
#[derive(Clone)]
pub struct Interceptor {
    address: String,
    answering: Arc<dyn Fn() -> Answering + Send + Sync>,
    interval: Duration,
}

impl Interceptor {
    pub fn new(address: String, answering: impl Fn() -> Answering + Send + Sync + 'static) -> Self {
        Self { address, answering: Arc::new(answering), interval: Duration::ZERO }
    }

    /// Sets the time between two bytes of an answer.
    pub fn interval(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }
}

impl fmt::Debug for Interceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interceptor").finish_non_exhaustive()
    }
}

impl Connector for Interceptor {
    fn connect(&self, address: &Address) -> Connecting {
        let opening = SocketConnector::new().connect(address);
        let answering = (address.to_string() == self.address).then(|| (self.answering)());
        let interval = self.interval;
        Box::pin(async move {
            let stream = opening.await?;
            let Some(answering) = answering else { return Ok(stream) };
            let next = Box::pin(sleep(Duration::ZERO));
            let stream =
                Intercepted { stream, answering, passing: 0, output: vec![], interval, next };
            Ok(Box::new(stream) as Box<dyn IoStream>)
        })
    }
}

struct Intercepted {
    stream: Box<dyn IoStream>,
    answering: Answering,
    /// Number of bytes left of a command for the server.
    passing: usize,
    /// The rest of an answer in place of the server.
    output: Vec<u8>,
    interval: Duration,
    next: Pin<Box<Sleep>>,
}

impl AsyncRead for Intercepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.output.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, room);
        }
        let interval = self.interval;
        let mut count = self.output.len().min(room.remaining());
        if !interval.is_zero() {
            ready!(self.next.as_mut().poll(cx));
            self.next.as_mut().reset(Instant::now() + interval);
            count = 1;
        }
        room.put_slice(&self.output[..count]);
        self.output.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Intercepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.passing == 0 {
            let (command, length) = decode(bytes).expect("a write begins with a whole command");
            let command: Command = command.items().into_iter().filter_map(Resp::bytes).collect();
            if let Some(answer) = (self.answering)(&command) {
                self.output = answer;
                return Poll::Ready(Ok(length));
            }
            self.passing = length;
        }
        let count = self.passing.min(bytes.len());
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &bytes[..count]))?;
        self.passing -= written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
