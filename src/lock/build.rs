//! Checks the settings of a manager, and builds it.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};

use super::{
    Redlock,
    builder::{NodeSource, RedlockBuilder},
    client::ClientParts,
    core::Core,
    named_nodes,
    settings::{KeyClock, ManagerBounds, RequestDefaults, Settings},
    spawner::{Spawner, ThreadSpawner},
};
use crate::{
    error::{BuildError, SetNumber},
    events::Events,
    metrics,
    node::{
        ClockJumps, Node,
        redis::{
            Endpoint, Guards, Layout, NodeAddress, NodeSet, RedisNode, RedisSettings, RestartGuard,
            SetList,
        },
    },
    protocol::formulas,
    time::{AdjustedClock, Clock, MAX_DURATION, Timers},
};

/// Default TTL.
const TTL: Duration = Duration::from_secs(10);
/// Default `max_hold`.
const MAX_HOLD: Duration = Duration::from_secs(5 * 60);
/// Default of `max_retry_after`.
const RETRY_AFTER: Duration = Duration::from_secs(30);
const MAX_OWNER_BYTES: usize = 128;
/// Maximum length of a key prefix, in bytes.
pub(crate) const MAX_PREFIX_BYTES: usize = 64;

impl RedlockBuilder {
    /// Checks the settings, and starts to connect in the background. It also succeeds while servers
    /// are down: they are connected when they come up.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: the setting that is wrong, and why.
    pub fn build(self) -> Result<Redlock, BuildError> {
        self.build_with(None, Arc::default(), None)
    }

    /// Builds a manager that sends these events. `place` says which of several sets it has; the servers
    /// store it.
    pub(super) fn build_with(
        self,
        place: Option<SetNumber>,
        events: Arc<Events>,
        list: Option<&Arc<SetList>>,
    ) -> Result<Redlock, BuildError> {
        let settings = Settings { place, ..self.settings()? };
        let endpoints = endpoints(&self.servers)?;
        if endpoints.is_empty() && self.nodes.iter().all(NodeSource::is_empty) {
            return Err(BuildError::NoNodes);
        }
        check_prefix(&self.key_prefix)?;
        metrics::describe();
        named_nodes::check_prefix(&self.key_prefix, &endpoints)?;
        self.check_embedded()?;
        self.check_guarded()?;
        named_nodes::warn_of_any_host(&endpoints, self.access.tls.as_ref());
        let clock = Arc::new(AdjustedClock::new(self.clock));
        let redis = RedisSettings {
            events: Arc::clone(&events),
            prefix: Arc::clone(&settings.key_prefix),
            guards: self.guards,
            max_ttl: settings.max_ttl,
            drift_factor: settings.drift_factor,
            node_timeout: settings.node_timeout,
            access: self.access.check(&endpoints)?,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
        };
        let spawner = spawner_or_thread(self.spawner)?;
        let mut nodes: Vec<Arc<dyn Node>> = Vec::new();
        for source in self.nodes {
            match source {
                NodeSource::Node(node) => nodes.push(node),
                NodeSource::Embedded(set) => nodes.extend(set.nodes(&self.key_prefix)),
            }
        }
        let (others, servers) = (nodes.len(), endpoints.len());
        let timers = Arc::new(Timers::new(Arc::clone(&clock) as Arc<dyn Clock>));
        let clock_jumps = Arc::new(ClockJumps::new(others + servers, Arc::clone(&timers)));
        let mut set = None;
        warn_of_few_servers(servers, self.guards);
        if self.guards.assumes_new_servers {
            crate::log::warn!(
                "assume_new_servers: servers without a record of a vote vote at once; where one of them lost its data, a lock may have two holders. For tests only"
            );
        }
        named_nodes::warn_of_failovers(&endpoints, self.guards.restart);
        if !endpoints.is_empty() {
            let names: Vec<_> = endpoints.iter().map(|at| Arc::clone(&at.name)).collect();
            let place = place.map_or_else(String::new, |place| format!(", {place}"));
            let layout =
                Layout::new(&names, &[&redis.prefix, &*place].concat(), self.guards.restart);
            let jumps = Arc::clone(&clock_jumps);
            let shared = NodeSet::new(layout, redis, clock, jumps, others, servers);
            if let Some(list) = list {
                shared.join_list(list);
            }
            // One task runs all connections, so that an attempt wakes one task, not one for each
            // node.
            let connections = FuturesUnordered::new();
            let listeners = FuturesUnordered::new();
            for (node, supervisor, listener) in RedisNode::set(endpoints, &shared) {
                connections.push(supervisor.run());
                listeners.push(listener.run());
                nodes.push(Arc::new(node));
            }
            let keeper = Arc::clone(&shared).run();
            spawner.spawn(Box::pin(async move {
                tokio::join!(connections.collect::<()>(), listeners.collect::<()>(), keeper);
            }));
            set = Some(shared);
        }
        let parts = ClientParts { settings, nodes, set, timers, clock_jumps, events, spawner };
        Ok(Redlock::new(Core::new(parts)))
    }

