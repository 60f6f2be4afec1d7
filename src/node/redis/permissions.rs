//! Detects which of the commands listed in docs/servers.md the server denies to the user.

use std::{collections::BTreeSet, sync::Arc};

use ::redis::{Pipeline, Value};

use super::{RedisSettings, decode::text, encode::Keys, scripts, server_error::reason};
use crate::error::Reason;

/// Needed only for wake-ups.
const WAKE_UPS: [&str; 5] = ["ping", "publish", "pubsub|numsub", "subscribe", "unsubscribe"];

/// The commands known to be denied.
#[derive(Debug, Default)]
pub(super) struct Denied {
    /// Found by trying each command.
    found: Vec<Arc<str>>,
    /// Found by the listener.
    listening: BTreeSet<&'static str>,
}

impl Denied {
    /// Records the result of [`answer`].
    pub(super) fn found(&mut self, commands: Vec<Arc<str>>) {
        self.found = commands;
    }

    /// Records whether a command of the listener was denied.
    pub(super) fn listening(&mut self, command: &'static str, denied: bool) {
        if denied {
            self.listening.insert(command);
        } else {
            self.listening.remove(command);
        }
    }

    /// Returns all denied commands in alphabetical order.
    pub(super) fn commands(&self) -> Arc<[Arc<str>]> {
        let all: BTreeSet<Arc<str>> = self
            .found
            .iter()
            .map(Arc::clone)
            .chain(self.listening.iter().map(|command| Arc::from(*command)))
            .collect();
        all.into_iter().collect()
    }

    /// Returns whether a denied command is needed for more than wake-ups.
    pub(super) fn are_needed(&self) -> bool {
        let is_for_wake_ups = |rule: &str| rule.starts_with('&') || WAKE_UPS.contains(&rule);
        self.found.iter().any(|rule| !is_for_wake_ups(rule))
    }
}

/// No script has it.
const NO_DIGEST: &str = "0000000000000000000000000000000000000000";

/// Adds the commands of the check.
pub(super) fn ask(pipeline: &mut Pipeline, settings: &RedisSettings, keys: &Keys) {
    pipeline.cmd("EVALSHA").arg(NO_DIGEST).arg(0);
    pipeline
        .cmd("EVAL")
        .arg(scripts::PERMISSIONS.text)
        .arg(1)
        // No name is empty, so no lock has this key.
        .arg(&keys.lock_prefix)
        .arg(format!("{}:free:", settings.prefix));
}

/// Parses the answer to [`ask`]; `None` if it can't be determined at present.
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
