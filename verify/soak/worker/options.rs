//! Command-line options of a worker.

use std::str::FromStr;
use std::time::Duration;

use crate::trial::LocksKind;

/// The options that the parent passes to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerOptions {
    pub(crate) worker: usize,
    pub(crate) seed: u64,
    pub(crate) tasks: usize,
    /// A URL for each server, separated by commas.
    pub(crate) urls: String,
    pub(crate) ttl: Duration,
    pub(crate) locks: LocksKind,
}

/// The subcommand.
pub(crate) const WORKER: &str = "worker";

impl WorkerOptions {
    pub(crate) fn to_args(&self) -> Vec<String> {
        let (kind, restart_guard) = match self.locks {
            LocksKind::Plain => ("plain", false),
            LocksKind::Redlock { restart_guard } => ("redlock", restart_guard),
        };
        vec![
            WORKER.into(),
            self.worker.to_string(),
            self.seed.to_string(),
            self.tasks.to_string(),
            self.urls.clone(),
            self.ttl.as_millis().to_string(),
            kind.into(),
            restart_guard.to_string(),
        ]
    }

    /// Parses the arguments after the subcommand.
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Option<Self> {
        let mut args = args;
        let worker = next(&mut args)?;
        let seed = next(&mut args)?;
        let tasks = next(&mut args)?;
        let urls = args.next()?;
        let ttl = Duration::from_millis(next(&mut args)?);
        let kind = args.next()?;
        let restart_guard = next(&mut args)?;
        let locks = match kind.as_str() {
            "plain" => LocksKind::Plain,
            "redlock" => LocksKind::Redlock { restart_guard },
            _ => return None,
        };
        args.next().is_none().then_some(Self { worker, seed, tasks, urls, ttl, locks })
    }
}

fn next<T: FromStr>(args: &mut impl Iterator<Item = String>) -> Option<T> {
    args.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_back_from_their_arguments() {
        for locks in [LocksKind::Plain, LocksKind::Redlock { restart_guard: true }] {
            let options = WorkerOptions {
                worker: 1,
                seed: 42,
                tasks: 6,
                urls: "redis://127.0.0.1:1,redis://127.0.0.1:2".into(),
                ttl: Duration::from_secs(2),
                locks,
            };
            let args = options.to_args();
            assert_eq!(args[0], WORKER);
            assert_eq!(WorkerOptions::parse(args.into_iter().skip(1)), Some(options));
        }
    }
}
