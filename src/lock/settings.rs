//! The checked settings of a manager and of a request.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use super::{
    fences::Proposal,
    options::{LockOptions, Overrun},
    quota::RecordBounds,
};
use crate::{
    error::{LockError, SetNumber},
    node::redis::RestartGuard,
    protocol::formulas,
    quorum::{LeadNode, LeaseParams},
    resource::Resource,
    time::MAX_DURATION,
};

/// The checked settings of a manager.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) defaults: RequestDefaults,
    pub(crate) bounds: ManagerBounds,
    pub(crate) max_ttl: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) drift_factor: f64,
    pub(crate) key_clock: KeyClock,
    pub(crate) retry_delay: RangeInclusive<Duration>,
    pub(crate) wakeups: bool,
    pub(crate) owner: Arc<str>,
    pub(crate) key_prefix: Arc<str>,
    pub(crate) restart_guard: RestartGuard,
    /// Whether all nodes are embedded ones.
    pub(crate) is_embedded: bool,
    pub(crate) fencing: bool,
    /// Which of several sets the nodes are.
    pub(crate) place: Option<SetNumber>,
}

/// The clock by which keys expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyClock {
    /// Each server's own, which may step.
    Servers,
    /// This process's clock, with which the validity is compared.
    Process,
}

impl KeyClock {
    /// Returns the part of a TTL that is set aside for clocks.
    pub(super) fn slack(self, ttl: Duration, drift_factor: f64) -> Duration {
        match self {
            Self::Servers => formulas::slack(ttl, drift_factor),
            Self::Process => formulas::drift(ttl, drift_factor),
        }
    }
}

/// The settings of a request that sets nothing itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RequestDefaults {
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) max_hold: Duration,
    pub(crate) linger: Duration,
    /// Unset: as suits the kind of the request.
    pub(crate) wait_without_quorum: Option<bool>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) auto_extend: bool,
    pub(crate) max_retry_after: Duration,
    pub(crate) stop_margin: Option<Duration>,
    pub(crate) overrun: Overrun,
}

/// Limits of what a manager keeps at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ManagerBounds {
    pub(crate) line: LineBounds,
    pub(crate) records: RecordBounds,
    /// Maximum size of all bodies that wait for their locks, in bytes.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP has bodies"))]
    pub(crate) waiting_body_bytes: usize,
    /// Maximum number of hand-offs of one lease.
    pub(crate) handoff_limit: u32,
}

/// Maximum numbers of waiting requests of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LineBounds {
    pub(crate) per_name: usize,
    pub(crate) total: usize,
}

/// Which ends of a request are counted and reported, as metrics and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReportedEnds {
    #[default]
    All,
    /// All but a refusal by a holder. Candidates for leading and ticks of jobs expect it, and repeat their
    /// requests, so it is not contention.
    #[cfg_attr(not(feature = "scheduler"), expect(dead_code, reason = "of candidates and jobs"))]
    NotHeld,
    /// None: the request is an attempt of another one, which reports its own end.
    None,
}

impl ReportedEnds {
    pub(super) fn include(self, result: Result<(), &LockError>) -> bool {
        match self {
            Self::All => true,
            Self::NotHeld => {
                !matches!(result.map_err(LockError::root), Err(LockError::Held { .. }))
            }
            Self::None => false,
        }
    }
}

/// Options that only the crate itself sets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct InternalOptions {
    /// Maximum wait, including the manager's default.
    pub(crate) wait_at_most: Option<Duration>,
    /// What the request does unless `wait_without_quorum` is set.
    pub(crate) on_outage: OnOutage,
    /// Maximum interval between polls of the work; a longer one means that its runtime hangs.
    pub(crate) polled_within: Option<Duration>,
    /// Whether the holder writes records, so that it needs a lease of its own.
    pub(crate) keeps_records: bool,
    /// Whether it is one of the crate's own locks, which never linger.
    pub(crate) is_own: bool,
    /// Whether a wait for the release follows a refusal, although this request makes a single
    /// attempt.
    pub(crate) awaits_release: bool,
    /// The lead node of the only attempt.
    pub(crate) lead_node: Option<LeadNode>,
    pub(crate) reports: ReportedEnds,
}

/// What a request that waits does while a quorum is known to be away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnOutage {
    #[default]
    Wait,
    Fail,
}

/// Whether a lock may have other holders beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
    /// Any of the first n slots of a name.
    AnySlot(u32),
}

