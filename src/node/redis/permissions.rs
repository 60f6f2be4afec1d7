//! The commands listed in docs/security.md that the server denies to the user.

use std::{
    collections::{BTreeSet, HashMap},
    mem::{Discriminant, discriminant},
    sync::Arc,
};

use ::redis::{Pipeline, Value};

use super::{RedisSettings, encode::Keys, scripts, server_error::reason, values::text};
use crate::{error::Reason, protocol::Op};

/// The commands known to be denied.
#[derive(Debug, Default)]
pub(super) struct Denied {
    /// Commands that the latest check found to be denied; it tries each command.
    pub(super) checked: Vec<Arc<str>>,
    /// The command for which the connection was closed, if any.
    pub(super) connecting: Option<Arc<str>>,
    /// Commands that the server denied to the listener.
    listening: BTreeSet<&'static str>,
    /// The latest denied command of each kind of operation, until an operation of that kind
    /// succeeds.
    operations: HashMap<Discriminant<Op>, Arc<str>>,
}

impl Denied {
    /// Records whether a command of the listener is denied; returns whether that has changed.
    pub(super) fn listening(&mut self, command: &'static str, is_denied: bool) -> bool {
        if is_denied { self.listening.insert(command) } else { self.listening.remove(command) }
    }

    /// Records a command that the server denied to an operation.
    pub(super) fn refused(&mut self, op: &Op, command: Arc<str>) {
        self.operations.insert(discriminant(op), command);
    }

    /// Records an operation that succeeded; returns whether any other kind is still denied a command.
    pub(super) fn succeeded(&mut self, op: &Op) -> bool {
        self.operations.remove(&discriminant(op));
        !self.operations.is_empty()
    }

    /// Returns all denied commands in alphabetical order.
    pub(super) fn commands(&self) -> Arc<[Arc<str>]> {
        let known = self.checked.iter().chain(&self.connecting).chain(self.operations.values());
        let listening = self.listening.iter().map(|command| Arc::from(*command));
        let all: BTreeSet<Arc<str>> = known.map(Arc::clone).chain(listening).collect();
        all.into_iter().collect()
    }
}

/// The digest of no script.
const NO_DIGEST: &str = "0000000000000000000000000000000000000000";

/// Adds the commands of the check.
pub(super) fn ask(pipeline: &mut Pipeline, settings: &RedisSettings, keys: &Keys) {
    pipeline.cmd("EVALSHA").arg(NO_DIGEST).arg(0);
    pipeline
        .cmd("EVAL")
        .arg(scripts::PERMISSIONS)
        .arg(1)
        // Names are not empty, so no lock has this key.
        .arg(&keys.lock_prefix)
        .arg(format!("{}:free:", settings.prefix));
}

/// Parses the answer to [`ask`]; `None` if the result can't be determined at present.
pub(super) fn answer(answers: Vec<Value>) -> Option<Vec<Arc<str>>> {
    let [by_digest, tried] = <[Value; 2]>::try_from(answers).ok()?;
    let is_denied = |answer: &Value| matches!(answer, Value::ServerError(error) if matches!(reason(error), Reason::NoPermission(_)));
    let mut denied: Vec<Arc<str>> = match &tried {
        Value::Array(commands) => commands.iter().map(text).collect(),
        _ if is_denied(&tried) => vec!["eval".into()],
        _ => return None,
    };
    if is_denied(&by_digest) {
        denied.push("evalsha".into());
    }
    Some(denied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successes_clear_their_kind_only() {
        let (reads, claims) = (Op::ReadRecord("a".into()), Op::Claims([].into()));
        let mut denied = Denied::default();
        denied.refused(&reads, "get".into());
        denied.refused(&reads, "hget".into());
        denied.refused(&claims, "hmget".into());
        denied.connecting = Some("info".into());
        assert_eq!(*denied.commands(), ["hget", "hmget", "info"].map(Arc::from));

        assert!(denied.succeeded(&reads));
        assert!(!denied.succeeded(&claims));
        assert_eq!(*denied.commands(), ["info"].map(Arc::from));
    }
}
