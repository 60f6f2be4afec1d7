//! The probe of a server at connect: its kind, and whether it is fit to vote.

use std::sync::Arc;

use ::redis::{Pipeline, Value};

use super::{RestartGuard, directory::hash_tag, plain_form::DeleteIfEqual, values::info};
use crate::{
    error::{Reason, UnfitServer},
    node::{Finding, ServerKind},
};

/// First version with script flags, which let scripts run when memory is low.
const FLAGS_VERSION: (u32, u32) = (7, 0);
/// Fields of INFO with the mode of a server, in Redis, Valkey and Redict.
const MODES: [&str; 3] = ["redis_mode", "server_mode", "redict_mode"];
/// Number of commands of a [probe](add_probe).
const PROBES: usize = 2;

/// Adds the commands of a probe.
pub(super) fn add_probe(pipeline: &mut Pipeline) {
    pipeline.cmd("INFO").arg("server");
    pipeline.cmd("INFO").arg("replication");
}

/// The replies to a [probe](add_probe).
pub(super) struct Probe {
    server: Value,
    replication: Value,
}

impl Probe {
    /// Removes the replies of the probe from the end of a pipeline's replies.
    pub(super) fn take(answers: &mut Vec<Value>) -> Self {
        let mut last = answers.split_off(answers.len().saturating_sub(PROBES)).into_iter();
        let mut next = || last.next().unwrap_or(Value::Nil);
        Self { server: next(), replication: next() }
    }

    pub(super) const fn server(&self) -> &Value {
        &self.server
    }

    /// Returns the error of a server whose mode does not allow it to be a node.
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
        version: Option<Arc<str>>,
        number: (u32, u32),
        guard: RestartGuard,
    ) -> Result<ServerTraits, Reason> {
        let unfit = |unfit| Err(Reason::Unfit(unfit));
        let kind = self.kind();
        let mut limits = Vec::new();
        // If INFO is denied, the health check reports it.
        if is_text(&self.server) && is_text(&self.replication) {
            let is_guarded = guard == RestartGuard::Probation;
            let fields = [
                ("role", &self.replication, true),
                ("run_id", &self.server, is_guarded),
                ("master_replid", &self.replication, is_guarded),
            ];
            let is_missing = |section, name| info(section, name).is_none_or(|text| text.is_empty());
            let missing = fields
                .iter()
                .find(|(name, section, is_needed)| *is_needed && is_missing(section, name));
            if let Some((missing, ..)) = missing {
                return unfit(UnfitServer::NoIdentity { missing: (*missing).into() });
            }
            if is_missing(&self.server, "run_id") {
                limits.push(Finding::NoRunId);
            }
        }
        // Other kinds support no script flags, or different ones.
        let has_flags = matches!(kind, Some(ServerKind::Redis | ServerKind::Valkey));
        Ok(ServerTraits {
            kind,
            deletes: DeleteIfEqual::of(kind, version.as_deref()),
            version,
            knows_flags: has_flags && number >= FLAGS_VERSION,
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
            // KeyDB reports no version of its own.
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
    /// Whether the server supports script flags (Redis 7).
    pub(super) knows_flags: bool,
    /// Its command that deletes a key with a certain value.
    pub(super) deletes: Option<DeleteIfEqual>,
    pub(super) limits: Arc<[Finding]>,
}

/// Returns the error of a connection that leads to another server than before.
pub(super) fn changed() -> Reason {
    let text = "the connection leads to another server than before (a failover behind a proxy); reconnecting";
    Reason::NotConnected(text.into())
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
        }
    }

    #[test]
    fn kinds_are_distinguished() {
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
}