impl Mode {
    fn of(slots: Option<u32>, is_shared: bool) -> Self {
        match slots {
            Some(slots) => Self::AnySlot(slots),
            None if is_shared => Self::Shared,
            None => Self::Exclusive,
        }
    }
}

/// The checked settings of one request. See [`LockOptions`] and [`InternalOptions`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) max_hold: Duration,
    /// Time for which the lock lingers; zero if it does not.
    pub(crate) linger: Duration,
    pub(crate) on_outage: OnOutage,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) auto_extend: bool,
    pub(crate) overrun: Overrun,
    pub(crate) stall_limit: Option<Duration>,
    pub(crate) heartbeat_within: Option<Duration>,
    pub(crate) polled_within: Option<Duration>,
    pub(crate) keeps_records: bool,
    pub(crate) mode: Mode,
    pub(crate) awaits_release: bool,
    pub(crate) validity: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) stop_margin: Duration,
    /// Unset at the first attempt of a request that waits.
    pub(crate) lead_node: Option<LeadNode>,
    pub(crate) max_retry_after: Duration,
    /// Time for which the servers keep the key after the hard stop.
    pub(crate) slack: Duration,
}

impl Settings {
    pub(crate) fn plan(
        &self,
        options: &LockOptions,
        internal: &InternalOptions,
    ) -> Result<Plan, LockError> {
        let invalid = |text: String| Err(LockError::InvalidRequest(text.into()));
        let defaults = &self.defaults;
        let ttl = options.ttl.unwrap_or(defaults.ttl);
        let wait = options.wait.unwrap_or(defaults.wait);
        let wait = internal.wait_at_most.map_or(wait, |most| wait.min(most));
        let max_hold = options.max_hold.unwrap_or(defaults.max_hold);
        if ttl.is_zero() {
            return invalid("the TTL is zero".into());
        }
        if ttl > self.max_ttl {
            return invalid(format!(
                "the TTL of {ttl:?} is above max_ttl ({:?}); raise max_ttl where the manager is built",
                self.max_ttl
            ));
        }
        let slack = self.key_clock.slack(ttl, self.drift_factor);
        let validity = formulas::validity(ttl, slack);
        if validity.is_zero() {
            return invalid(format!(
                "the TTL of {ttl:?} is not longer than the {slack:?} set aside for clock drift"
            ));
        }
        match options.slots {
            Some(_) if internal.is_own || internal.keeps_records => {
                return invalid("slots does not apply: this lock has one holder".into());
            }
            Some(0) => return invalid("slots is zero".into()),
            Some(slots) if slots > Resource::MAX_SLOTS => {
                return invalid(format!("slots is {slots}, above {}", Resource::MAX_SLOTS));
            }
            Some(_) if options.linger.is_some_and(|linger| !linger.is_zero()) => {
                return invalid("linger does not apply: a slot is released at the end".into());
            }
            Some(_) | None => {}
        }
        let shared = options.shared.unwrap_or(false);
        if shared {
            let auto_extend = options.auto_extend.unwrap_or(defaults.auto_extend);
            let one_lease = "the holders share one lease";
            let refused = [
                (internal.is_own || internal.keeps_records, "shared", "this lock has one holder"),
                (options.slots.is_some(), "slots", "a shared lock has any number of holders"),
                (options.linger.is_some(), "linger", "a shared lock is released at the end"),
                (options.stall_limit.is_some(), "stall_limit", one_lease),
                (options.heartbeat_within.is_some(), "heartbeat_within", one_lease),
                (!auto_extend, "auto_extend(false)", one_lease),
            ];
            if let Some((_, name, why)) = refused.iter().find(|(is_refused, ..)| *is_refused) {
                return invalid(format!("{name} does not apply: {why}"));
            }
        }
        let never_lingers =
            internal.is_own || internal.keeps_records || options.slots.is_some() || shared;
        let linger = match (options.linger, never_lingers) {
            (Some(_), true) if options.slots.is_none() && !shared => {
                return invalid("linger does not apply: this lock is released at the end".into());
            }
            (_, true) => Duration::ZERO,
            (own, false) => own.unwrap_or(defaults.linger).min(MAX_DURATION),
        };
        if !linger.is_zero() && !self.wakeups {
            return invalid(
                "linger needs wakeups, by which other processes ask for the lock".into(),
            );
        }
        let max_attempts = options.max_attempts.or(defaults.max_attempts);
        let is_zero = |limit: Option<Duration>| limit.is_some_and(|limit| limit.is_zero());
        for (name, is_zero) in [
            ("max_hold", max_hold.is_zero()),
            ("stall_limit", is_zero(options.stall_limit)),
            ("heartbeat_within", is_zero(options.heartbeat_within)),
            ("max_attempts", max_attempts == Some(0)),
        ] {
            if is_zero {
                return invalid(format!("{name} is zero"));
            }
        }
        Ok(Plan {
            ttl,
            wait: wait.min(MAX_DURATION),
            max_hold: max_hold.min(MAX_DURATION),
            linger,
            on_outage: self.on_outage(options, internal),
            max_attempts,
            auto_extend: options.auto_extend.unwrap_or(defaults.auto_extend),
            overrun: options.overrun.unwrap_or(defaults.overrun),
            stall_limit: options.stall_limit.filter(|limit| *limit <= MAX_DURATION),
            heartbeat_within: options.heartbeat_within.filter(|limit| *limit <= MAX_DURATION),
            polled_within: internal.polled_within.filter(|limit| *limit <= MAX_DURATION),
            keeps_records: internal.keeps_records,
            mode: Mode::of(options.slots, shared),
            awaits_release: internal.awaits_release,
            validity,
            // Renewals start at a third of the validity: a later soft deadline is not reached while
            // they succeed.
            stop_margin: defaults.stop_margin.unwrap_or(validity / 10).min(validity / 2),
            lead_node: internal.lead_node,
            max_retry_after: options.max_retry_after.unwrap_or(defaults.max_retry_after),
            slack,
            node_timeout: formulas::node_timeout(self.node_timeout, ttl),
        })
    }
}