    /// Refuses embedded nodes beside servers: they lose all locks with the process, servers do not.
    fn check_embedded(&self) -> Result<(), BuildError> {
        let mut sets = self.nodes.iter().filter(|source| matches!(source, NodeSource::Embedded(_)));
        let (first, second) = (sets.next(), sets.next());
        if first.is_some() && (second.is_some() || !self.servers.is_empty()) {
            let reason = "an embedded set is used alone: not twice, and not beside servers";
            return Err(BuildError::setting("nodes", reason));
        }
        Ok(())
    }

    /// Refuses other nodes beside servers with the restart guard, which counts servers only: a
    /// majority of the servers may not be a majority of all nodes.
    fn check_guarded(&self) -> Result<(), BuildError> {
        let mixed = !self.servers.is_empty() && !self.nodes.iter().all(NodeSource::is_empty);
        if mixed && self.guards.restart != RestartGuard::Off {
            let reason = "servers with the restart guard are used without nodes of another kind; switch it off to mix them";
            return Err(BuildError::setting("nodes", reason));
        }
        Ok(())
    }

    pub(super) fn settings(&self) -> Result<Settings, BuildError> {
        let setting = |name, reason: String| BuildError::setting(name, reason);
        if !(0.0..1.0).contains(&self.drift_factor) {
            let reason = format!("{} is not between 0 and 1", self.drift_factor);
            return Err(setting("drift_factor", reason));
        }
        let why = "it depends on the work: set it where that is";
        let per_work =
            [("stall_limit", why), ("heartbeat_within", why), ("slots", why), ("shared", why)];
        if let Err(reason) = self.options.refuse(&per_work) {
            return Err(setting("options", reason));
        }
        let ttl = self.options.ttl.unwrap_or(TTL);
        let max_hold = self.options.max_hold.unwrap_or(MAX_HOLD);
        let max_ttl = self.max_ttl.unwrap_or(ttl);
        let durations = [
            ("ttl", ttl),
            ("max_ttl", max_ttl),
            ("max_hold", max_hold),
            ("node_timeout", self.node_timeout),
        ];
        if let Some((name, _)) = durations.iter().find(|(_, value)| value.is_zero()) {
            return Err(setting(name, "it is zero".into()));
        }
        let delay = [("retry_delay", *self.retry_delay.end())];
        // `wait` and `max_hold` may be `Duration::MAX`.
        let bounded = durations.iter().filter(|(name, _)| *name != "max_hold").chain(&delay);
        if let Some((name, value)) = bounded.into_iter().find(|(_, value)| *value > MAX_DURATION) {
            return Err(setting(name, format!("{value:?} is longer than {MAX_DURATION:?}")));
        }
        if max_ttl < ttl {
            let reason = format!("{max_ttl:?} is less than the TTL of {ttl:?}");
            return Err(setting("max_ttl", reason));
        }
        let key_clock = if self.servers.is_empty() { KeyClock::Process } else { KeyClock::Servers };
        let drift = key_clock.slack(ttl, self.drift_factor);
        if drift >= ttl {
            return Err(BuildError::TtlUnderDrift { ttl, drift });
        }
        let validity = formulas::validity(ttl, drift);
        if self.stop_margin.is_some_and(|margin| margin > validity / 2) {
            let reason = format!(
                "a lock is renewed from a third of its validity of {validity:?} on: work that is asked to stop before half of it would never come to its end"
            );
            return Err(setting("stop_margin", reason));
        }
        if self.retry_delay.is_empty() {
            return Err(setting("retry_delay", "the range is empty".into()));
        }
        if self.options.linger.is_some_and(|linger| !linger.is_zero()) && !self.wakeups {
            let reason = "it needs wakeups, by which other processes ask for a lock";
            return Err(setting("linger", reason.into()));
        }
        for (name, is_zero) in [
            ("max_waiters", self.line.per_name == 0 || self.line.total == 0),
            ("max_waiting_body_bytes", self.waiting_body_bytes == 0),
            ("max_records", self.records.records == Some(0)),
            ("max_attempts", self.options.max_attempts == Some(0)),
        ] {
            if is_zero {
                return Err(setting(name, "it is zero".into()));
            }
        }
        let defaults = RequestDefaults {
            ttl,
            wait: self.options.wait.unwrap_or(Duration::ZERO),
            max_hold,
            linger: self.options.linger.unwrap_or_default(),
            wait_without_quorum: self.options.wait_without_quorum,
            max_attempts: self.options.max_attempts,
            auto_extend: self.options.auto_extend.unwrap_or(true),
            max_retry_after: self.options.max_retry_after.unwrap_or(RETRY_AFTER),
            stop_margin: self.stop_margin,
            overrun: self.options.overrun.unwrap_or_default(),
        };
        let bounds = ManagerBounds {
            line: self.line,
            records: self.records,
            waiting_body_bytes: self.waiting_body_bytes,
            handoff_limit: self.handoff_limit,
        };
        Ok(Settings {
            defaults,
            bounds,
            max_ttl,
            node_timeout: self.node_timeout,
            drift_factor: self.drift_factor,
            key_clock,
            retry_delay: self.retry_delay.clone(),
            wakeups: self.wakeups,
            owner: owner(self.owner.as_deref())?,
            key_prefix: self.key_prefix.as_str().into(),
            restart_guard: self.guards.restart,
            is_embedded: self.servers.is_empty() && self.nodes.iter().all(NodeSource::is_embedded),
            fencing: self.fencing,
            place: None,
        })
    }
}

