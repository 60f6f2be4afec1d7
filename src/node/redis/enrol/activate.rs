//! Ends a probation: the node learns the state of the other nodes, and then votes.
//!
//! # Why reading in pages is safe
//!
//! No call may block a server for long. So up to 20,000 claims are read by HSCAN and sent to the
//! node in pages, and each field is read at its own time between the end of the wait and the
//! activation. The node must not fall behind any value that it confirmed by a vote and then forgot.
//!
//! The request of such a vote was sent before the node forgot it. No node accepts it after its
//! deadline, which is less than one `max_ttl` later. So after the wait, the value is stored on the
//! other nodes of its quorum, at least q−1. A claim's number only grows, so every later read of
//! these nodes returns this number or a greater one. Any N−q+1 of the N−1 other nodes include at
//! least one of them.
//!
//! HSCAN returns each field that exists during the whole scan, so it can only miss a field that is
//! written between its read and the activation. The quorum of such a write does not include this
//! node, and every later quorum shares a node with it that did not forget. The same argument covers
//! fences, which are few and read in one call.
//!
//! Two conditions apply. A source must not forget between two pages, so its tag is read after each
//! page. And a promise may have been read before the claim that came with it, so the node also
//! takes the claim's number as a promise.

use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};

use super::{
    NodeSet, Tag,
    learnt_state::{LearntState, pairs},
    record::{self, LessonKind},
    shared_task::{SharedTask, TaskLease, TaskLeaseOutcome},
};
use crate::{
    error::Reason,
    membership::node_status::{ActivationOutcome, ActivationPlan, ActivationStep},
    node::redis::{scripts, values::text},
    protocol::formulas,
};

/// Number of marks sent or read in one call.
const PAGE: usize = 250;
/// Pause between two reads.
const READ_PAUSE: Duration = Duration::from_millis(5);
/// Pause before the next attempt while another client teaches the node.
const PAUSE: RangeInclusive<Duration> = Duration::from_millis(250)..=Duration::from_millis(750);

/// Carries out a step: teaches the node, and ends its probation.
pub(super) async fn activate(set: &NodeSet, step: ActivationStep) -> ActivationOutcome {
    let activated = step.node;
    match try_to_activate(set, step).await {
        Ok(outcome) => outcome,
        Err((node, reason)) => {
            let asked = Arc::clone(set.members()[node].status.name());
            set.members()[activated].status.not_activated(&asked, reason);
            ActivationOutcome::Failed
        }
    }
}

/// Lets one client at a time teach the node. The other clients wait for the result, or take over if
/// that client dies.
async fn try_to_activate(
    set: &NodeSet,
    step: ActivationStep,
) -> Result<ActivationOutcome, (usize, Reason)> {
    let later = ActivationOutcome::Later(crate::random::within(&PAUSE));
    if !set.may_activate() {
        return Ok(later);
    }
    let lease = TaskLease::new(SharedTask::Learn, step.node, Arc::clone(&step.tag));
    match lease.acquire(set).await.map_err(|reason| (step.node, reason))? {
        TaskLeaseOutcome::Ours => {}
        TaskLeaseOutcome::HeldByAnother(_) => return Ok(later),
        // The node has changed; the next health check shows how.
        TaskLeaseOutcome::Over => return Ok(ActivationOutcome::Failed),
    }
    let ended = lease.hold(set, learn_and_activate(set, step)).await.unwrap_or(Ok(later));
    if !matches!(ended, Ok(ActivationOutcome::Done)) {
        lease.release(set).await;
    }
    ended
}

