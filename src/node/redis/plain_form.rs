//! The plain form of an acquire and a release: commands in place of a script, which are cheaper for a server.
//!
//! An exclusive acquire of one name that is believed to be free, with a single token, is two commands, one after
//! the other:
//!
//! ```text
//! SET lock value NX PXAT expiry
//! ZADD fences:VIEW XX GT CH token stripe
//! ```
//!
//! `OK` and 1 are a grant with an accepted token, under the view. Anything else does not answer it: the operation is
//! then sent as its script, which knows the lease's own key, finds the holder, leaves the mark of the waiter, and
//! tells the views apart. So the script defines what an operation means.
//!
//! # Why two commands are enough (R9, R14)
//!
//! * The fences of a view exist only while the server votes under it, and no view is made twice. A client that
//!   names a view has read it before. So if `ZADD` finds the fences, the server voted under the view when `SET` ran.
//! * Another client may have got the name between the commands only if the key had expired, which the deadline of
//!   the attempt and the TIME after the commands exclude, or under another view, or with a greater token: then
//!   `ZADD` answers 0.
//! * `ZADD GT` compares the fence with what it stores. With the end of a longer block it would accept a token that
//!   is not above the fence, so a plain acquire has a single token, and its lease is not handed on.
//! * A plain acquire that is refused has raised the fence up to its token. The holder is not affected; a proposal
//!   below it needs a raise.
//!
//! `quorum/tests/names/plain.rs` models the two commands apart.
//!
//! The release of such a lease is one command where the server has one that compares and deletes: its key has the
//! value that the acquire stored, unless a waiter has marked it, which changes the value, or its token was raised.
//! Then nothing is deleted, and the script is sent, which publishes the release.

use super::{
    encode::{Encoder, stripe_fields, value},
    wire::Command,
};
use crate::{
    node::ServerKind,
    protocol::{AcquireOp, LeaseId, Op},
};

/// The command of a server that deletes a key with a certain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeleteIfEqual {
    /// `DELEX key IFEQ value`, of Redis 8.4.
    Delex,
    /// `DELIFEQ key value`, of Valkey 9.0.
    Delifeq,
}

impl DeleteIfEqual {
    /// Returns the command that a server of this version has.
    pub(super) fn of(kind: Option<ServerKind>, version: Option<&str>) -> Option<Self> {
        let mut parts = version?.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        match kind? {
            ServerKind::Redis => (number >= (8, 4)).then_some(Self::Delex),
            ServerKind::Valkey => (number >= (9, 0)).then_some(Self::Delifeq),
            _ => None,
        }
    }
}

/// Returns the number of commands of the plain form of an operation; `None` if it has none.
pub(super) fn commands(op: &Op) -> Option<usize> {
    match op {
        Op::Acquire(AcquireOp { lease, token, block_end, .. }) => {
            (is_simple(lease) && *token > 0 && token == block_end).then_some(2)
        }
        Op::Release(lease) => (is_simple(lease) && lease.single_token().is_some()).then_some(1),
        _ => None,
    }
}

fn is_simple(lease: &LeaseId) -> bool {
    !lease.is_shared()
        && !lease.is_always_awaited()
        && !lease.lingers()
        && lease.resource().shared_names().len() == 1
}

impl Encoder<'_> {
    /// Encodes the plain form of an operation, and passes each command to `push`. Returns false if the server has
    /// no command for it; nothing is passed then.
    pub(super) fn encode_plain(
        &self,
        op: &Op,
        delete: Option<DeleteIfEqual>,
        cmd: &mut Command,
        mut push: impl FnMut(&Command),
    ) -> bool {
        cmd.clear();
        match op {
            Op::Acquire(AcquireOp { lease, ttl, token, .. }) => {
                cmd.arg("SET");
                self.lock_key(cmd, lease);
                value(cmd, lease, *token, "");
                let life = *ttl + self.node_timeout;
                cmd.arg("NX").arg("PXAT").arg(self.server_clock.expiry(self.now, life));
                push(cmd);
                cmd.clear();
                cmd.arg("ZADD").arg(self.fences).arg("XX").arg("GT").arg("CH").arg(*token);
                stripe_fields(cmd, lease);
            }
            Op::Release(lease) => {
                let Some(delete) = delete else { return false };
                cmd.arg(if delete == DeleteIfEqual::Delex { "DELEX" } else { "DELIFEQ" });
                self.lock_key(cmd, lease);
                if delete == DeleteIfEqual::Delex {
                    cmd.arg("IFEQ");
                }
                value(cmd, lease, lease.single_token().unwrap_or_default(), "");
            }
            op => unreachable!("an operation without a plain form: {op:?}"),
        }
        push(cmd);
        true
    }

    fn lock_key(&self, cmd: &mut Command, lease: &LeaseId) {
        let name = lease.resource().shared_names().first().map_or("", |name| name);
        cmd.joined(&self.keys.lock_prefix, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_compare_and_delete_are_known() {
        for (kind, version, command) in [
            (ServerKind::Redis, "8.4.0", Some(DeleteIfEqual::Delex)),
            (ServerKind::Redis, "10.0.1", Some(DeleteIfEqual::Delex)),
            (ServerKind::Redis, "8.2.9", None),
            (ServerKind::Redis, "7.0.15", None),
            (ServerKind::Valkey, "9.0.0-rc1", Some(DeleteIfEqual::Delifeq)),
            (ServerKind::Valkey, "8.1.4", None),
            (ServerKind::KeyDb, "9.0.0", None),
            (ServerKind::Other, "9.0.0", None),
        ] {
            assert_eq!(DeleteIfEqual::of(Some(kind), Some(version)), command, "{kind:?} {version}");
        }
        assert_eq!(DeleteIfEqual::of(None, Some("9.0.0")), None);
        assert_eq!(DeleteIfEqual::of(Some(ServerKind::Redis), None), None);
    }
}