fn warn_of_few_servers(servers: usize, guards: Guards) {
    if guards.restart == RestartGuard::Off || guards.accepts_few_servers {
        return;
    }
    match servers {
        1 => crate::log::warn!(
            "a single server: while it is down or in probation no client gets a lock, what is recorded as done once is lost with its data, and a name that leads to two servers can't be noticed; three survive the loss of one (accept_few_servers, if one is intended)"
        ),
        2 => crate::log::warn!(
            "two servers: both have to vote, so a failure or restart of either stops all locks; three survive the loss of one (accept_few_servers, if two are intended)"
        ),
        _ => {}
    }
}

/// Starts a thread if no spawner was set.
pub(crate) fn spawner_or_thread(
    spawner: Option<Arc<dyn Spawner>>,
) -> Result<Arc<dyn Spawner>, BuildError> {
    match spawner {
        Some(spawner) => Ok(spawner),
        None => match ThreadSpawner::start() {
            Ok(thread) => Ok(Arc::new(thread)),
            Err(error) => Err(BuildError::System(Arc::new(error))),
        },
    }
}

/// Refuses a text that is empty, too long, or has control characters. `what` is its name in the
/// error.
pub(crate) fn check_text(
    setting: &'static str,
    what: &str,
    text: &str,
    most: usize,
) -> Result<(), BuildError> {
    if text.is_empty() || text.len() > most || text.chars().any(char::is_control) {
        let reason = format!("{what} must have 1 to {most} bytes and no control characters");
        return Err(BuildError::setting(setting, reason));
    }
    Ok(())
}

