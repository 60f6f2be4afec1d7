//! What `doctor --check` checks.

use std::{
    io::{IsTerminal, stdin},
    time::{Duration, Instant},
};

use serde_json::Value;
use tower_redlock::{
    Lock, LockError, Redlock,
    diagnosis::{Diagnosis, Verdict},
    error::ReleaseError,
    lock::Released,
    node::EmbeddedNodes,
};

use super::{check::OWNER, json};
use crate::{
    locks::ask,
    output::{confirm, print},
    settings::Settings,
    settle::quorum,
};

const NAME: &str = "patient";
const TTL: Duration = Duration::from_secs(3);
pub(super) const NODE_TIMEOUT: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(20);

/// The checks and whether they hold.
pub(super) struct Checks {
    pub(super) promises: Vec<(bool, String)>,
    quiet: bool,
}

impl Checks {
    pub(super) fn new(quiet: bool) -> Self {
        Self { promises: Vec::new(), quiet }
    }

    pub(super) fn note(&mut self, held: bool, promise: impl Into<String>) {
        let promise = promise.into();
        if !self.quiet {
            // Where the output is closed, the checks end as they would, and leave no keys.
            let _ = print(&format!("{} {promise}\n", if held { "ok    " } else { "FAILED" }));
        }
        self.promises.push((held, promise));
    }

    pub(super) fn broken(&self) -> usize {
        self.promises.iter().filter(|(held, _)| !held).count()
    }
}

/// Checks that the report is consistent.
pub(super) fn judge_report(checks: &mut Checks, diagnosis: &Diagnosis, settings: &Settings) {
    let (verdict, advice) = (diagnosis.verdict(), &diagnosis.advice);
    checks.note(verdict != Verdict::NoQuorum, "the set grants locks");
    let silent = diagnosis.nodes.iter().filter(|node| !node.votes);
    let told = |name: &str| advice.iter().any(|advice| advice.node.as_deref() == Some(name));
    let untold = silent.filter(|node| !told(&node.health.name)).count();
    checks.note(untold == 0, format!("every node without a vote is explained: {untold} are not"));
    let todo = advice.iter().filter(|advice| advice.todo.is_empty()).count();
    checks.note(todo == 0, format!("every finding says what to do: {todo} don't"));
    let text = json::report(diagnosis, settings).to_string();
    let parsed: Option<Value> = serde_json::from_str(&text).ok();
    let same = parsed.as_ref().is_some_and(|json| {
        json["verdict"] == verdict.to_string()
            && json["nodes"].as_array().is_some_and(|nodes| nodes.len() == diagnosis.nodes.len())
            && json["findings"].as_array().is_some_and(|all| all.len() == advice.len())
    });
    checks.note(same, "the JSON says the same");
}

