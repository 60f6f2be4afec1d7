//! Writes an operation on the thread that sends it, if its connection is idle.
//!
//! A caller that wakes the connection's task waits for that thread. So while nothing is unanswered, queued or
//! unwritten, the task lets the senders write: the first that comes writes one operation to the socket, and the
//! task reads the answer. Everything else goes through the channel, and the task writes it in batches.
//!
//! # Invariants
//!
//! * The task writes and counts batches only while it owns the connection ([`Turn::Task`]): it takes the connection
//!   back first, with what a sender has written. So the batches are in the order of the bytes.
//! * A sender writes only if no other operation of the node is under way, in the channel or unanswered. So written
//!   operations are not overtaken, and a release leaves after its acquire.
//! * A sender records its batch before it unlocks the mutex, which the task locks before it looks at what it has read.
//!   So an answer is never read without its batch.
//! * What the socket does not take at once is written by the task, which is woken for it.
//!
//! # Deadlock safety
//!
//! The mutex is a leaf. No foreign code runs under it: the stream is a socket of this crate, never a user's
//! [`Connector`](crate::node::redis::Connector) or TLS, which keep the channel.

use std::{fmt, sync::Arc};

use tokio::time::Instant;

use super::{sent_batch::OperationBatch, voting_tag::VotingTag};
use crate::{
    node::redis::{
        encode::{Encoder, ScriptRef, script_of, token_limit},
        enrol::NodeSet,
        plain_form::DeleteIfEqual,
        request::NodeRequest,
        scripts::Digests,
        server_clock::ServerClock,
        socket::SharedSocket,
        wire::Command,
    },
    protocol::{AcquireOp, Op},
    sync::{
        Guard, Mutex, Notify,
        atomic::{AtomicBool, Ordering},
    },
    time::Timestamp,
};

/// The part of a connection that senders may use, shared by the node and the connection's task.
#[derive(Default)]
pub(in crate::node::redis) struct DirectWriter {
    state: Mutex<DirectState>,
    /// Whether it was the senders' turn when the mutex was last unlocked: a hint that spares most senders the mutex.
    is_lent: AtomicBool,
    /// Wakes the task to write what the socket did not take.
    unwritten: Notify,
}

#[derive(Default)]
struct DirectState {
    turn: Turn,
    /// What a sender needs to encode an operation; `None` before a connection serves.
    context: Option<DirectContext>,
    written: Option<DirectBatch>,
    command: Command,
    output: Vec<u8>,
}

/// The side that may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    /// The connection's task.
    #[default]
    Task,
    /// The first sender.
    Senders,
    /// A sender has written. The task takes the batch.
    Written,
}

/// What is needed to encode an operation.
pub(super) struct DirectContext {
    pub(super) socket: SharedSocket,
    pub(super) set: Arc<NodeSet>,
    pub(super) vote: Arc<VotingTag>,
    pub(super) digests: Arc<Digests>,
    pub(super) server_clock: ServerClock,
    pub(super) deletes: Option<DeleteIfEqual>,
    pub(super) runs_scripts: bool,
}

/// An operation that a sender has written.
pub(super) struct DirectBatch {
    pub(super) sent: Timestamp,
    pub(super) waiting_since: Instant,
    pub(super) commands: usize,
    pub(super) operations: OperationBatch,
    /// The bytes that the socket did not take.
    pub(super) unwritten: Vec<u8>,
}

impl DirectWriter {
    fn state(&self) -> Guard<'_, DirectState> {
        crate::sync::lock(&self.state)
    }

    /// Writes an operation if the connection is idle; otherwise returns it. `in_flight`: the number of operations of
    /// the node that are under way, with this one.
    #[expect(clippy::result_large_err, reason = "the request goes on to the channel")]
    pub(in crate::node::redis) fn write(
        &self,
        request: NodeRequest,
        in_flight: usize,
        now: impl FnOnce() -> Timestamp,
    ) -> Result<(), NodeRequest> {
        if in_flight != 1 || !self.is_lent.load(Ordering::Relaxed) {
            return Err(request);
        }
        // The clock may be foreign code.
        let now = now();
        let mut state = self.state();
        if state.turn != Turn::Senders {
            return Err(request);
        }
        let is_whole = state.write(request, now)?;
        self.is_lent.store(false, Ordering::Relaxed);
        drop(state);
        if !is_whole {
            self.unwritten.notify_one();
        }
        Ok(())
    }

    /// Lets senders write.
    pub(super) fn lend(&self, context: impl FnOnce(&mut Option<DirectContext>)) {
        let mut state = self.state();
        debug_assert_eq!(state.turn, Turn::Task, "only its owner lends the connection");
        context(&mut state.context);
        state.turn = Turn::Senders;
        self.is_lent.store(true, Ordering::Relaxed);
    }

    /// Ends the turn of the senders. Returns what one has written.
    pub(super) fn take_back(&self) -> Option<DirectBatch> {
        let mut state = self.state();
        state.turn = Turn::Task;
        self.is_lent.store(false, Ordering::Relaxed);
        state.written.take()
    }

    /// Returns what a sender has written, and ends their turn then. Otherwise a sender may still write.
    pub(super) fn take_written(&self) -> Option<DirectBatch> {
        let mut state = self.state();
        let written = state.written.take()?;
        debug_assert_eq!(state.turn, Turn::Written, "a batch has its turn");
        state.turn = Turn::Task;
        Some(written)
    }

    /// Waits until a sender has written what the socket did not take.
    pub(super) async fn unwritten(&self) {
        self.unwritten.notified().await;
    }

    /// Frees the connection. Returns what a sender has written.
    pub(super) fn close(&self) -> Option<DirectBatch> {
        let mut state = self.state();
        state.turn = Turn::Task;
        self.is_lent.store(false, Ordering::Relaxed);
        let (context, written) = (state.context.take(), state.written.take());
        drop(state);
        // Its socket may be closed here, and its request answered.
        drop(context);
        written
    }
}

