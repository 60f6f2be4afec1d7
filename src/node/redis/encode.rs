//! Encodes operations as commands.

use std::{io::Write, time::Duration};

use super::{
    claim_text,
    directory::slot_of,
    enrol::Tag,
    scripts::{self, Digests, OperationScript},
    server_clock::ServerClock,
    wire::Command,
};
use crate::{
    protocol::{
        AcquireOp, ClaimOp, ExtendOp, ForgetJobOp, ForgetOp, LeaseId, Op, PrepareOp, RaiseOp,
        Record, RecordOp, RepairOp, ScanKind, ScanOp, StoredLease,
    },
    time::Timestamp,
    token::TOKEN_LEAD,
};

/// The keys of one namespace.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(super) meta: String,
    /// The sorted set of the fences while the node has no vote. While it votes, its name ends with the
    /// view.
    fences: String,
    /// A key that never exists: the fences of a vote that is sent while the node has no vote.
    pub(super) no_fences: String,
    /// A hash of values that begin with an increasing number.
    pub(super) marks: String,
    /// Prefix of the keys of records.
    pub(super) done_prefix: String,
    pub(super) lock_prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            meta: format!("{prefix}:meta"),
            fences: format!("{prefix}:fences"),
            no_fences: format!("{prefix}:fences:none"),
            marks: format!("{prefix}:marks"),
            done_prefix: format!("{prefix}:done:"),
            lock_prefix: format!("{prefix}:lock:"),
        }
    }

    /// Returns the key of the fences of a node with this tag.
    pub(super) fn fences(&self, tag: &Tag) -> String {
        if tag.is_active() {
            format!("{}:{}", self.fences, tag.fences())
        } else {
            self.fences.clone()
        }
    }

    /// Returns the slot of all keys in a Cluster, if they share a hash tag.
    pub(super) fn slot(&self) -> u16 {
        slot_of(&self.meta)
    }

    /// Returns the prefix of the keys or fields that are scanned.
    pub(super) fn prefix_of(&self, kind: ScanKind) -> &str {
        match kind {
            ScanKind::Locks => &self.lock_prefix,
            ScanKind::Records => &self.done_prefix,
            ScanKind::Jobs => CLAIM_PREFIX,
        }
    }
}

/// Prefix of the fields of claims.
const CLAIM_PREFIX: &str = "claim:";

pub(super) struct Encoder<'a> {
    pub(super) keys: &'a Keys,
    pub(super) digests: &'a Digests,
    /// The expected tag; empty if the node has no vote.
    pub(super) tag: &'a str,
    /// The key of the fences under that tag; [`Keys::no_fences`] if the node has no vote.
    pub(super) fences: &'a str,
    /// The hash of the layout of this set.
    pub(super) layout: &'a str,
    pub(super) server_clock: ServerClock,
    /// Maximum delay of an acquire whose keys still live for their full TTL.
    pub(super) node_timeout: Duration,
    pub(super) now: Timestamp,
    /// Whether an extension may store missing keys.
    pub(super) may_grant: bool,
}

/// Returns the script of an operation; `None` for one that is a plain command.
pub(super) fn script_of(op: &Op) -> Option<OperationScript> {
    Some(match op {
        Op::Acquire(op) if op.lease.is_shared() => scripts::ACQUIRE_SHARED,
        Op::Raise(op) if op.lease.is_shared() => scripts::RAISE_SHARED,
        Op::Extend(op) if op.lease.is_shared() => scripts::EXTEND_SHARED,
        Op::Release(lease) if lease.is_shared() => scripts::RELEASE_SHARED,
        Op::EndShared(_) => scripts::RELEASE_SHARED,
        Op::Withdraw(_) => scripts::WITHDRAW,
        Op::Acquire(_) => scripts::ACQUIRE,
        Op::Raise(_) => scripts::RAISE,
        Op::Extend(_) => scripts::EXTEND,
        Op::Release(_) => scripts::RELEASE,
        Op::Inspect(_) => scripts::INSPECT,
        Op::Scan(ScanOp { kind: ScanKind::Jobs, .. }) => scripts::SCAN_FIELDS,
        Op::Scan(_) => return None,
        Op::Prepare(_) | Op::Claim(_) => scripts::CLAIM,
        Op::Claims(_) => scripts::CLAIMS,
        Op::ReadRecord(_) => scripts::READ_RECORD,
        Op::Record(_) => scripts::RECORD,
        Op::Repair(_) => scripts::REPAIR,
        Op::Forget(_) => scripts::FORGET,
        Op::ForgetJob(_) => scripts::FORGET_JOB,
    })
}

