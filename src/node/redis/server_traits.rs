//! What a probe on connect finds out about a server: its kind, and whether it is fit to vote.

use std::sync::Arc;

use ::redis::{Pipeline, Value};

use super::{
    RestartGuard,
    directory::hash_tag,
    enrol::{NodeReport, info},
    server_error::reason,
};
use crate::{
    error::{Reason, UnfitServer},
    node::{Finding, ServerKind},
};

/// First version with script flags, which let scripts run when memory is short.
const FLAGS_VERSION: (u32, u32) = (7, 0);
/// Maximum length of a field of INFO that is passed to scripts, in characters.
const MAX_FIELD: usize = 100;
/// Fields of INFO with the mode of a server: of Redis, Valkey and Redict.
const MODES: [&str; 3] = ["redis_mode", "server_mode", "redict_mode"];
/// Asks INFO inside a script, which some servers refuse.
const INFO_IN_SCRIPT: &str = "return redis.call('INFO', 'replication')";
/// Number of commands of a [probe](add_probe).
const PROBES: usize = 4;

/// Adds the commands of a probe.
pub(super) fn add_probe(pipeline: &mut Pipeline) {
    add_identity(pipeline);
    pipeline.cmd("INFO").arg("memory");
    pipeline.cmd("EVAL").arg(INFO_IN_SCRIPT).arg(0);
}

/// Adds the commands that read a server's [identity](ToldInfo::is_same).
pub(super) fn add_identity(pipeline: &mut Pipeline) {
    pipeline.cmd("INFO").arg("server");
    pipeline.cmd("INFO").arg("replication");
}

/// The replies to a [probe](add_probe).
pub(super) struct Probe {
    server: Value,
    replication: Value,
    memory: Value,
    in_script: Value,
}

impl Probe {
    /// Takes the replies from the end of those of a pipeline.
    pub(super) fn take(answers: &mut Vec<Value>) -> Self {
        let mut last = answers.split_off(answers.len().saturating_sub(PROBES)).into_iter();
        let mut next = || last.next().unwrap_or(Value::Nil);
        Self { server: next(), replication: next(), memory: next(), in_script: next() }
    }

    pub(super) const fn server(&self) -> &Value {
        &self.server
    }

    /// Returns the error of a server in a mode in which it can't be a node.
    pub(super) fn check_mode(&self, prefix: &str) -> Result<(), Reason> {
        match MODES.into_iter().find_map(|field| info(&self.server, field)).as_deref() {
            Some("sentinel") => Err(Reason::Unfit(UnfitServer::Sentinel)),
            Some("cluster") if hash_tag(prefix).is_none() => {
                Err(Reason::Unfit(UnfitServer::Cluster))
            }
            _ => Ok(()),
        }
    }

    /// Returns the server's traits, or the error of a server that is not fit to vote under this
    /// guard.
    pub(super) fn traits(
        &self,
        (version, number): (Option<Arc<str>>, (u32, u32)),
        guard: RestartGuard,
    ) -> Result<ServerTraits, Reason> {
        let unfit = |unfit| Err(Reason::Unfit(unfit));
        let kind = self.kind();
        let is_refused = is_refused_in_script(&self.in_script);
        let told = ToldInfo::read(&self.server, &self.replication, &self.memory);
        let mut limits = Vec::new();
        // Where INFO is denied, the enrolment says so.
        if is_refused || is_text(&self.server) && is_text(&self.replication) {
            let is_guarded = guard == RestartGuard::Probation;
            let fields = [
                ("role", &told.role, true),
                ("run_id", &told.run_id, is_guarded),
                ("master_replid", &told.master_replid, is_guarded),
            ];
            let missing = fields.iter().find(|(_, text, is_needed)| *is_needed && text.is_empty());
            if let Some((missing, ..)) = missing {
                return unfit(UnfitServer::NoIdentity { missing: (*missing).into() });
            }
            if told.run_id.is_empty() {
                limits.push(Finding::NoRunId);
            }
        }
        if is_refused {
            limits.push(Finding::NoInfoInScripts);
        }
        // Others than these take no flags, or other ones.
        let has_flags = matches!(kind, Some(ServerKind::Redis | ServerKind::Valkey));
        Ok(ServerTraits {
            kind,
            version,
            knows_flags: has_flags && number >= FLAGS_VERSION,
            told: is_refused.then_some(told),
            limits: limits.into(),
        })
    }

    fn kind(&self) -> Option<ServerKind> {
        let has = |name| info(&self.server, name).is_some();
        let version = info(&self.server, "redis_version");
        let executable = info(&self.server, "executable").unwrap_or_default();
        if !is_text(&self.server) {
            None
        } else if has("valkey_version") {
            Some(ServerKind::Valkey)
        } else if has("dragonfly_version") {
            Some(ServerKind::Dragonfly)
        } else if has("garnet_version") {
            Some(ServerKind::Garnet)
        } else if executable.contains("keydb") {
            // It has no version of its own.
            Some(ServerKind::KeyDb)
        } else if version.is_some() {
            Some(ServerKind::Redis)
        } else {
            Some(ServerKind::Other)
        }
    }
}

/// The traits of a server that matter to its connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerTraits {
    pub(super) kind: Option<ServerKind>,
    pub(super) version: Option<Arc<str>>,
    /// Whether it takes the flags of scripts (Redis 7).
    pub(super) knows_flags: bool,
    /// What INFO says outside of scripts, where it is refused inside.
    pub(super) told: Option<ToldInfo>,
    pub(super) limits: Arc<[Finding]>,
}

impl ServerTraits {
    /// Returns the last argument of scripts that ask INFO: empty where they may.
    pub(super) fn told_text(&self) -> String {
        self.told.as_ref().map(ToldInfo::text).unwrap_or_default()
    }
}