/// Shows a lock without renewal, and breaks it.
pub(super) async fn judge_holder(
    checks: &mut Checks,
    holder: &Redlock,
    doctor: &Redlock,
    settings: &Settings,
) -> Result<(), LockError> {
    let free = ask(doctor, NAME).await?;
    checks.note(free.is_none(), "a name that nobody asked for is free");
    let lock = take(holder, false).await?;
    let Some(seen) = ask(doctor, NAME).await? else {
        checks.note(false, "a lock that is held is seen");
        return Ok(());
    };
    checks.note(seen.is_quorum, "a lock that is held is seen on a quorum of nodes");
    checks
        .note(seen.owner.as_deref() == Some(OWNER), format!("its owner is told: {:?}", seen.owner));
    checks.note(seen.token == lock.fencing_token(), format!("its token is told: {}", seen.token));
    let left = seen.remaining.unwrap_or_default();
    // The keys live a node timeout longer than the lease, and for the error of the clock's reading.
    let most = TTL + 2 * NODE_TIMEOUT;
    checks.note(!left.is_zero() && left <= most, format!("its end is told: {left:.1?}"));
    let nodes = seen.votes.len();
    checks.note(nodes == doctor.nodes().len(), format!("node by node: {nodes}"));
    let turned_away = doctor.lock(NAME).await;
    let held = matches!(&turned_away, Err(LockError::Held { owner, .. }) if owner.as_deref() == Some(OWNER));
    checks.note(held, "nobody else gets it meanwhile");
    if settings.has_nodes() {
        let counts = doctor.key_counts().await;
        let with_keys = counts.iter().filter(|count| count.as_ref().is_ok_and(|n| *n > 0)).count();
        let enough = with_keys >= quorum(counts.len());
        checks.note(enough, format!("its keys are counted on {with_keys} nodes"));
    }
    let refused = confirm("", false);
    if !stdin().is_terminal() {
        checks.note(refused.await.is_err(), "nothing is broken without a confirmation");
    }

    let broken = doctor.revoke(&seen).await;
    checks.note(broken == Ok(Released::Released), format!("it is broken: {broken:?}"));
    let free = gone(doctor).await?;
    checks.note(free, "it is free then");
    let next = take(doctor, true).await?;
    checks.note(
        next.fencing_token() > seen.token,
        format!("the next holder's token is greater: {}", next.fencing_token()),
    );
    let again = doctor.revoke(&seen).await;
    let spared = again == Ok(Released::AlreadyLost)
        && ask(doctor, NAME).await?.is_some_and(|now| now.token == next.fencing_token());
    checks.note(spared, "breaking it again does not hit the next holder");
    let told = lock.release().await;
    let lost = matches!(told, Ok(Released::AlreadyLost) | Err(ReleaseError::NoQuorum { .. }));
    checks.note(lost, format!("the old holder is told that it was lost: {told:?}"));
    let released = next.release().await;
    checks.note(released == Ok(Released::Released), "the next holder gives it back");
    Ok(())
}

/// Breaks the lock of a live holder, which takes it back.
pub(super) async fn judge_living(
    checks: &mut Checks,
    holder: &Redlock,
    doctor: &Redlock,
) -> Result<(), LockError> {
    let lock = take(holder, true).await?;
    let mut broken = false;
    if let Some(seen) = ask(doctor, NAME).await? {
        broken = doctor.revoke(&seen).await == Ok(Released::Released);
    }
    let begun = Instant::now();
    let mut back = false;
    while broken && !back && begun.elapsed() < TTL * 2 {
        back = ask(doctor, NAME).await?.is_some_and(|now| now.is_quorum);
        tokio::time::sleep(LOOK).await;
    }
    let after = begun.elapsed();
    checks.note(
        back,
        format!("a holder that is alive takes it back with its next renewal: {after:.1?}"),
    );
    let released = lock.release().await;
    checks.note(released == Ok(Released::Released), "and gives it back");
    Ok(())
}

pub(super) async fn judge_end(
    checks: &mut Checks,
    holder: &Redlock,
    doctor: &Redlock,
    embedded: &EmbeddedNodes,
    settings: &Settings,
) {
    let down = async { tokio::join!(holder.shutdown(), doctor.shutdown()) };
    let ended = tokio::time::timeout(TTL * 2, down).await.is_ok();
    checks.note(ended, "every release is delivered");
    let left: u64 = if settings.has_nodes() {
        doctor.key_counts().await.into_iter().flatten().sum()
    } else {
        embedded.key_counts().iter().map(|count| *count as u64).sum()
    };
    checks.note(left == 0, format!("no key is left: {left}"));
}

async fn take(redlock: &Redlock, renewed: bool) -> Result<Lock, LockError> {
    redlock.lock(NAME).wait(TTL * 2).auto_extend(renewed).await
}

/// Waits a moment until the name is free: a slow node deletes its key later.
async fn gone(redlock: &Redlock) -> Result<bool, LockError> {
    let begun = Instant::now();
    while begun.elapsed() < TTL / 3 {
        if ask(redlock, NAME).await?.is_none() {
            return Ok(true);
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(false)
}
