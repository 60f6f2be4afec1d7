//! The options of a request for a lock.

use std::time::Duration;

/// What happens if guarded work is inside a poll when its lock has ended. Such work blocks, so it
/// can't be dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "config",
    derive(serde::Deserialize, serde::Serialize),
    serde(rename_all = "lowercase")
)]
#[non_exhaustive]
pub enum Overrun {
    /// The crate's thread logs it at WARN, with the resource and the time, again at increasing
    /// intervals while the poll lasts.
    #[default]
    Warn,
    /// The process is aborted, after a line at ERROR, so that it does not write under a lock that
    /// another process may have. No destructor runs.
    ///
    /// This happens when the key may have expired: the TTL's drift allowance (1 % and 2 ms by
    /// default) after the end. It also happens if the thread gets no processor for that time, and
    /// after a suspension of the machine or process inside a poll.
    Abort,
}

/// Options of a lock: the same for each way to take one.
///
/// Taken by `options` of [`LockRequest`](crate::LockRequest::options),
/// [`RedlockLayer`](crate::RedlockLayer), [`OnceRequest`](crate::once::OnceRequest),
/// [`OnceLayer`](crate::OnceLayer), [`Job`](crate::Job) and [`Leader`](crate::Leader), and as
/// defaults by [`RedlockBuilder`](crate::RedlockBuilder::options). What is not set is as the manager
/// was built, or as that type says. Where an option is set more than once, the last one counts.
///
/// With the feature `config` it is read from, and written to, any serde format: keys are the names
/// of the setters, durations are written as `"10s"` or `"250ms"`, and unknown keys are refused.
///
/// ```
/// use std::time::Duration;
/// use tower_redlock::{LockError, LockOptions, Redlock};
///
/// const SHORT: LockOptions =
///     LockOptions::new().ttl(Duration::from_secs(2)).max_hold(Duration::from_secs(30));
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let redlock = Redlock::embedded();
/// let lock = redlock.lock("invoice:42").options(SHORT).wait(Duration::from_secs(1)).await?;
/// assert!(lock.is_valid());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "config", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "config", serde(default, deny_unknown_fields))]
#[must_use = "options do nothing until a request takes them"]
pub struct LockOptions {
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub(crate) ttl: Option<Duration>,
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub(crate) wait: Option<Duration>,
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub(crate) max_hold: Option<Duration>,
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub(crate) linger: Option<Duration>,
    pub(crate) wait_without_quorum: Option<bool>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) auto_extend: Option<bool>,
    pub(crate) overrun: Option<Overrun>,
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub(crate) max_retry_after: Option<Duration>,
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub(crate) stall_limit: Option<Duration>,
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub(crate) heartbeat_within: Option<Duration>,
    pub(crate) slots: Option<u32>,
    pub(crate) shared: Option<bool>,
}

