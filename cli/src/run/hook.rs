//! Commands of the user that sh(1) executes after the command has ended.

use std::{ffi::OsStr, io, process::Stdio, time::Duration};

use tower_redlock::{LockOptions, Redlock, once::OnceError};

use super::signals::SignalRouter;
use crate::output::say;

/// Retention of the record that the failure of a tick was reported.
const REPORT_RETENTION: Duration = Duration::from_secs(7 * 86_400);

/// Executes the command of an option by sh(1), with additions to its environment. Reports a failure on the
/// standard error, and returns whether it succeeded. A signal ends it.
pub(super) async fn shell(
    option: &str,
    command: &OsStr,
    environment: &[(&str, &str)],
    signals: &SignalRouter,
) -> bool {
    let mut shell = tokio::process::Command::new("sh");
    shell.arg("-c").arg(command).kill_on_drop(true).stdin(Stdio::null());
    shell.envs(environment.iter().copied());
    let ended = tokio::select! {
        biased;
        ended = shell.status() => ended,
        signal = signals.hurried() => Err(io::Error::other(format!("ended by {signal:?}"))),
    };
    match ended {
        Ok(status) if status.success() => return true,
        Ok(status) => say(&format!("redlock: the command of {option} failed: {status}")),
        Err(error) => say(&format!("redlock: the command of {option} was not run: {error}")),
    }
    false
}

/// The failure of a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TickFailure {
    /// `failed`, `lost`, `missed`, `conflict`, `unknown` or `unavailable`.
    pub(super) outcome: &'static str,
    pub(super) error: String,
    /// The number of the attempt, from 1; 0 without an attempt, here or elsewhere.
    pub(super) attempt: u32,
}

impl TickFailure {
    /// Reports the failure by `--notify-failure`, unless another host has reported it.
    pub(super) async fn notify(
        &self,
        redlock: &Redlock,
        command: &OsStr,
        job: &str,
        tick: &str,
        signals: &SignalRouter,
    ) {
        let attempt = self.attempt.to_string();
        let environment = [
            ("REDLOCK_JOB", job),
            ("REDLOCK_TICK", tick),
            ("REDLOCK_ATTEMPT", &*attempt),
            ("REDLOCK_OUTCOME", self.outcome),
            ("REDLOCK_ERROR", &*self.error),
        ];
        let report = || shell("--notify-failure", command, &environment, signals);
        let key = format!("notify:{job}:{tick}:{attempt}");
        let once = redlock.once(key).options(LockOptions::new().wait(Duration::ZERO));
        // After a failed report, the next host tries.
        let reported =
            once.retain(REPORT_RETENTION).run(|_| async { report().await.then_some(()).ok_or("") });
        // A second report is better than none.
        if let Err(OnceError::Lock(_)) = reported.await {
            report().await;
        }
    }
}
