//! Writes commands to a stream and reads their replies.

use std::{
    fmt,
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use ::redis::{Pipeline, Value};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep},
};

use super::{Command, MAX_KEPT, RespReader, Unreadable};
use crate::{
    error::Reason,
    node::redis::{IoStream, server_error::reason},
};

/// The error text of a reply that takes too much memory.
pub(crate) const TOO_LONG: &str = "a reply exceeds the memory limit";
/// Initial size of the read buffer, in bytes.
const READ_BUFFER: usize = 16 * 1024;
/// Maximum memory of the replies to one call of [`Wire::ask`], in bytes.
const MAX_GREETING: usize = 1024 * 1024;
/// Maximum memory of the replies to one call of [`Wire::ask_within`], in bytes: the longest record
/// that is copied.
pub(in crate::node::redis) const MAX_LONG: usize = 64 * 1024 * 1024;
/// Maximum number of reads in a row, so that an endless reply does not block the thread.
pub(crate) const MAX_READS: usize = 16;

/// A stream to a server, with its buffers.
pub(crate) struct Wire {
    stream: Box<dyn IoStream>,
    /// Commands to write; the first `written` bytes are written.
    output: Vec<u8>,
    written: usize,
    is_flushed: bool,
    /// Input; the bytes from `taken` to `filled` are not parsed yet.
    input: Vec<u8>,
    taken: usize,
    filled: usize,
    reader: RespReader,
    /// Bytes read and written since the connection was opened.
    moved: u64,
}

impl Wire {
    pub(crate) fn new(stream: Box<dyn IoStream>) -> Self {
        Self {
            stream,
            output: Vec::new(),
            written: 0,
            is_flushed: true,
            input: vec![0; READ_BUFFER],
            taken: 0,
            filled: 0,
            reader: RespReader::default(),
            moved: 0,
        }
    }

    /// Returns whether all output is written.
    pub(crate) fn is_written(&self) -> bool {
        self.output.is_empty() && self.is_flushed
    }

    /// Adds bytes of commands to the next write.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Adds a command to the next write.
    pub(crate) fn push(&mut self, command: &Command) {
        command.append_to(&mut self.output);
    }

    /// Adds all commands of a pipeline to the next write; returns their number.
    pub(crate) fn push_all(&mut self, pipeline: &Pipeline) -> usize {
        for command in pipeline.cmd_iter() {
            command.write_packed_command(&mut self.output);
        }
        pipeline.len()
    }

