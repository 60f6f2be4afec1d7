//! `redlock doctor --check`: tries everything over throw-away servers, and checks the outcome.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use serde_json::json;
use tower_redlock::{
    Lock, LockError, Redlock,
    diagnosis::{Diagnosis, Severity, Verdict},
    error::ReleaseError,
    lock::Released,
    node::EmbeddedNodes,
};

use super::{
    report::{diagnose, report, report_json},
    wait::{Until, wait},
};
use crate::{client::quorum, exit::Failure, locks::ask, output::Output, settings::Settings};

/// The name of the client that holds locks, and the prefix of the keys.
const OWNER: &str = "doctor-check";
/// The name that is locked.
const NAME: &str = "patient";
const TTL: Duration = Duration::from_secs(3);
const NODE_TIMEOUT: Duration = Duration::from_millis(300);
/// Limit for the first votes.
const VOTE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between checks of a lock.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) async fn check(settings: Settings, json: bool) -> Result<ExitCode, Failure> {
    let mut check = Check::new(settings, Output { json })?;
    let begun = Instant::now();
    let ready = wait(&check.doctor, Until::Quorum, VOTE_TIMEOUT).await
        && wait(&check.holder, Until::Quorum, VOTE_TIMEOUT).await;
    check.note(ready, format!("a quorum of nodes votes within {VOTE_TIMEOUT:?}"));
    let diagnosis = diagnose(&check.doctor, true).await;
    check.output.show_text(&format!("\n{}\n", report(&diagnosis)))?;
    check.note(diagnosis.verdict() != Verdict::NoQuorum, "the set grants locks");
    if ready {
        check.judge_holder().await?;
        check.judge_renewal().await?;
    }
    check.judge_end().await;
    check.finish(&diagnosis, begun.elapsed())
}

/// The checks so far, and the clients that they use.
struct Check {
    settings: Settings,
    output: Output,
    /// The nodes without servers in the settings.
    embedded: EmbeddedNodes,
    holder: Redlock,
    doctor: Redlock,
    /// Each promise, and whether it was kept.
    promises: Vec<(bool, String)>,
}

impl Check {
    /// Builds the clients, with a short `max_ttl`, as new servers vote after it, and a prefix without other
    /// locks.
    fn new(mut settings: Settings, output: Output) -> Result<Self, Failure> {
        let (ttl, node_timeout) = (format!("{TTL:?}"), format!("{NODE_TIMEOUT:?}"));
        settings.set("key_prefix", OWNER);
        settings.set("ttl", &*ttl);
        settings.set("max_ttl", &*ttl);
        settings.set("node_timeout", node_timeout);
        let embedded = EmbeddedNodes::new(5);
        let client = |owner: &str| {
            let mut settings = settings.clone();
            settings.set("owner", owner);
            if settings.has_nodes() { settings.build() } else { settings.build_embedded(&embedded) }
        };
        let (holder, doctor) = (client(OWNER)?, client("doctor")?);
        Ok(Self { settings, output, embedded, holder, doctor, promises: Vec::new() })
    }

    fn note(&mut self, is_kept: bool, promise: impl Into<String>) {
        let promise = promise.into();
        // A closed output does not end the checks: they leave no keys.
        let _ = self
            .output
            .show_text(&format!("{} {promise}\n", if is_kept { "ok    " } else { "FAILED" }));
        self.promises.push((is_kept, promise));
    }