impl Settings {
    fn on_outage(&self, options: &LockOptions, internal: &InternalOptions) -> OnOutage {
        match options.wait_without_quorum.or(self.defaults.wait_without_quorum) {
            Some(true) => OnOutage::Wait,
            Some(false) => OnOutage::Fail,
            None => internal.on_outage,
        }
    }
}

impl Plan {
    /// Returns the settings of the shared lock that an exclusive one becomes.
    pub(crate) fn to_shared(self, resource: &Resource) -> Result<Self, LockError> {
        let refused = [
            (resource.names().len() > 1, "a set of names"),
            (resource.slot().is_some(), "a slot"),
            (self.keeps_records, "a lock with a record"),
            (self.stall_limit.is_some(), "a lock with a stall_limit"),
            (self.heartbeat_within.is_some(), "a lock with heartbeat_within"),
            (!self.auto_extend, "a lock with auto_extend(false)"),
        ];
        if let Some((_, what)) = refused.iter().find(|(is_refused, _)| *is_refused) {
            return Err(LockError::InvalidRequest(format!("{what} cannot become shared").into()));
        }
        let (wait, linger) = (Duration::ZERO, Duration::ZERO);
        Ok(Self { mode: Mode::Shared, wait, linger, lead_node: None, ..self })
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.mode == Mode::Shared
    }

    /// Returns whether the request is for any of some slots, of which this is one.
    pub(crate) fn takes_slot(&self, number: u32) -> bool {
        matches!(self.mode, Mode::AnySlot(slots) if number < slots)
    }

    /// Bounds the lead of the hard stop before the end of the validity to an eighth of the
    /// validity.
    pub(crate) fn cap_lead(&self, lead: Duration) -> Duration {
        lead.min(self.validity.min(self.max_hold) / 8)
    }

    /// Returns whether a single token is enough for a name that is free: the lease has one holder, and no other
    /// process is expected to ask for the name at the same time.
    pub(crate) fn takes_one_token(&self) -> bool {
        self.mode == Mode::Exclusive
            && self.linger.is_zero()
            && self.lead_node.is_none()
            && !self.awaits_release
    }

    /// Returns whether a wait for the release follows a refused attempt.
    pub(crate) fn awaits_release(&self) -> bool {
        self.awaits_release || (!self.wait.is_zero() && self.max_attempts != Some(1))
    }

    /// `wall` is the nodes' wall clock.
    pub(crate) fn terms(
        &self,
        nodes: usize,
        proposal: Option<Proposal>,
        wall: Duration,
    ) -> LeaseParams {
        let wall = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        LeaseParams {
            nodes,
            validity: self.validity,
            slack: self.slack,
            node_timeout: self.node_timeout,
            max_hold: self.max_hold,
            auto_extend: self.auto_extend,
            proposal: proposal.map(|proposal| proposal.token),
            block: proposal.map_or(1, |proposal| proposal.block),
            shared_at: self.is_shared().then_some(wall),
            lead_node: self.lead_node,
        }
    }
}