/// Defines setters of a type that has a method `options`, one for each option of the same name.
macro_rules! option_setters {
    ($($(#[$attribute:meta])* pub fn $option:ident(self, $value:ident: $type:ty) -> Self;)+) => {$(
        $(#[$attribute])*
        pub fn $option(self, $value: $type) -> Self {
            self.options($crate::LockOptions::new().$option($value))
        }
    )+};
    ($($(#[$attribute:meta])* pub const fn $option:ident(self, $value:ident: $type:ty) -> Self;)+) => {$(
        $(#[$attribute])*
        pub const fn $option(self, $value: $type) -> Self {
            self.options($crate::LockOptions::new().$option($value))
        }
    )+};
}
pub(crate) use option_setters;

/// # Time
impl LockOptions {
    /// Creates options of which none is set.
    pub const fn new() -> Self {
        Self {
            ttl: None,
            wait: None,
            max_hold: None,
            linger: None,
            wait_without_quorum: None,
            max_attempts: None,
            auto_extend: None,
            overrun: None,
            max_retry_after: None,
            stall_limit: None,
            heartbeat_within: None,
            slots: None,
            shared: None,
        }
    }

    /// Time for which the servers keep the key without a renewal. Default: the manager's (10 s).
    ///
    /// A crashed holder blocks the resource for this time at most. A TTL above the manager's
    /// `max_ttl` (by default its TTL), or not above the drift allowance, is an error.
    #[doc(alias = "lease_time", alias = "expiry")]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Maximum time to retry while the resource is held by others, or too few nodes answer.
    /// Default: the manager's (zero: one attempt); zero for a
    /// [`OnceRequest`](crate::once::OnceRequest) and an [`OnceLayer`](crate::OnceLayer).
    /// [`Duration::MAX`] means no limit. Requests of layers end earlier while a quorum is known to be
    /// away: see [`wait_without_quorum`](Self::wait_without_quorum).
    ///
    /// The last attempt begins before the wait ends. It takes one node timeout, and up to four and
    /// a half if the fencing token has to be raised and this process paused.
    ///
    /// An error for a [`Job`](crate::Job) and a [`Leader`](crate::Leader), which wait by rules of
    /// their own.
    #[doc(alias = "timeout", alias = "try_lock_for")]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets whether a request goes on [waiting](Self::wait) while a quorum is known to be away. Default:
    /// the manager's (yes for requests of code, such as a [`LockRequest`](crate::LockRequest); no for
    /// those of a [`RedlockLayer`](crate::RedlockLayer) and an [`OnceLayer`](crate::OnceLayer), whose
    /// clients would all hang, to get the same response later).
    ///
    /// Without it, a request fails with [`NoQuorum`](crate::LockError::NoQuorum) after the first attempt
    /// which finds that too few nodes can vote in time. A node can't if it has been down, or has refused
    /// to vote, for 1 s, or for ten [node timeouts](crate::RedlockBuilder::node_timeout) if that is
    /// longer; in its probation, if that also ends after the wait
    /// ([`NodeState`](crate::node::NodeState)). A node whose first connection is being opened may vote,
    /// and so may one that reconnects sooner. Each request makes an attempt, so the first one after the
    /// return of a quorum is granted.
    ///
    /// An error for a [`Job`](crate::Job) and a [`Leader`](crate::Leader), which go on waiting.
    pub const fn wait_without_quorum(mut self, wait: bool) -> Self {
        self.wait_without_quorum = Some(wait);
        self
    }

    /// Maximum time for which the lock is held, renewals included. Default: the manager's (5 min);
    /// 1 h for a [`Job`](crate::Job), no limit for a [`Leader`](crate::Leader), whose term it
    /// bounds. [`Duration::MAX`] means no limit.
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Time for which the process keeps a lock after its release, for its next request. Default:
    /// the manager's (zero: none).
    ///
    /// A request of this process for the same names with the same TTL then gets the lock without a
    /// message to the servers, with the next fencing token, and as a lock of its own in every other
    /// way. A kept lock is not renewed, so it stays at most until half of its validity is left. A
    /// request for other names, among them one of these, or with another TTL gives it back first.
    ///
    /// A client elsewhere that is refused the lock asks for it over the servers
    /// ([`LockError::Held::lingers`](crate::LockError::Held)). The process then gives it back, at
    /// once or at the end of its present use, and keeps none of these names for a second: longer if
    /// a client asks for them again within a minute, up to a minute. So a first request elsewhere
    /// takes one round trip longer, or fails if it makes a single attempt, and the next one finds
    /// the lock as without the option. While no client asks,
    /// [`handoff_limit`](crate::RedlockBuilder::handoff_limit) does not apply.
    ///
    /// For names that this process locks again and again: others only cost memory (some KiB each,
    /// at most 10,000 at a time, including kept locks that are in use), and wait longer elsewhere. Call
    /// [`Redlock::shutdown`](crate::Redlock::shutdown) before the process ends: it releases what
    /// lingers, which would otherwise block others until the TTL.
    ///
    /// Needs [`wakeups`](crate::RedlockBuilder::wakeups): each server has one more connection from
    /// this manager, and all clients need permission for `PUBLISH` on the channels
    /// `{key_prefix}:free:*`. While fewer than a quorum of nodes would report requests of others,
    /// nothing lingers. Clients of versions without the option do not ask. For them, a lock that is
    /// always in use here returns to the servers after 256 holders, and not before a second.
    ///
    /// An error for a [`Job`](crate::Job), a [`Leader`](crate::Leader) and
    /// [once](mod@crate::once), whose locks never linger.
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.linger = Some(linger);
        self
    }

    /// Maximum of the time after which a request that met a holder should retry
    /// ([`LockError::Held::retry_after`](crate::LockError::Held), `Retry-After`, `RetryInfo`). Default: 30 s.
    ///
    /// The time is estimated: about one usual holding time for the holder, and one for each request
    /// before this one that waits or was turned away here, with jitter. The usual time is a mean of
    /// what this process has measured for names that differ only in parts with digits
    /// (`account:7`, `account:8`).
    ///
    /// An error for a [`Job`](crate::Job) and a [`Leader`](crate::Leader), which have no such
    /// requests.
    pub const fn max_retry_after(mut self, max: Duration) -> Self {
        self.max_retry_after = Some(max);
        self
    }
}

/// # Several holders
impl LockOptions {
    /// Sets whether the lock is shared: any number of shared holders, or one exclusive one. Default: no.
    ///
    /// All shared requests of a process for one name and TTL stand on one lease: while it is held,
    /// further ones are granted without a message. An exclusive request that waits lets no further
    /// shared holder of its process in, and once these have released the lock, none of any process,
    /// until it had its turn. Then the requests that wait compete, and the shared ones of a process are
    /// granted together. An exclusive request that makes a single attempt keeps none out. A shared one
    /// with another TTL waits for its turn as an exclusive one does.
    ///
    /// The fencing token of an exclusive lock is greater than those of all locks before. A shared one
    /// has at least that of the last exclusive one before it, and less than that of each later one:
    /// a resource that keeps the token of the last write can refuse readers of an older state.
    ///
    /// There is no upgrade from shared to exclusive, as two holders would wait for each other: release
    /// the shared lock, acquire an exclusive one, and read again what was read before.
    ///
    /// An error for a set of names, with [`slots`](Self::slots), [`linger`](Self::linger),
    /// [`stall_limit`](Self::stall_limit), [`heartbeat_within`](Self::heartbeat_within) and
    /// `auto_extend(false)`, as a default of the manager, and for a [`Job`](crate::Job), a
    /// [`Leader`](crate::Leader) and [once](mod@crate::once).
    #[doc(alias = "rwlock", alias = "reader")]
    pub const fn shared(mut self, shared: bool) -> Self {
        self.shared = Some(shared);
        self
    }

    /// Number of holders of the name at a time, in all processes together: 1 to 256. Default: a lock,
    /// with one holder.
    ///
    /// Each holder has a slot of its own, with a number from zero
    /// ([`LockContext::slot`](crate::LockContext::slot)): no two holders that are alive have the same.
    /// A process prefers the slot that it had. Slot 3 of `export` is the lock `slot:3:export`
    /// ([`Resource::of_slot`](crate::Resource::of_slot)), which [`inspect`](crate::Redlock::inspect) and
    /// [`revoke`](crate::Redlock::revoke) take; a lock on `export` itself is independent of its slots.
    /// Fencing tokens grow within a slot.
    ///
    /// While all slots are held, a request fails with [`LockError::Held`](crate::LockError::Held), whose
    /// `slots` has every holder, or waits for any of them. A request that waits makes attempts only
    /// while it is polled.
    ///
    /// All clients of a name should have the same number. During a change, as in a rolling deployment,
    /// there are at most as many holders as the greater one; a client that finds another one with more
    /// slots logs both at WARN.
    ///
    /// An error for a set of names, with [`linger`](Self::linger), as a default of the manager, and for
    /// a [`Job`](crate::Job), a [`Leader`](crate::Leader) and [once](mod@crate::once), which have one
    /// holder.
    #[doc(alias = "semaphore", alias = "permits")]
    pub const fn slots(mut self, slots: u32) -> Self {
        self.slots = Some(slots);
        self
    }
}

/// # Attempts and renewal
impl LockOptions {
    /// Maximum number of attempts on the servers within the wait. Default: the manager's (no
    /// limit). Zero is an error.
    ///
    /// An error for a [`Job`](crate::Job) and a [`Leader`](crate::Leader), which try again by rules
    /// of their own.
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Sets whether the lock is renewed while it is held. Default: yes. Without renewal it is lost
    /// at the end of its first validity.
    pub const fn auto_extend(mut self, auto_extend: bool) -> Self {
        self.auto_extend = Some(auto_extend);
        self
    }
}

/// # Work that hangs
impl LockOptions {
    /// Sets what is done about work that is inside a poll when its lock has ended. Default: the
    /// manager's ([`Overrun::Warn`]).
    pub const fn overrun(mut self, overrun: Overrun) -> Self {
        self.overrun = Some(overrun);
        self
    }

    /// Maximum duration of one poll of the work. Beyond it the lock is no longer renewed, and is
    /// lost at the end of its validity, with [`LossCause::Stalled`](crate::error::LossCause). Also
    /// counts from the grant to the first poll. Default: no limit; 1 min for a [`Job`](crate::Job)
    /// that does not block, and for a [`Leader`](crate::Leader). [`Duration::MAX`] means no limit,
    /// and zero is an error.
    ///
    /// The work is checked every quarter of the limit, so a stall is detected up to a quarter
    /// later. Time in which the machine was suspended, or the process stopped, counts for a quarter
    /// at most. A poll that hangs can't be dropped: see [`overrun`](Self::overrun).
    ///
    /// An error for a [`LockRequest`](crate::LockRequest) that is awaited: a lock that is held by hand has no work that
    /// is polled.
    pub const fn stall_limit(mut self, limit: Duration) -> Self {
        self.stall_limit = Some(limit);
        self
    }

    /// Maximum time between two calls of [`LockContext::heartbeat`](crate::LockContext::heartbeat)
    /// by the work. Beyond it the lock is no longer renewed, and is lost at the end of its
    /// validity, with [`LossCause::NoHeartbeat`](crate::error::LossCause). It is for work that may
    /// hang without blocking. Default: no limit. [`Duration::MAX`] means no limit, and zero is an
    /// error.
    ///
    /// Counted from the grant, or the start of a job's attempt, and checked like
    /// [`stall_limit`](Self::stall_limit). Under a layer for HTTP, heartbeats are expected until
    /// the response's body has ended.
    pub const fn heartbeat_within(mut self, limit: Duration) -> Self {
        self.heartbeat_within = Some(limit);
        self
    }
}

/// # Defaults
impl LockOptions {
    /// Returns these options, with those that are not set taken from `other`.
    pub const fn or(self, other: Self) -> Self {
        /// `Option::or` is not const.
        macro_rules! first {
            ($($option:ident),*) => {
                Self { $($option: if self.$option.is_some() { self.$option } else { other.$option }),* }
            };
        }
        first!(
            ttl,
            wait,
            max_hold,
            linger,
            wait_without_quorum,
            max_attempts,
            auto_extend,
            overrun,
            max_retry_after,
            stall_limit,
            heartbeat_within,
            slots,
            shared
        )
    }

    /// Refuses these options, each with its reason.
    ///
    /// # Errors
    ///
    /// The reason of the first one that is set.
    pub(crate) fn refuse(&self, reasons: &[(&str, &str)]) -> Result<(), String> {
        let is_set = |name: &str| match name {
            "wait" => self.wait.is_some(),
            "wait_without_quorum" => self.wait_without_quorum.is_some(),
            "max_attempts" => self.max_attempts.is_some(),
            "max_retry_after" => self.max_retry_after.is_some(),
            "stall_limit" => self.stall_limit.is_some(),
            "heartbeat_within" => self.heartbeat_within.is_some(),
            "slots" => self.slots.is_some(),
            "shared" => self.shared.is_some(),
            _ => unreachable!("{name}"),
        };
        match reasons.iter().find(|(name, _)| is_set(name)) {
            Some((name, reason)) => Err(format!("{name} does not apply: {reason}")),
            None => Ok(()),
        }
    }

    /// Refuses the options that a job and a leader do not take.
    #[cfg(feature = "scheduler")]
    pub(crate) fn refuse_waiting(&self) -> Result<(), String> {
        let own = "when to try again follows from its own rules";
        self.refuse(&[
            ("wait", own),
            ("wait_without_quorum", own),
            ("max_attempts", own),
            ("max_retry_after", "nobody is told it"),
        ])
    }
}

#[cfg(all(test, feature = "once", feature = "scheduler"))]
mod tests {
    use super::*;
    use crate::{
        Job, LockError, OnceLayer, Redlock, RedlockLayer,
        lock::{
            LockRequest,
            settings::{OnOutage, Plan},
        },
        schedule::Schedule,
    };

    type Place = fn(&Redlock, LockOptions) -> LockRequest;

    /// Where options are taken.
    const PLACES: [(&str, Place); 7] = [
        ("LockRequest", |redlock, options| redlock.lock("x").options(options)),
        ("BlockingRequest", |redlock, options| {
            redlock.blocking().lock("x").options(options).lock_request()
        }),
        ("RedlockLayer", |redlock, options| {
            RedlockLayer::new(redlock.clone(), |(): &()| "x").options(options).lock_request()
        }),
        ("OnceRequest", |redlock, options| redlock.once("x").options(options).lock_request()),
        ("OnceLayer", |redlock, options| {
            OnceLayer::new(redlock.clone(), "layer", |(): &()| "x").options(options).lock_request()
        }),
        ("Job", |redlock, options| {
            let schedule = Schedule::every(Duration::from_secs(60));
            Job::new("x", schedule, async |_| {}).options(options).lock_request(redlock)
        }),
        ("Leader", |redlock, options| redlock.leader("x").options(options).lock_request()),
    ];

    /// Returns whether requests of this place take `linger`, `slots` and `shared`.
    fn takes_any(place: &str) -> bool {
        matches!(place, "LockRequest" | "BlockingRequest" | "RedlockLayer")
    }

    const TIME: Duration = Duration::from_millis(4_321);
    const NEW: LockOptions = LockOptions::new();

    type PlanCheck = fn(&Plan) -> bool;

    /// Each option, set to another value than its default, and a check of the plan.
    const OPTIONS: [(&str, LockOptions, PlanCheck); 11] = [
        ("ttl", NEW.ttl(TIME), |plan| plan.ttl == TIME),
        ("wait", NEW.wait(TIME), |plan| plan.wait == TIME),
        ("max_hold", NEW.max_hold(TIME), |plan| plan.max_hold == TIME),
        ("linger", NEW.linger(TIME), |plan| plan.linger == TIME),
        ("wait_without_quorum", NEW.wait_without_quorum(false), |plan| {
            plan.on_outage == OnOutage::Fail
        }),
        ("max_attempts", NEW.max_attempts(7), |plan| plan.max_attempts == Some(7)),
        ("auto_extend", NEW.auto_extend(false), |plan| !plan.auto_extend),
        ("overrun", NEW.overrun(Overrun::Abort), |plan| plan.overrun == Overrun::Abort),
        ("max_retry_after", NEW.max_retry_after(TIME), |plan| plan.max_retry_after == TIME),
        ("stall_limit", NEW.stall_limit(TIME), |plan| plan.stall_limit == Some(TIME)),
        ("heartbeat_within", NEW.heartbeat_within(TIME), |plan| {
            plan.heartbeat_within == Some(TIME)
        }),
    ];

    /// The options that a job and a leader do not take.
    const OWN_RULES: [&str; 4] = ["wait", "wait_without_quorum", "max_attempts", "max_retry_after"];

    /// The options of locks that may have several holders.
    const SEVERAL_HOLDERS: [(&str, LockOptions); 2] =
        [("slots", NEW.slots(3)), ("shared", NEW.shared(true))];

    #[test]
    fn each_option_reaches_the_lock() {
        let redlock = Redlock::embedded();

        for (place, request) in PLACES {
            let is_own = matches!(place, "Job" | "Leader");
            for (option, options, has) in OPTIONS {
                let unset = request(&redlock, LockOptions::new()).plan().unwrap();
                let is_default = option == "wait_without_quorum" && place.ends_with("Layer");
                assert_eq!(has(&unset), is_default, "{place}: {option} by default");
                if is_own && OWN_RULES.contains(&option) {
                    assert!(options.refuse_waiting().unwrap_err().contains(option));
                    continue;
                }
                if option == "linger" && !takes_any(place) {
                    let refused = invalid(request(&redlock, options).plan().unwrap_err());
                    assert!(refused.contains("linger does not apply"), "{place}: {refused}");
                    continue;
                }
                let plan = request(&redlock, options).plan().unwrap();
                assert!(has(&plan), "{place} loses {option}: {plan:?}");
            }
        }
    }

    #[test]
    fn several_holders_apply_to_requests_and_layers_only() {
        let redlock = Redlock::embedded();

        for (option, options) in SEVERAL_HOLDERS {
            for (place, request) in PLACES {
                let request = request(&redlock, options);

                if takes_any(place) {
                    request.plan().unwrap();
                    assert_eq!(request.options, options, "{place}");
                } else {
                    let refused = invalid(request.plan().unwrap_err());
                    let reason = format!("{option} does not apply");
                    assert!(refused.contains(&reason), "{place}: {refused}");
                }
            }
        }
    }

    #[test]
    fn builder_defaults_reach_the_lock() {
        for (option, options, has) in OPTIONS {
            let built = Redlock::builder().nodes(["redis://h"]).options(options).build();

            if matches!(option, "stall_limit" | "heartbeat_within") {
                let error = built.unwrap_err().to_string();
                assert!(error.contains(option), "{error}");
                continue;
            }
            let plan = built.unwrap().lock("x").plan().unwrap();

            assert!(has(&plan), "the builder loses {option}: {plan:?}");
        }
    }

    #[test]
    fn later_setters_override_earlier_ones() {
        let redlock = Redlock::embedded();
        let request = redlock.lock("x").wait(TIME).ttl(TIME * 2).options(NEW.ttl(TIME));
        let plan = request.plan().unwrap();
        assert_eq!((plan.ttl, plan.wait), (TIME, TIME));
        let plan = redlock.lock("x").options(NEW.ttl(TIME)).ttl(TIME * 2).plan().unwrap();
        assert_eq!(plan.ttl, TIME * 2);
        let request = redlock.lock("x").slots(2).options(NEW.ttl(TIME));
        assert_eq!(request.options.slots, Some(2), "other options do not unset it");
        assert_eq!(request.options(NEW.slots(3)).options.slots, Some(3));
    }

    /// The message of an invalid request.
    fn invalid(error: LockError) -> String {
        let LockError::InvalidRequest(reason) = error else { panic!("{error:?}") };
        reason.to_string()
    }

    #[tokio::test]
    async fn inapplicable_options_are_named_errors() {
        let redlock = Redlock::embedded();
        let by_hand = redlock.lock("x").options(NEW.stall_limit(TIME)).await.unwrap_err();

        assert!(invalid(by_hand).contains("stall_limit"));
        for options in [NEW.wait(TIME), NEW.max_attempts(7), NEW.max_retry_after(TIME)] {
            let option = options.refuse_waiting().unwrap_err();
            let leader = redlock.leader("x").options(options).run(|_| async {}).await.unwrap_err();
            assert_eq!(invalid(leader), option);
            let every = Schedule::every(Duration::from_secs(60));
            let job = Job::new("x", every, async |_| {}).options(options);
            let job = crate::Scheduler::new(redlock.clone()).job(job).start().unwrap_err();
            assert!(job.to_string().contains(&option), "{job}");
        }
    }

    #[cfg(feature = "config")]
    #[test]
    fn serde_reads_what_it_writes() {
        let options = OPTIONS.map(|(option, options, _)| (option, options));
        for (option, options) in options.into_iter().chain(SEVERAL_HOLDERS) {
            let text = toml::to_string(&options);
            let text = text.unwrap_or_else(|error| panic!("{option}: {error}"));
            assert_eq!(toml::from_str::<LockOptions>(&text).unwrap(), options, "{text}");
        }

        assert!(toml::from_str::<LockOptions>("ttl_ms = 10").is_err());
        assert_eq!(
            toml::from_str::<LockOptions>("ttl = '2s'").unwrap(),
            NEW.ttl(TIME).or(NEW).ttl(Duration::from_secs(2))
        );
        assert_eq!(toml::from_str::<LockOptions>("slots = 3").unwrap(), NEW.slots(3));
        assert_eq!(toml::from_str::<LockOptions>("shared = true").unwrap(), NEW.shared(true));
    }
}
