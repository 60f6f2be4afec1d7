//! One connection.

use std::{io, task::Waker};

use crate::redis::{Bytes, ConnId};

/// The state of opening a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    Waits,
    Open,
    Refused,
}

/// A connection, at both ends.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) client: usize,
    /// The client's process that opened it.
    pub(super) generation: u64,
    pub(super) server: usize,
    /// The server's process that has it.
    pub(super) epoch: u64,
    pub(super) opening: Opening,
    /// Bytes that the server has not processed yet.
    pub(super) unread: Bytes,
    /// Bytes that the client has not read yet.
    pub(super) received: Bytes,
    /// The error with which it ended for the client, if any.
    pub(super) ended: Option<io::ErrorKind>,
    /// Time at which the latest segment arrives at the server, and at the client.
    pub(super) last_up: u64,
    pub(super) last_down: u64,
    pub(super) waker: Option<Waker>,
    /// A second connection that carries the same bytes to the server.
    pub(super) twin: Option<ConnId>,
    /// Maximum additional delay of a segment to the server, in µs.
    pub(super) lag: u64,
}

impl Conn {
    pub(super) fn new(client: usize, generation: u64, server: usize) -> Self {
        Self {
            client,
            generation,
            server,
            epoch: 0,
            opening: Opening::Waits,
            unread: Bytes::new(),
            received: Bytes::new(),
            ended: None,
            last_up: 0,
            last_down: 0,
            waker: None,
            twin: None,
            lag: 0,
        }
    }
}