    /// Writes and flushes the output.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.forget_written();
        while self.written < self.output.len() {
            self.is_flushed = false;
            let unwritten = &self.output[self.written..];
            match ready!(Pin::new(&mut self.stream).poll_write(cx, unwritten))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => {
                    self.written += count;
                    self.moved += count as u64;
                }
            }
        }
        if !self.is_flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_flushed = true;
            self.written = 0;
            if self.output.capacity() > MAX_KEPT {
                self.output = Vec::new();
            }
            self.output.clear();
        }
        Poll::Ready(Ok(()))
    }

    /// Frees written bytes if there is always more to write.
    fn forget_written(&mut self) {
        if self.written >= READ_BUFFER && self.written >= self.output.len() / 2 {
            self.output.drain(..self.written);
            self.written = 0;
        }
    }

    /// Returns the next complete reply. `left` is the memory left for replies.
    ///
    /// Unparsed input takes at most twice as much.
    pub(crate) fn answer(&mut self, left: &mut usize) -> Result<Option<Value>, Unreadable> {
        let mut bytes = &self.input[self.taken..self.filled];
        let answer = self.reader.next(&mut bytes, left);
        self.taken = self.filled - bytes.len();
        answer
    }

    /// Returns whether there is unparsed input.
    fn has_input(&self) -> bool {
        self.taken < self.filled
    }

    /// Reads more; returns false at the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        self.make_room();
        let mut room = ReadBuf::new(&mut self.input[self.filled..]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room))?;
        let count = room.filled().len();
        self.filled += count;
        self.moved += count as u64;
        Poll::Ready(Ok(count > 0))
    }

    /// Fails if the server has closed the connection or sent an unsolicited reply. Does not wait.
    pub(crate) async fn check_idle(&mut self) -> Result<(), Reason> {
        // Yields, so that the runtime polls the socket first.
        tokio::task::yield_now().await;
        let read = poll_fn(|cx| Poll::Ready(self.poll_read(cx))).await;
        self.check_answered()?;
        if read.is_pending() { Ok(()) } else { Err(Reason::Disconnected) }
    }

    /// Fails if there is an unsolicited reply.
    pub(crate) fn check_answered(&self) -> Result<(), Reason> {
        if self.has_input() {
            return Err(Reason::Protocol("an unsolicited reply".into()));
        }
        Ok(())
    }

    fn make_room(&mut self) {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
            if self.input.len() > MAX_KEPT {
                self.input = vec![0; READ_BUFFER];
            }
        }
        if self.filled < self.input.len() {
            return;
        }
        if self.taken >= self.input.len() / 2 {
            self.input.copy_within(self.taken.., 0);
            self.filled -= self.taken;
            self.taken = 0;
        } else {
            self.input.resize(2 * self.input.len(), 0);
        }
        debug_assert!(self.taken <= self.filled && self.filled < self.input.len());
    }

    /// Writes the output and reads the next reply or pushed message. `left` is the memory left for
    /// it.
    pub(crate) fn poll_reply(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut usize,
    ) -> Poll<Result<Value, Reason>> {
        let is_broken = matches!(self.poll_write(cx), Poll::Ready(Err(_)));
        for _ in 0..MAX_READS {
            if let Some(said) = self.answer(left)? {
                return Poll::Ready(Ok(said));
            }
            match self.poll_read(cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Pending if !is_broken => return Poll::Pending,
                _ => return Poll::Ready(Err(Reason::Disconnected)),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Sends commands and waits for their replies; no other commands may be outstanding.
    pub(crate) async fn ask(&mut self, pipeline: &Pipeline) -> Result<Vec<Value>, Reason> {
        self.ask_until(pipeline, MAX_GREETING, |_, _| Poll::Pending).await
    }

    /// Like [`ask`](Self::ask) for long replies, of at most `memory` bytes. Fails if no byte is
    /// read or written for `silence`.
    pub(crate) async fn ask_within(
        &mut self,
        pipeline: &Pipeline,
        silence: Duration,
        memory: usize,
    ) -> Result<Vec<Value>, Reason> {
        let mut known = self.moved;
        let mut silent = pin!(sleep(silence));
        let poll_silent = |cx: &mut Context<'_>, moved| {
            if moved > known {
                known = moved;
                silent.as_mut().reset(Instant::now() + silence);
            }
            silent.as_mut().poll(cx)
        };
        self.ask_until(pipeline, memory, poll_silent).await
    }

    /// Sends commands and waits for their replies, until `poll_end` is ready. `poll_end` gets the
    /// number of bytes moved so far; the replies take at most `memory` bytes.
    async fn ask_until(
        &mut self,
        pipeline: &Pipeline,
        memory: usize,
        mut poll_end: impl FnMut(&mut Context<'_>, u64) -> Poll<()>,
    ) -> Result<Vec<Value>, Reason> {
        let count = self.push_all(pipeline);
        let mut answers = Vec::with_capacity(count);
        let mut left = memory;
        poll_fn(|cx| {
            let written = self.poll_write(cx);
            for _ in 0..MAX_READS {
                while answers.len() < count {
                    let Some(answer) = self.answer(&mut left)? else { break };
                    answers.push(answer);
                }
                if answers.len() == count {
                    return Poll::Ready(Ok(()));
                }
                // Replies that arrived before the end of the connection still count.
                let end = match (self.poll_read(cx), &written) {
                    (Poll::Ready(Ok(true)), _) => continue,
                    (Poll::Ready(Err(error)), _) => ended(&answers, &error),
                    (_, Poll::Ready(Err(error))) => ended(&answers, error),
                    (Poll::Ready(Ok(false)), _) => {
                        ended(&answers, &io::ErrorKind::UnexpectedEof.into())
                    }
                    (Poll::Pending, _) => {
                        return poll_end(cx, self.moved).map(|()| Err(Reason::TimedOut));
                    }
                };
                return Poll::Ready(Err(end));
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
        .map(|()| answers)
    }
}

/// Returns why the connection ended. A server that rejects a client states the reason first.
fn ended(answers: &[Value], error: &io::Error) -> Reason {
    let said = answers.iter().find_map(|answer| match answer {
        Value::ServerError(error) => Some(reason(error)),
        _ => None,
    });
    said.unwrap_or_else(|| match error.kind() {
        // A server that requires another client certificate reports that after the handshake.
        io::ErrorKind::InvalidData => Reason::Tls(error.to_string().into()),
        _ => Reason::NotConnected(error.to_string().into()),
    })
}

impl From<Unreadable> for Reason {
    fn from(unreadable: Unreadable) -> Self {
        Self::NotConnected(match unreadable {
            Unreadable::Malformed => "it does not speak the Redis protocol".into(),
            Unreadable::TooLong => TOO_LONG.into(),
        })
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