/// Maximum lead of a token over a server's clock.
const MAX_LEAD: Duration = Duration::from_micros(TOKEN_LEAD);

/// Returns the greatest token that a server with this clock accepts.
pub(super) fn token_limit(clock: ServerClock, now: Timestamp) -> u64 {
    clock.deadline(now, MAX_LEAD)
}

/// How a script is passed to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptRef {
    /// By its digest, which is used once it is known.
    Digest,
    /// By its text, for a server that lacks the script.
    Text,
}

impl Encoder<'_> {
    /// Returns the deadline for keys that a renewal stores again: never after the end of the validity.
    fn extend_deadline(&self, op: &ExtendOp) -> u64 {
        let max_delay = op.max_delay.min(op.until.saturating_duration_since(self.now));
        if self.may_grant { self.server_clock.deadline(self.now, max_delay) } else { 0 }
    }

    /// Encodes an operation as one command.
    pub(super) fn encode(&self, op: &Op, by: ScriptRef, cmd: &mut Command) {
        cmd.clear();
        match op {
            Op::Acquire(AcquireOp { lease, .. })
            | Op::Raise(RaiseOp { lease, .. })
            | Op::Extend(ExtendOp { lease, .. })
            | Op::Release(lease)
                if lease.is_shared() =>
            {
                self.encode_shared(op, by, cmd);
            }
            Op::Acquire(AcquireOp { lease, ttl, token, block_end, waiter, .. }) => {
                self.call(cmd, by, scripts::ACQUIRE, Some(self.fences), lease);
                value(cmd, lease, *token, awaited_mark(lease));
                let life = *ttl + self.node_timeout;
                cmd.arg(self.server_clock.expiry(self.now, life)).arg(*token).arg(*block_end);
                match waiter {
                    Some(waiter) => member(cmd, waiter),
                    None => drop(cmd.arg("")),
                }
                stripe_fields(cmd, lease);
            }
            Op::Release(lease) => {
                self.call(cmd, by, scripts::RELEASE, None, lease);
                cmd.arg(&lease.nonce().to_hex()[..]).arg(if lease.wakes_none() { "-" } else { "" });
            }
            Op::Raise(RaiseOp { lease, token, block_end }) => {
                self.call(cmd, by, scripts::RAISE, Some(self.fences), lease);
                cmd.arg(&lease.nonce().to_hex()[..]);
                // The script keeps the mark.
                value(cmd, lease, *token, "");
                cmd.arg(*token).arg(*block_end);
                stripe_fields(cmd, lease);
            }
            Op::Extend(op @ ExtendOp { lease, ttl, token, .. }) => {
                let deadline = self.extend_deadline(op);
                let meta = Some(&*self.keys.meta);
                self.call(cmd, by, scripts::EXTEND, meta, lease);
                cmd.arg(self.tag).arg(&lease.nonce().to_hex()[..]);
                value(cmd, lease, *token, awaited_mark(lease));
                cmd.arg(millis(*ttl)).arg(deadline).arg(self.layout);
            }
            Op::EndShared(name) => self.end_shared(cmd, by, name),
            Op::Withdraw(waiter) => {
                self.call(cmd, by, scripts::WITHDRAW, None, waiter);
                member(cmd, waiter);
            }
            Op::Inspect(names) => {
                self.name_script(cmd, by, scripts::INSPECT);
                cmd.arg(names.len());
                for name in names.iter() {
                    cmd.joined(&self.keys.lock_prefix, name);
                }
            }
            Op::Scan(scan) => self.scan(cmd, by, scan),
            Op::Prepare(PrepareOp { job, token, max_delay }) => {
                self.claim(cmd, by, job, *token, *max_delay);
            }
            Op::Claim(ClaimOp { job, claim, max_delay }) => {
                self.claim(cmd, by, job, claim.token, *max_delay);
                cmd.written(|text| claim_text::write(text, claim));
            }
            Op::ForgetJob(op) => self.forget_job(cmd, by, op),
            Op::Claims(jobs) => {
                self.marks_call(cmd, by, scripts::CLAIMS);
                for job in &**jobs {
                    cmd.joined(CLAIM_PREFIX, job);
                }
            }
            Op::ReadRecord(name) => {
                self.name_script(cmd, by, scripts::READ_RECORD);
                cmd.arg("2").arg(&*self.keys.meta);
                self.record_key(cmd, name);
                cmd.arg(self.tag);
            }
            Op::Record(RecordOp { lease, record, retain, until, max_delay }) => {
                let max_delay = (*max_delay).min(until.saturating_duration_since(self.now));
                self.name_script(cmd, by, scripts::RECORD);
                cmd.arg("3").arg(&*self.keys.meta);
                // A record has exactly one name.
                let name = lease.resource().shared_names().first().map_or("", |name| name);
                cmd.joined(&self.keys.lock_prefix, name);
                self.record_key(cmd, name);
                cmd.arg(self.tag).arg(self.server_clock.deadline(self.now, max_delay));
                cmd.arg(&lease.nonce().to_hex()[..]);
                write_record(cmd, record);
                cmd.arg(millis(*retain));
            }
            Op::Repair(RepairOp { name, record, retain }) => {
                self.name_script(cmd, by, scripts::REPAIR);
                cmd.arg("2").arg(&*self.keys.meta);
                self.record_key(cmd, name);
                cmd.arg(self.tag);
                write_record(cmd, record);
                cmd.arg(millis(*retain)).arg(self.layout);
            }
            Op::Forget(ForgetOp { name, nonce }) => {
                self.name_script(cmd, by, scripts::FORGET);
                cmd.arg("1");
                self.record_key(cmd, name);
                cmd.arg(&nonce.to_hex()[..]);
            }
        }
    }

    /// Encodes an operation on a shared lease.
    fn encode_shared(&self, op: &Op, by: ScriptRef, cmd: &mut Command) {
        match op {
            Op::Acquire(op) => {
                self.call(cmd, by, scripts::ACQUIRE_SHARED, Some(self.fences), &op.lease);
                member(cmd, &op.lease);
                let life = op.ttl + self.node_timeout;
                cmd.arg(self.server_clock.expiry(self.now, life)).arg(op.token);
                cmd.arg(if op.waiter.is_some() { "+" } else { "" });
                stripe_fields(cmd, &op.lease);
            }
            Op::Raise(op) => {
                self.call(cmd, by, scripts::RAISE_SHARED, Some(self.fences), &op.lease);
                member(cmd, &op.lease);
                cmd.arg(op.token);
                stripe_fields(cmd, &op.lease);
            }
            Op::Release(lease) => {
                self.call(cmd, by, scripts::RELEASE_SHARED, None, lease);
                member(cmd, lease);
            }
            Op::Extend(op) => {
                let deadline = self.extend_deadline(op);
                let meta = Some(&*self.keys.meta);
                self.call(cmd, by, scripts::EXTEND_SHARED, meta, &op.lease);
                cmd.arg(self.tag);
                member(cmd, &op.lease);
                cmd.arg(millis(op.ttl)).arg(deadline).arg(self.layout);
            }
            op => unreachable!("no operation on a shared lease: {op:?}"),
        }
    }

    fn end_shared(&self, cmd: &mut Command, by: ScriptRef, name: &str) {
        self.name_script(cmd, by, scripts::RELEASE_SHARED);
        cmd.arg("1").joined(&self.keys.lock_prefix, name);
        cmd.arg("");
    }

    /// Keys are scanned by a plain command, as a script has to declare the keys that it reads.
    fn scan(&self, cmd: &mut Command, by: ScriptRef, scan: &ScanOp) {
        let prefix = self.keys.prefix_of(scan.kind);
        let cursor = scan.cursor.as_deref().unwrap_or("0");
        let count = u64::from(scan.count.max(1));
        if scan.kind == ScanKind::Jobs {
            self.name_script(cmd, by, scripts::SCAN_FIELDS);
            cmd.arg("1").arg(&*self.keys.marks);
            cmd.arg(cursor).arg(&*prefix_pattern(prefix)).arg(count);
        } else {
            cmd.arg("SCAN").arg(cursor).arg("MATCH").arg(&*prefix_pattern(prefix));
            cmd.arg("COUNT").arg(count);
            if scan.kind == ScanKind::Records {
                cmd.arg("TYPE").arg("string");
            }
        }
    }

    fn claim(&self, cmd: &mut Command, by: ScriptRef, job: &str, token: u64, max_delay: Duration) {
        self.marks_call(cmd, by, scripts::CLAIM);
        cmd.arg(self.server_clock.deadline(self.now, max_delay));
        // Each name has two fields.
        cmd.arg(job).arg(token).arg(2 * Op::MAX_REGISTERS);
    }

    fn forget_job(&self, cmd: &mut Command, by: ScriptRef, op: &ForgetJobOp) {
        self.marks_call(cmd, by, scripts::FORGET_JOB);
        cmd.arg(self.server_clock.deadline(self.now, op.max_delay)).arg(op.token);
        for name in op.registers() {
            cmd.arg(&*name);
        }
    }

    fn record_key(&self, cmd: &mut Command, name: &str) {
        cmd.joined(&self.keys.done_prefix, name);
    }

    /// Begins a call of a script about jobs.
    fn marks_call(&self, cmd: &mut Command, by: ScriptRef, script: OperationScript) {
        self.name_script(cmd, by, script);
        cmd.arg("2").arg(&*self.keys.meta).arg(&*self.keys.marks).arg(self.tag);
    }

    fn name_script(&self, cmd: &mut Command, by: ScriptRef, script: OperationScript) {
        match self.digests.get(script).filter(|_| by == ScriptRef::Digest) {
            Some(digest) => cmd.arg("EVALSHA").arg(digest),
            None => cmd.arg("EVAL").arg(script.text),
        };
    }

    /// Begins a call of a script about locks: the script, and the keys.
    fn call(
        &self,
        cmd: &mut Command,
        by: ScriptRef,
        script: OperationScript,
        first: Option<&str>,
        lease: &LeaseId,
    ) {
        let names = lease.resource().shared_names();
        self.name_script(cmd, by, script);
        cmd.arg(names.len() + usize::from(first.is_some()));
        if let Some(first) = first {
            cmd.arg(first);
        }
        for name in names {
            cmd.joined(&self.keys.lock_prefix, name);
        }
    }
}

