//! The state of a server that survives a reconnect.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{RestartGuard, server_clock::ServerClock};
use crate::{
    membership::offsets::Offsets,
    protocol::{AcquireOp, ExtendOp, Nonce, Op},
    time::Timestamp,
};

#[derive(Debug)]
pub(super) struct ReconnectState {
    pub(super) offsets: Offsets,
    /// Number of corrections of the local clock that `offsets` includes.
    pub(super) corrections: u64,
    /// The overestimate of these corrections that `offsets` includes.
    pub(super) overestimate: Duration,
    /// The server that `offsets` are about.
    run_id: Arc<str>,
    /// Grants without an answer, which may still run on the server.
    unsettled: HashMap<Nonce, Unsettled>,
    /// Number of entries at which expired ones are removed.
    sweep_at: usize,
}

/// Number of entries of the first sweep.
const FIRST_SWEEP: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Unsettled {
    /// Time on the server's clock in µs after which the operation does not run.
    deadline: u64,
    /// Time after which the operation leaves nothing to release.
    until: Timestamp,
}

impl ReconnectState {
    pub(super) fn new(offsets: Offsets) -> Self {
        Self {
            offsets,
            corrections: 0,
            overestimate: Duration::ZERO,
            run_id: "".into(),
            unsettled: HashMap::new(),
            sweep_at: FIRST_SWEEP,
        }
    }

    /// Records which server is connected. With the restart guard, a new server starts without a
    /// history of its clock: it votes only when all locks that it may have granted have expired,
    /// and it may run on another machine.
    pub(super) fn serve(&mut self, run_id: &Arc<str>, restart: RestartGuard) {
        let is_new = !self.run_id.is_empty() && !run_id.is_empty() && self.run_id != *run_id;
        if is_new && restart == RestartGuard::Probation {
            self.offsets.forget();
        }
        self.run_id = Arc::clone(run_id);
    }

    /// Records an operation whose answer was lost. `sent` and `clock` determined its deadline.
    pub(super) fn unanswered(
        &mut self,
        op: &Op,
        sent: Timestamp,
        clock: ServerClock,
        node_timeout: Duration,
    ) {
        let (lease, ttl, last, deadline) = match op {
            // The operation stores nothing once its keys have expired.
            Op::Acquire(AcquireOp { lease, ttl, .. }) => {
                let life = *ttl + node_timeout;
                (lease, *ttl, life, clock.expiry(sent, life).saturating_mul(1_000))
            }
            Op::Extend(ExtendOp { lease, ttl, max_delay, .. }) => {
                (lease, *ttl, *max_delay, clock.deadline(sent, *max_delay))
            }
            _ => return,
        };
        let until = sent + last * 2 + ttl + Duration::from_secs(1);
        if self.unsettled.len() >= self.sweep_at {
            self.unsettled.retain(|_, unsettled| sent < unsettled.until);
            self.sweep_at = (self.unsettled.len() * 2).max(FIRST_SWEEP);
        }
        // An acquire leaves the mark of its request as well.
        let waiter = match op {
            Op::Acquire(AcquireOp { waiter: Some(waiter), .. }) => Some(waiter.nonce()),
            _ => None,
        };
        for nonce in [Some(lease.nonce()), waiter].into_iter().flatten() {
            let entry = self.unsettled.entry(nonce).or_insert(Unsettled { deadline, until });
            entry.deadline = entry.deadline.max(deadline);
            entry.until = entry.until.max(until);
        }
        debug_assert!(self.unsettled.len() <= self.sweep_at + 1, "expired entries are removed");
    }

    /// Returns whether a release that ran at `server_micros` is final: no grant can run after it.
    pub(super) fn settles(&mut self, nonce: Nonce, server_micros: u64) -> bool {
        if self.unsettled.is_empty() {
            return true;
        }
        match self.unsettled.get(&nonce) {
            Some(unsettled) if server_micros <= unsettled.deadline => false,
            Some(_) => {
                self.unsettled.remove(&nonce);
                true
            }
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        membership::offsets::{Interval, Reading},
        protocol::LeaseId,
        resource::Resource,
    };

    /// The promoted replica runs on another machine, whose clock is a minute ahead.
    #[test]
    fn clock_of_another_server_is_not_a_jump() {
        let minute = Duration::from_secs(60);
        let at = |ms| Timestamp::ZERO + Duration::from_millis(ms);
        let reading = |ms: u64, ahead: Duration| {
            let micros = u64::try_from((Duration::from_millis(ms) + ahead).as_micros()).unwrap();
            (Interval::new(at(ms), at(ms + 1), micros), at(ms), at(ms + 1))
        };

        for (restart, second_run, is_jump) in [
            (RestartGuard::Probation, "b", false),
            (RestartGuard::Probation, "a", true),
            (RestartGuard::Probation, "", true),
            (RestartGuard::Off, "b", true),
        ] {
            let mut memory = ReconnectState::new(Offsets::new(Duration::from_secs(1), 0.01));
            memory.serve(&"a".into(), restart);
            let (first, asked, heard) = reading(1_000, Duration::ZERO);
            assert_eq!(memory.offsets.observe(first, asked, heard), Reading::Steady);
            memory.serve(&second_run.into(), restart);
            let (second, asked, heard) = reading(1_100, minute);
            let reading = memory.offsets.observe(second, asked, heard);
            assert_eq!(reading != Reading::Steady, is_jump, "{restart:?} {second_run}");
        }
    }

    #[test]
    fn release_is_final_after_pending_deadline() {
        let second = Duration::from_secs(1);
        let mut memory = ReconnectState::new(Offsets::new(second, 0.01));
        let nonce = Nonce::from_bytes([7; 16]);
        let resource = Resource::try_from("a").unwrap();
        let lease = Arc::new(LeaseId::new(resource, nonce, "me".into(), Duration::ZERO));
        let sent = Timestamp::ZERO + second;
        let op = Op::Acquire(AcquireOp {
            lease,
            ttl: second,
            token: 1,
            block_end: 1,
            expires: Timestamp::MAX,
            waiter: None,
        });

        memory.unanswered(&op, sent, ServerClock::new(sent, 5_000_000, 0.0), Duration::ZERO);

        assert!(!memory.settles(nonce, 6_002_000), "the expiry counts the drift");
        assert!(memory.settles(Nonce::from_bytes([8; 16]), 5_000_000), "another's release");
        assert!(memory.settles(nonce, 6_002_001));
        assert!(memory.settles(nonce, 5_000_000), "it is forgotten");
    }
}
