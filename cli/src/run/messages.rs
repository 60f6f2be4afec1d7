//! The messages between `run` and its watchdog: one JSON document per line, over a socket.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::Arc,
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use super::clock::LockEnd;

/// From `run` to the watchdog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// Start the command, with additions to its environment.
    Start { lock_end: LockEnd, environment: Vec<(String, String)> },
    /// The lock ends at another time.
    LockEnds(LockEnd),
    /// Send a signal to the command.
    Signal(i32),
    /// Kill all processes of the command.
    Kill,
}

/// From the watchdog to `run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    Ready,
    Started {
        pid: i32,
    },
    NotStarted {
        error: String,
    },
    /// The command's first process has ended, with this status as wait(2) returns it. `killed`: the
    /// watchdog had sent SIGKILL before.
    FirstEnded {
        status: i32,
        killed: bool,
    },
    /// No process of the command is left.
    Gone,
}

/// Sends lines, and never waits.
#[derive(Clone, Debug)]
pub(super) struct Sender(Arc<UnixStream>);

impl Sender {
    pub(super) fn new(socket: &UnixStream) -> io::Result<Self> {
        socket.try_clone().map(|socket| Self(Arc::new(socket)))
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// The other process has ended, or reads nothing.
    pub(super) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
        line.push(b'\n');
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = rustix::net::send(&*self.0, &line, flags)?;
        if sent == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// Sends a file descriptor.
pub(super) fn send_descriptor(socket: &UnixStream, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for a file descriptor"));
    }
    sendmsg(socket, &[IoSlice::new(b"d")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Receives a file descriptor.
pub(super) fn receive_descriptor(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    // The command gets it only as its standard input.
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    received.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn descriptors_arrive() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send_descriptor(&one, writer.as_fd()).unwrap();
        drop(writer);
        let mut writer = std::fs::File::from(receive_descriptor(&other).unwrap());
        writer.write_all(b"hello").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn sender_never_waits() {
        let (one, other) = UnixStream::pair().unwrap();
        let sender = Sender::new(&one).unwrap();
        let refused = (0..100_000).find_map(|_| sender.send(&Order::Kill).err());
        assert!(refused.is_some(), "the socket is full");
        drop(other);
        assert!(sender.send(&Order::Kill).is_err());
    }
}