/// What INFO says outside of scripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToldInfo {
    run_id: Arc<str>,
    role: Arc<str>,
    master_replid: Arc<str>,
    maxmemory: Arc<str>,
    used_memory: Arc<str>,
}

impl ToldInfo {
    fn read(server: &Value, replication: &Value, memory: &Value) -> Self {
        // It is sent back with each health check.
        let field = |section, name| -> Arc<str> {
            let text = info(section, name).unwrap_or_default();
            text.chars().take(MAX_FIELD).collect::<String>().into()
        };
        Self {
            run_id: field(server, "run_id"),
            role: field(replication, "role"),
            master_replid: field(replication, "master_replid"),
            maxmemory: field(memory, "maxmemory"),
            used_memory: field(memory, "used_memory"),
        }
    }

    /// Returns whether the replies to [`add_identity`] are those of the same run, in the same role
    /// and with the same history.
    pub(super) fn is_same(&self, server: &Value, replication: &Value) -> bool {
        let Self { run_id, role, master_replid, .. } = Self::read(server, replication, &Value::Nil);
        (&run_id, &role, &master_replid) == (&self.run_id, &self.role, &self.master_replid)
    }

    /// Takes the memory of a report.
    pub(super) fn set_memory(&mut self, report: &NodeReport) {
        if let Some(memory) = &report.memory {
            self.maxmemory = memory.limit.to_string().into();
            self.used_memory = memory.used.to_string().into();
        }
    }

    /// The lines that scripts read.
    fn text(&self) -> String {
        let Self { run_id, role, master_replid, maxmemory, used_memory } = self;
        format!(
            "run_id:{run_id}\nrole:{role}\nmaster_replid:{master_replid}\nmaxmemory:{maxmemory}\nused_memory:{used_memory}\n"
        )
    }
}

/// The error of a connection that leads to another server, or to another state of its server, than
/// the one whose INFO the scripts were given: what they answered is void.
pub(super) fn changed() -> Reason {
    Reason::NotConnected(
        "the server behind the connection changed (a fail-over, or another role); connecting anew"
            .into(),
    )
}

/// Whether a server that is otherwise in order refuses INFO in scripts.
fn is_refused_in_script(answer: &Value) -> bool {
    let Value::ServerError(error) = answer else { return false };
    matches!(reason(error), Reason::Server(_) | Reason::Protocol(_))
}

const fn is_text(value: &Value) -> bool {
    matches!(value, Value::BulkString(_) | Value::VerbatimString { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn probe(server: &str) -> Probe {
        let text = |text: &str| Value::BulkString(text.into());
        Probe {
            server: text(server),
            replication: text(&format!("role:master\r\nmaster_replid:{ID}\r\n")),
            memory: text("maxmemory:7\r\nused_memory:5\r\n"),
            in_script: Value::Nil,
        }
    }

    #[test]
    fn kinds_are_told_apart() {
        let kinds = [
            ("redis_version:7.2.4\r\nexecutable:/bin/redis-server", ServerKind::Redis),
            ("redis_version:7.2.4\r\nvalkey_version:8.0.1", ServerKind::Valkey),
            ("redis_version:6.3.4\r\nexecutable:/data/keydb-server", ServerKind::KeyDb),
            ("redis_version:7.4.0\r\ndragonfly_version:df-v1.2", ServerKind::Dragonfly),
            ("redis_version:7.4.3\r\ngarnet_version:1.0.48", ServerKind::Garnet),
            ("server:hand-made", ServerKind::Other),
        ];
        for (text, kind) in kinds {
            assert_eq!(probe(text).kind(), Some(kind), "{text}");
        }
        assert_eq!(Probe::take(&mut Vec::new()).kind(), None);
    }

    #[test]
    fn modes_without_nodes_are_refused() {
        let check = |mode: &str, prefix| probe(&format!("redis_mode:{mode}")).check_mode(prefix);
        assert_eq!(check("standalone", "redlock"), Ok(()));
        assert_eq!(check("cluster", "{redlock}"), Ok(()));
        for prefix in ["redlock", "{}redlock", "}redlock{"] {
            assert_eq!(check("cluster", prefix), Err(Reason::Unfit(UnfitServer::Cluster)));
        }
        assert_eq!(check("sentinel", "{a}"), Err(Reason::Unfit(UnfitServer::Sentinel)));
    }

    #[test]
    fn forks_rename_the_mode() {
        for field in ["server_mode", "redict_mode"] {
            let check = |mode| probe(&format!("{field}:{mode}")).check_mode("redlock");
            assert_eq!(check("standalone"), Ok(()), "{field}");
            assert_eq!(check("cluster"), Err(Reason::Unfit(UnfitServer::Cluster)), "{field}");
            assert_eq!(check("sentinel"), Err(Reason::Unfit(UnfitServer::Sentinel)), "{field}");
        }
    }

    #[test]
    fn identity_is_run_role_history() {
        let Probe { server, replication, memory, .. } = probe("run_id:1");
        let told = ToldInfo::read(&server, &replication, &memory);
        assert!(told.is_same(&server, &replication));
        let text = |text: &str| Value::BulkString(text.into());
        assert!(!told.is_same(&text("run_id:2"), &replication));
        assert!(!told.is_same(&server, &text(&format!("role:slave\nmaster_replid:{ID}"))));
        assert!(!told.is_same(&server, &text("role:master\nmaster_replid:2")));
        assert!(!told.is_same(&Value::Nil, &Value::Nil));
        let lines =
            format!("run_id:1\nrole:master\nmaster_replid:{ID}\nmaxmemory:7\nused_memory:5\n");
        assert_eq!(told.text(), lines);
    }
}