async fn learn_and_activate(
    set: &NodeSet,
    step: ActivationStep,
) -> Result<ActivationOutcome, (usize, Reason)> {
    let (from, needed, kind) = match step.plan {
        ActivationPlan::Learn { from, needed } => (from, needed, LessonKind::Learnt),
        // If nodes forgot at the same time, each may have kept a value that the others lost.
        ActivationPlan::Bootstrap { from } => {
            let has_sources = !from.is_empty();
            (from, 0, LessonKind::Bootstrapped { has_sources })
        }
        ActivationPlan::New => (Vec::new(), 0, LessonKind::New),
    };
    let asked = from.iter().map(|&other| async move { (other, read(set, other).await) });
    let mut known = LearntState::default();
    let mut learnt = 0;
    let mut failed = None;
    for (other, result) in futures_util::future::join_all(asked).await {
        match result {
            Ok((tag, told)) => {
                learnt += usize::from(tag.is_some_and(|tag| set.votes_with(other, &tag)));
                known.merge(told);
            }
            Err(reason) => failed = Some((other, reason)),
        }
    }
    // With too few nodes to learn from, any reachable node may have marks or a longer TTL.
    if learnt < needed || (needed == 0 && failed.is_some()) {
        let unknown = (step.node, Reason::Unknown);
        return Err(failed.unwrap_or(unknown));
    }
    let of_node = |reason| (step.node, reason);
    let report = set.read(step.node).await.map_err(of_node)?;
    if *report.tag.text() != step.tag || *report.run != *report.tag.run() {
        // The next health check shows how the node has changed.
        return Ok(ActivationOutcome::Done);
    }
    known.max_ttl = known.max_ttl.max(set.settings.max_ttl);
    let longest = known.longest().max(report.longest_ttl());
    if kind == LessonKind::New {
        if !report.never_voted() {
            // The next health check shows it.
            return Ok(ActivationOutcome::Failed);
        }
    } else if step.waited < longest + formulas::drift(longest, set.settings.drift_factor) {
        return Ok(ActivationOutcome::Longer(longest));
    }
    if !teach(set, step.node, &step.tag, &known.marks).await.map_err(of_node)? {
        return Ok(ActivationOutcome::Done);
    }
    let mode = kind.name();
    let change = record::activation(&report, known, kind);
    if set.change(step.node, &change).await.map_err(of_node)? {
        let name = set.members()[step.node].status.name();
        crate::log::info!(node = %name, waited = ?step.waited, %mode, "probation ended");
    }
    // On failure, another client was first, or the node has forgotten again.
    Ok(ActivationOutcome::Done)
}

/// Reads a node's state, and its tag if that did not change meanwhile. Fences are read in one call,
/// marks in pages: see the module's docs.
async fn read(set: &NodeSet, node: usize) -> Result<(Option<Tag>, LearntState), Reason> {
    let (mut tag, mut known) = set.meta(node).await?;
    let wrong = |tag: Option<Tag>| Reason::WrongTag {
        found: tag.map(|tag| Arc::clone(tag.text())).unwrap_or_default(),
    };
    let Some(begun) = tag.clone().filter(|tag| tag.layout() == &*set.layout.hash) else {
        return Err(wrong(tag));
    };
    let mut cursor: Arc<str> = "0".into();
    loop {
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("HSCAN").arg(&set.keys.marks).arg(&*cursor).arg("COUNT").arg(PAGE);
        // The tag is read after the marks, so the node had not forgotten by then.
        pipeline.cmd("HGET").arg(&set.keys.meta).arg("tag");
        let [page, found] = set.ask_all(node, pipeline).await?;
        let found = Tag::new(text(&found));
        if found.enrolment() != begun.enrolment() {
            return Err(wrong(Some(found)));
        }
        // A node whose list of owners changed keeps its state but does not count.
        tag = tag.filter(|tag| *tag == found);
        let Value::Array(page) = page else {
            return Err(Reason::Protocol("HSCAN did not answer with a list".into()));
        };
        known.marks.extend(page.get(1).into_iter().flat_map(pairs));
        cursor = page.first().map(text).unwrap_or_default();
        if matches!(&*cursor, "0" | "") {
            return Ok((tag, known));
        }
        tokio::time::sleep(READ_PAUSE).await;
    }
}

/// Stores marks on a node in probation; returns false if its probation has changed.
async fn teach(
    set: &NodeSet,
    node: usize,
    tag: &str,
    marks: &BTreeMap<String, String>,
) -> Result<bool, Reason> {
    let marks: Vec<_> = marks.iter().collect();
    for page in marks.chunks(PAGE) {
        let mut pipeline = Pipeline::with_capacity(1);
        let cmd = pipeline
            .cmd("EVAL")
            .arg(scripts::LEARN_MARKS.text(set.traits(node).knows_flags))
            .arg(2);
        cmd.arg(&set.keys.meta).arg(&set.keys.marks).arg(tag);
        for (name, mark) in page {
            cmd.arg(name).arg(mark);
        }
        if set.ask_all(node, pipeline).await? != [Value::Int(1)] {
            return Ok(false);
        }
    }
    Ok(true)
}