    /// Shows a lock without renewal, and breaks it.
    async fn judge_holder(&mut self) -> Result<(), LockError> {
        let free = ask(&self.doctor, NAME).await?;
        self.note(free.is_none(), "a name that was never locked is free");
        let lock = take(&self.holder, false).await?;
        let Some(seen) = ask(&self.doctor, NAME).await? else {
            self.note(false, "a lock that is held is seen");
            return Ok(());
        };
        self.note(seen.is_quorum, "a lock that is held is seen on a quorum of nodes");
        let owner = seen.owner.as_deref();
        self.note(owner == Some(OWNER), format!("its owner is seen: {owner:?}"));
        let token = seen.token;
        self.note(token == lock.fencing_token(), format!("its token is seen: {token}"));
        let left = seen.remaining.unwrap_or_default();
        // The keys outlive the lease by a node timeout and the error of the clock reading.
        let most = TTL + 2 * NODE_TIMEOUT;
        self.note(!left.is_zero() && left <= most, format!("its end is seen: {left:.1?}"));
        let nodes = seen.votes.len();
        self.note(nodes == self.doctor.nodes().len(), format!("each node is asked: {nodes}"));
        let refused = self.doctor.lock(NAME).await;
        let is_held = matches!(&refused, Err(LockError::Held { owner, .. }) if owner.as_deref() == Some(OWNER));
        self.note(is_held, "another client does not get it meanwhile");
        if self.settings.has_nodes() {
            let counts = self.doctor.key_counts().await;
            let has_keys = |count: &&Result<u64, _>| count.as_ref().is_ok_and(|count| *count > 0);
            let keys = counts.iter().filter(has_keys).count();
            self.note(
                keys >= self
                    .doctor
                    .sets()
                    .iter()
                    .map(|set| quorum(set.nodes().len()))
                    .min()
                    .unwrap_or(0),
                format!("its keys are counted on {keys} nodes"),
            );
        }

        let broken = self.doctor.revoke(&seen).await;
        self.note(broken == Ok(Released::Released), format!("it is broken: {broken:?}"));
        // A slow node deletes its key later.
        let free = within(TTL / 3, async || Ok(ask(&self.doctor, NAME).await?.is_none())).await?;
        self.note(free, "it is free then");
        let next = take(&self.doctor, true).await?;
        let next_token = next.fencing_token();
        self.note(next_token > token, format!("the next holder's token is greater: {next_token}"));
        let again = self.doctor.revoke(&seen).await;
        let now = ask(&self.doctor, NAME).await?;
        let is_spared = now.is_some_and(|now| now.token == next_token);
        self.note(
            again == Ok(Released::AlreadyLost) && is_spared,
            "breaking it again does not hit the next holder",
        );
        let lost = lock.release().await;
        let is_lost =
            matches!(lost, Ok(Released::AlreadyLost) | Err(ReleaseError::NoQuorum { .. }));
        self.note(is_lost, format!("the old holder's release reports the loss: {lost:?}"));
        let released = next.release().await;
        self.note(released == Ok(Released::Released), "the next holder releases it");
        Ok(())
    }

    /// Breaks the lock of a live holder, which acquires it again.
    async fn judge_renewal(&mut self) -> Result<(), LockError> {
        let lock = take(&self.holder, true).await?;
        let broken = match ask(&self.doctor, NAME).await? {
            Some(seen) => self.doctor.revoke(&seen).await == Ok(Released::Released),
            None => false,
        };
        let begun = Instant::now();
        let held = async || Ok(ask(&self.doctor, NAME).await?.is_some_and(|now| now.is_quorum));
        let is_back = broken && within(TTL * 2, held).await?;
        let after = begun.elapsed();
        self.note(is_back, format!("the next renewal of a live holder takes it back: {after:.1?}"));
        let released = lock.release().await;
        self.note(released == Ok(Released::Released), "the live holder releases it");
        Ok(())
    }

    async fn judge_end(&mut self) {
        let down = async { tokio::join!(self.holder.shutdown(), self.doctor.shutdown()) };
        let ended = tokio::time::timeout(TTL * 2, down).await.is_ok();
        self.note(ended, "every release is delivered");
        let left: u64 = if self.settings.has_nodes() {
            self.doctor.key_counts().await.into_iter().flatten().sum()
        } else {
            self.embedded.key_counts().iter().map(|count| *count as u64).sum()
        };
        self.note(left == 0, format!("no key is left: {left}"));
    }

    fn finish(self, diagnosis: &Diagnosis, elapsed: Duration) -> Result<ExitCode, Failure> {
        let broken = self.promises.iter().filter(|(is_kept, _)| !is_kept).count();
        let kept = self.promises.len() - broken;
        let promise =
            |(held, promise): &(bool, String)| json!({ "held": held, "promise": promise });
        let promises: Vec<_> = self.promises.iter().map(promise).collect();
        let report = report_json(diagnosis, &self.settings);
        let count = |severity: Severity| {
            diagnosis.advice.iter().filter(|advice| advice.severity == severity).count()
        };
        let (problems, hints) = (count(Severity::Problem), count(Severity::Hint));
        let (nodes, voting) = (diagnosis.nodes.len(), diagnosis.voting());
        self.output.show(
            &json!({ "kept": kept, "broken": broken, "promises": promises, "report": report }),
            &format!(
                "\n{nodes} nodes, {voting} vote; {problems} problems, {hints} hints; {kept} promises kept, \
                 {broken} broken; {elapsed:.1?}\n"
            ),
        )?;
        Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

async fn take(redlock: &Redlock, renewed: bool) -> Result<Lock, LockError> {
    redlock.lock(NAME).wait(TTL * 2).auto_extend(renewed).await
}

/// Returns whether the condition becomes true within this time.
async fn within(
    limit: Duration,
    is_met: impl AsyncFn() -> Result<bool, LockError>,
) -> Result<bool, LockError> {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if is_met().await? {
            return Ok(true);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(false)
}