/// Returns the pattern that matches texts that begin with `text`.
pub(super) fn prefix_pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('*');
    pattern
}

/// Writes the member of a shared lease: as the value of a lock's key, but without its token, so that
/// it stays the same.
fn member(cmd: &mut Command, lease: &LeaseId) {
    value(cmd, lease, 0, "");
}

/// The mark of a waiter, for a key whose release is published in any case.
fn awaited_mark(lease: &LeaseId) -> &'static str {
    if lease.is_always_awaited() { "\n" } else { "" }
}

/// Writes the value of a lock's key: nonce, token, time of the request (ms since the epoch), owner,
/// a carriage return if the owner may keep the lease idle, and the mark of a waiter.
pub(super) fn value(cmd: &mut Command, lease: &LeaseId, token: u64, mark: &str) {
    let (nonce, since) = (lease.nonce().to_hex(), lease.since().as_millis());
    cmd.written(|text| {
        text.extend_from_slice(&nonce);
        // Writing into memory does not fail.
        let linger = if lease.lingers() { "\r" } else { "" };
        let _ = write!(text, " {token} {since} {}{linger}{mark}", lease.owner());
    });
}

/// Writes a record: state (`d`: done, `u`: unknown), nonce, token, time, owner; the payload follows
/// a line break, which no owner contains.
fn write_record(cmd: &mut Command, record: &Record) {
    let StoredLease { nonce, token, since, owner } = &record.lease;
    let state = if record.is_done { b'd' } else { b'u' };
    cmd.written(|text| {
        text.extend_from_slice(&[state, b' ']);
        text.extend_from_slice(&nonce.to_hex());
        // Writing into memory does not fail.
        let _ = writeln!(text, " {token} {} {owner}", since.as_millis());
        text.extend_from_slice(&record.payload);
    });
}

/// Adds the field of each key's fence.
pub(super) fn stripe_fields(cmd: &mut Command, lease: &LeaseId) {
    for stripe in lease.resource().stripes() {
        cmd.arg(stripe);
    }
}

/// Converts a TTL to milliseconds, rounded up: a server may keep a key longer than promised, never
/// shorter.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttls_are_rounded_up_to_millisecond() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_millis(10)), 10);
        assert_eq!(millis(Duration::from_nanos(10_000_001)), 11);
    }

    /// A server in probation keeps its fences under a key that no vote names.
    #[test]
    fn votes_find_no_fences_in_probation() {
        let keys = Keys::new("redlock");
        let tag = |state| {
            Tag::new(format!("{state} {:032x} {:016x} {:016x} 00000001 {:016x}-5", 1, 2, 3, 4))
        };
        for barred in [tag("p"), tag("m"), Tag::new("")] {
            assert_ne!(keys.fences(&barred), keys.fences(&tag("a")));
            assert_ne!(keys.fences(&barred), keys.no_fences);
        }
        assert_ne!(keys.fences(&tag("a")), keys.no_fences);
    }
}
