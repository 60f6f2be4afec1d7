//! One connection.

use std::{io, task::Waker};

use crate::redis::{Bytes, ConnId};

/// How opening a connection stands.
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
    /// Which process of the client opened it.
    pub(super) generation: u64,
    pub(super) server: usize,
    /// Which process of the server has it.
    pub(super) epoch: u64,
    pub(super) opening: Opening,
    /// What the server has not run yet.
    pub(super) unread: Bytes,
    /// What the client has not read yet.
    pub(super) received: Bytes,
    /// How it ended for the client.
    pub(super) ended: Option<io::ErrorKind>,
    /// When the latest segment arrives at the server, and at the client.
    pub(super) last_up: u64,
    pub(super) last_down: u64,
    pub(super) waker: Option<Waker>,
    /// A second connection, which carries the same bytes to the server.
    pub(super) twin: Option<ConnId>,
    /// How much later than usual a segment arrives at the server at most, in µs.
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