impl DirectState {
    /// Encodes and writes an operation. Returns whether all of it was written.
    #[expect(clippy::result_large_err, reason = "the request goes on to the channel")]
    fn write(&mut self, mut request: NodeRequest, now: Timestamp) -> Result<bool, NodeRequest> {
        let Self { context: Some(context), command, output, .. } = self else {
            return Err(request);
        };
        let encoder = context.encoder(now);
        if !context.may_write(&request, &encoder) {
            return Err(request);
        }
        output.clear();
        let push = |command: &Command| command.append_to(output);
        let requests = std::slice::from_mut(&mut request);
        let commands = encode_batch(
            requests,
            &encoder,
            ScriptRef::Digest,
            context.runs_scripts,
            context.deletes,
            command,
            push,
        );
        // The task finds out why it fails.
        let Ok(written) = context.socket.try_write(output) else { return Err(request) };
        debug_assert!(self.written.is_none(), "one batch at a time");
        let vote = Some(Arc::clone(&context.vote));
        let (by, server_clock) = (ScriptRef::Digest, context.server_clock);
        self.written = Some(DirectBatch {
            sent: now,
            waiting_since: Instant::now(),
            commands,
            operations: OperationBatch { requests: vec![request], by, vote, server_clock },
            unwritten: output[written..].to_vec(),
        });
        self.turn = Turn::Written;
        Ok(written == output.len())
    }
}

impl DirectContext {
    fn encoder(&self, now: Timestamp) -> Encoder<'_> {
        Encoder {
            keys: &self.set.keys,
            digests: &self.digests,
            tag: self.vote.text(),
            fences: &self.vote.fences,
            layout: &self.set.layout.hash,
            server_clock: self.server_clock,
            node_timeout: self.set.settings.node_timeout,
            now,
            // Only extensions depend on it, which the task writes.
            may_grant: false,
        }
    }

    /// Returns whether a sender may write an operation: an acquire or a release that the task would not refuse, and
    /// whose script is known to the server.
    fn may_write(&self, request: &NodeRequest, encoder: &Encoder<'_>) -> bool {
        let is_possible = match &request.op {
            Op::Acquire(AcquireOp { token, .. }) => {
                *token <= token_limit(self.server_clock, encoder.now)
            }
            // Otherwise it goes with the next operations in one write.
            Op::Release(lease) => lease.is_release_awaited(),
            _ => false,
        };
        let is_known = || script_of(&request.op).is_some_and(|it| self.digests.get(it).is_some());
        is_possible && !request.op.is_stale(encoder.now) && is_known()
    }
}

impl fmt::Debug for DirectWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectWriter").finish_non_exhaustive()
    }
}

/// Encodes operations, and TIME after an acquire: the clock is checked before the votes count, and shows whether the
/// expiry of the keys had passed. Returns the number of commands. `may_be_plain`: whether the server runs scripts,
/// which release what plain commands acquire. `deletes`: its command for such a release.
pub(super) fn encode_batch(
    requests: &mut [NodeRequest],
    encoder: &Encoder<'_>,
    by: ScriptRef,
    may_be_plain: bool,
    deletes: Option<DeleteIfEqual>,
    command: &mut Command,
    mut push: impl FnMut(&Command),
) -> usize {
    let mut commands = 0;
    for request in &mut *requests {
        let is_plain = request.is_plain()
            && may_be_plain
            && encoder.encode_plain(&request.op, deletes, command, &mut push);
        if !is_plain {
            request.use_script(false);
            encoder.encode(&request.op, by, command);
            push(command);
        }
        commands += request.commands();
    }
    if requests.iter().any(|request| matches!(request.op, Op::Acquire(_))) {
        command.clear();
        command.arg("TIME");
        push(command);
        commands += 1;
    }
    commands
}

#[cfg(test)]
#[path = "direct_tests.rs"]
mod tests;