fn owner(given: Option<&str>) -> Result<Arc<str>, BuildError> {
    let Some(owner) = given else { return Ok(default_owner().into()) };
    check_text("owner", "it", owner, MAX_OWNER_BYTES)?;
    Ok(owner.into())
}

/// Returns `program@host:pid`.
fn default_owner() -> String {
    let program = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "unknown".into());
    #[cfg(unix)]
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let host = std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".into());
    let clean = |text: String, most: usize| -> String {
        text.chars().filter(|c| !c.is_control()).take(most).collect()
    };
    format!("{}@{}:{}", clean(program, 24), clean(host, 64), std::process::id())
}

fn check_name(name: &str) -> Result<(), BuildError> {
    check_text("nodes", "a name", name, MAX_OWNER_BYTES)?;
    // Names are shown, and must not contain a password.
    if name.contains("://") && name.contains('@') {
        let reason = "a name is a URL, which may have a password: the name comes before the URL";
        return Err(BuildError::setting("nodes", reason));
    }
    Ok(())
}

fn check_prefix(prefix: &str) -> Result<(), BuildError> {
    check_text("key_prefix", "it", prefix, MAX_PREFIX_BYTES)?;
    // Names may contain any of these parts. With one in a prefix, as in `a` and `a:lock:b`, two
    // managers could share keys or channels. The keys `:meta` and `:marks` end with their kind, so
    // managers cannot share them.
    let within = format!("{prefix}:");
    if let Some(kind) =
        [":lock:", ":done:", ":free:"].into_iter().find(|kind| within.contains(kind))
    {
        let reason = format!(
            "`{within}` has the part `{kind}`, which stands between prefix and name: keys would be \
             shared with another prefix; choose one without it, such as `{}`",
            within.replace(':', "-").trim_matches('-'),
        );
        return Err(BuildError::setting("key_prefix", reason));
    }
    Ok(())
}

fn endpoints(given: &[(Option<String>, NodeAddress)]) -> Result<Vec<Endpoint>, BuildError> {
    let (mut seen, mut names) = (HashSet::new(), HashSet::new());
    let mut endpoints = Vec::with_capacity(given.len());
    for (i, (name, address)) in given.iter().enumerate() {
        let mut endpoint = Endpoint::new(i + 1, address)?;
        // Databases of one server are not independent nodes, nor are two names of one server.
        let place = match endpoint.address() {
            Some(address) => address.to_string(),
            None => endpoint.name.rsplit_once('/').map_or(&*endpoint.name, |(at, _)| at).to_owned(),
        };
        if !seen.insert(place.clone()) {
            return Err(BuildError::DuplicateNode { node: place });
        }
        if let Some(name) = name {
            check_name(name)?;
            endpoint.name = name.as_str().into();
        }
        if !names.insert(Arc::clone(&endpoint.name)) {
            return Err(BuildError::DuplicateNode { node: endpoint.name.to_string() });
        }
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}

impl NodeSource {
    const fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded(_))
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Embedded(set) if set.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::{assert_documented, duration, number};

    #[test]
    fn defaults_are_in_the_guide() {
        let settings = RedlockBuilder::new().settings().unwrap();
        let requests = settings.defaults;
        for (setting, default) in [
            ("ttl", requests.ttl),
            ("wait", requests.wait),
            ("max_hold", requests.max_hold),
            ("linger", requests.linger),
            ("max_retry_after", requests.max_retry_after),
            ("node_timeout", settings.node_timeout),
        ] {
            assert_documented(setting, &duration(default));
        }
        assert_eq!(settings.max_ttl, requests.ttl);
        let bounds = settings.bounds;
        assert_documented("max_waiters", &number(bounds.line.per_name));
        assert_documented("max_waiters_in_total", &number(bounds.line.total));
        assert_documented("handoff_limit", &bounds.handoff_limit.to_string());
    }
}
