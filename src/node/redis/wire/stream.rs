use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use ::redis::{Pipeline, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Command, Reader};
use crate::{error::Reason, node::redis::IoStream};

/// The room for what is read; more is made where one answer is longer.
const ROOM: usize = 16 * 1024;
/// Above it a buffer is given back when it is empty.
const MAX_KEPT: usize = 256 * 1024;

/// A stream to a server, with what is to be written to it and what was read from it.
pub(in crate::node::redis) struct Wire {
    stream: Box<dyn IoStream>,
    /// Commands, of which so many bytes are written.
    output: Vec<u8>,
    written: usize,
    is_flushed: bool,
    /// What was read: the bytes from `taken` to `filled` belong to no answer yet.
    input: Vec<u8>,
    taken: usize,
    filled: usize,
    reader: Reader,
}

impl Wire {
    pub(in crate::node::redis) fn new(stream: Box<dyn IoStream>) -> Self {
        Self {
            stream,
            output: Vec::new(),
            written: 0,
            is_flushed: true,
            input: vec![0; ROOM],
            taken: 0,
            filled: 0,
            reader: Reader::default(),
        }
    }

    /// Adds a command to the next write.
    pub(in crate::node::redis) fn push(&mut self, command: &Command) {
        command.append_to(&mut self.output);
    }

    /// Adds all commands of a pipeline; says how many answers it will have.
    pub(in crate::node::redis) fn push_all(&mut self, pipeline: &Pipeline) -> usize {
        for command in pipeline.cmd_iter() {
            command.write_packed_command(&mut self.output);
        }
        pipeline.len()
    }

    /// Writes what there is; ready when all of it is on the way.
    pub(in crate::node::redis) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.written < self.output.len() {
            self.is_flushed = false;
            let unwritten = &self.output[self.written..];
            match ready!(Pin::new(&mut self.stream).poll_write(cx, unwritten))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
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

    /// The next answer, if it was read in full.
    pub(in crate::node::redis) fn answer(&mut self) -> Result<Option<Value>, Reason> {
        let mut bytes = &self.input[self.taken..self.filled];
        let answer = self.reader.next(&mut bytes);
        self.taken = self.filled - bytes.len();
        answer.map_err(|_| Reason::NotConnected("it does not speak the Redis protocol".into()))
    }

    /// Whether there is something that belongs to no answer yet.
    pub(in crate::node::redis) fn has_input(&self) -> bool {
        self.taken < self.filled
    }

    /// Reads more; false at the end of the stream.
    pub(in crate::node::redis) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<bool>> {
        self.make_room();
        let mut room = ReadBuf::new(&mut self.input[self.filled..]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room))?;
        let count = room.filled().len();
        self.filled += count;
        Poll::Ready(Ok(count > 0))
    }

    fn make_room(&mut self) {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
            if self.input.len() > MAX_KEPT {
                self.input = vec![0; ROOM];
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
    }

    /// Sends commands and waits for their answers; nothing else is under way.
    pub(in crate::node::redis) async fn ask(
        &mut self,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, Reason> {
        let count = self.push_all(pipeline);
        let mut answers = Vec::with_capacity(count);
        std::future::poll_fn(|cx| {
            let written = self.poll_write(cx);
            loop {
                while answers.len() < count {
                    let Some(answer) = self.answer()? else { break };
                    answers.push(answer);
                }
                if answers.len() == count {
                    return Poll::Ready(Ok(()));
                }
                // What the server still said before the connection ended has been read by now.
                if let Poll::Ready(Err(error)) = &written {
                    return Poll::Ready(Err(not_connected(error)));
                }
                if !ready!(self.poll_read(cx)).map_err(|error| not_connected(&error))? {
                    return Poll::Ready(Err(not_connected(&io::ErrorKind::UnexpectedEof.into())));
                }
            }
        })
        .await
        .map(|()| answers)
    }
}

fn not_connected(error: &io::Error) -> Reason {
    Reason::NotConnected(error.to_string().into())
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A pipe that is too small for what goes through it.
    fn wire() -> (Wire, tokio::io::DuplexStream) {
        let (ours, server) = tokio::io::duplex(5);
        (Wire::new(Box::new(ours)), server)
    }

    #[tokio::test]
    async fn an_answer_is_taken_though_the_connection_ends_with_it() {
        let (mut wire, mut server) = wire();
        tokio::spawn(async move {
            server.read_exact(&mut [0; 14]).await.unwrap();
            server.write_all(b"+PONG\r\n").await.unwrap();
        });
        let mut ping = Pipeline::with_capacity(1);
        ping.cmd("PING");
        assert_eq!(wire.ask(&ping).await, Ok(vec![Value::SimpleString("PONG".into())]));
        assert!(matches!(wire.ask(&ping).await, Err(Reason::NotConnected(_))));
    }

    #[tokio::test]
    async fn long_answers_are_read_whole_and_their_room_is_given_back() {
        let (mut wire, mut server) = wire();
        let long = vec![b'x'; 3 * MAX_KEPT];
        let (sent, length) = (long.clone(), long.len());
        let serving = tokio::spawn(async move {
            for text in [&sent[..], b"short"] {
                server.read_exact(&mut [0; 14]).await.unwrap();
                let head = format!("${}\r\n", text.len());
                server.write_all(&[head.as_bytes(), text, b"\r\n"].concat()).await.unwrap();
            }
        });
        let mut ping = Pipeline::with_capacity(1);
        ping.cmd("PING");
        assert_eq!(wire.ask(&ping).await, Ok(vec![Value::BulkString(long)]));
        assert!(wire.input.len() > length);
        assert_eq!(wire.ask(&ping).await, Ok(vec![Value::BulkString(b"short".to_vec())]));
        assert_eq!(wire.input.len(), ROOM);
        serving.await.unwrap();
    }
}
