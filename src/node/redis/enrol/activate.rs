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
    node_report::leading_number,
    record::{self, Lesson, LessonKind},
    shared_task::{SharedTask, TaskLease, TaskLeaseOutcome},
};
use crate::{
    error::Reason,
    membership::node_status::{ActivationOutcome, ActivationPlan, ActivationStep},
    node::redis::{claim_text, decode::text, scripts, server_error::reason},
    protocol::formulas,
    stripe::STRIPES,
};

/// Number of marks sent or read in one call.
const PAGE: usize = 250;
/// Number of attempts to read a node whose record other clients change at the same time.
const ATTEMPTS: usize = 5;
/// Pause between two reads.
const READ_PAUSE: Duration = Duration::from_millis(5);
/// Pause before the next attempt while another client teaches the node.
const PAUSE: RangeInclusive<Duration> = Duration::from_millis(250)..=Duration::from_millis(750);

/// The state that a node has to learn before it votes.
#[derive(Clone, Debug, Default)]
pub(super) struct LearntState {
    /// The fences by stripe.
    pub(super) fences: BTreeMap<usize, u64>,
    /// The marks of jobs. Each value begins with a number. The greatest number wins; of claims with
    /// one token, the last one.
    pub(super) marks: BTreeMap<String, String>,
    pub(super) floor: u64,
    pub(super) max_ttl: Duration,
    /// The value of `max_ttl` before it was lowered; locks with that TTL may still be held.
    pub(super) longer: Duration,
    /// The layout that the node was moved from, and the view under which it voted there; not
    /// merged.
    pub(super) left: Option<(String, String)>,
}

impl LearntState {
    pub(super) fn merge(&mut self, other: Self) {
        for (stripe, fence) in other.fences {
            let known = self.fences.entry(stripe).or_default();
            *known = fence.max(*known);
        }
        for (name, mark) in other.marks {
            let known = self.marks.entry(name).or_default();
            if order(&mark) > order(known) || known.is_empty() {
                *known = mark;
            }
        }
        self.floor = self.floor.max(other.floor);
        self.max_ttl = self.max_ttl.max(other.max_ttl);
        self.longer = self.longer.max(other.longer);
    }

    /// Returns the longest TTL of any lock that may still be held.
    fn longest(&self) -> Duration {
        self.max_ttl.max(self.longer)
    }

    /// Parses a hash of fences.
    pub(super) fn learn_fences(&mut self, fences: &Value) {
        for (field, value) in pairs(fences) {
            let number = value.parse().unwrap_or(0);
            if let Some(stripe) = stripe_of(&field).filter(|_| number > 0) {
                self.fences.insert(stripe, number);
            }
        }
    }

    /// Parses a meta hash.
    pub(super) fn of_meta(meta: &Value) -> (Option<Tag>, Self) {
        let mut known = Self::default();
        let mut tag = None;
        let mut left = (None, String::new());
        for (field, value) in pairs(meta) {
            let number = value.parse().unwrap_or(0);
            match field.as_str() {
                "tag" => tag = Some(Tag::new(value)),
                "from" => left.0 = Some(value),
                "left" => left.1 = value,
                "floor" => known.floor = number,
                "max_ttl" => known.max_ttl = Duration::from_millis(number),
                // The previous limit in milliseconds, and the client that lowers it.
                "longer" => known.longer = Duration::from_millis(leading_number(&value)),
                _ => {}
            }
        }
        known.left = left.0.map(|from| (from, left.1));
        (tag, known)
    }
}

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
    let max_ttl = known.max_ttl.max(set.settings.max_ttl);
    let longest = known.longest().max(report.longest_ttl()).max(max_ttl);
    if step.waited < longest + formulas::drift(longest, set.settings.drift_factor) {
        return Ok(ActivationOutcome::Longer(longest));
    }
    if !teach(set, step.node, &step.tag, &known.marks).await.map_err(of_node)? {
        return Ok(ActivationOutcome::Done);
    }
    let fences = known.fences.into_iter().collect();
    let mode = kind.name();
    let lesson = Lesson { max_ttl, floor: known.floor, fences, kind };
    let change = record::activation(&report, lesson);
    if set.change(step.node, &change).await.map_err(of_node)? {
        let name = set.members()[step.node].status.name();
        crate::log::info!(node = %name, waited = ?step.waited, %mode, "probation ended");
    }
    // On failure, another client was first, or the node has forgotten again.
    Ok(ActivationOutcome::Done)
}

impl NodeSet {
    /// Reads a node's tag, and its state without the marks.
    pub(super) async fn meta(&self, node: usize) -> Result<(Option<Tag>, LearntState), Reason> {
        let mut found = Arc::from("");
        for _ in 0..ATTEMPTS {
            let mut pipeline = Pipeline::with_capacity(1);
            pipeline.cmd("HGETALL").arg(&self.keys.meta);
            let [meta] = answers(self, node, pipeline).await?;
            let (tag, mut known) = LearntState::of_meta(&meta);
            let stored = tag.clone().unwrap_or_else(|| Tag::new(""));
            let mut pipeline = Pipeline::with_capacity(2);
            pipeline.cmd("HGETALL").arg(self.keys.fences(&stored));
            // The fences are stored under this key while the tag is unchanged.
            pipeline.cmd("HGET").arg(&self.keys.meta).arg("tag");
            let [fences, tag_after] = answers(self, node, pipeline).await?;
            found = text(&tag_after);
            if found != *stored.text() {
                continue;
            }
            known.learn_fences(&fences);
            // A node that lost some of its fences is not a source for the other nodes.
            let votes = stored.is_active() && *stored.layout() == *self.layout.hash;
            if votes && pairs(&fences).count() < STRIPES {
                break;
            }
            return Ok((tag, known));
        }
        Err(Reason::WrongTag { found })
    }
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
        let [page, found] = answers(set, node, pipeline).await?;
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
        if answers(set, node, pipeline).await? != [Value::Int(1)] {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs commands on a node; fails if one of them fails.
async fn answers<const N: usize>(
    set: &NodeSet,
    node: usize,
    pipeline: Pipeline,
) -> Result<[Value; N], Reason> {
    let answers = set.ask(node, pipeline).await?;
    if let Some(Value::ServerError(error)) =
        answers.iter().find(|answer| matches!(answer, Value::ServerError(_)))
    {
        return Err(reason(error));
    }
    answers.try_into().map_err(|_| Reason::Protocol("unexpected number of answers".into()))
}

/// Parses a stripe in its canonical form, as the field goes to another server under this name.
fn stripe_of(field: &str) -> Option<usize> {
    let stripe = field.parse::<usize>().ok()?;
    (stripe < STRIPES && field == stripe.to_string()).then_some(stripe)
}

/// Orders the values of a mark; the greater one wins.
pub(super) fn order(mark: &str) -> (u64, u32) {
    (leading_number(mark), claim_text::read(mark).map_or(0, |claim| claim.number))
}

pub(super) fn pairs(value: &Value) -> impl Iterator<Item = (String, String)> + '_ {
    let (list, map) = match value {
        Value::Array(items) => (&items[..], &[][..]),
        Value::Map(pairs) => (&[][..], &pairs[..]),
        _ => (&[][..], &[][..]),
    };
    let shown = |value: &Value| text(value).to_string();
    list.chunks_exact(2)
        .map(move |pair| (shown(&pair[0]), shown(&pair[1])))
        .chain(map.iter().map(move |(field, value)| (shown(field), shown(value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "0123456789abcdef0123456789abcdef";

    fn of_meta(fields: &[(&str, &str)]) -> (Option<Tag>, LearntState) {
        let text = |text: &str| Value::BulkString(text.into());
        let items = fields.iter().flat_map(|(field, value)| [text(field), text(value)]);
        LearntState::of_meta(&Value::Array(items.collect()))
    }

    fn mark(token: u64, number: u32) -> String {
        format!("{token} 60000 1 60000 0 0 0 0 0 #{number} 0 0 0 owner")
    }

    fn with_marks(marks: &[(&str, String)]) -> LearntState {
        let marks = marks.iter().map(|(name, mark)| ((*name).to_owned(), mark.clone())).collect();
        LearntState { marks, ..LearntState::default() }
    }

    #[test]
    fn meta_hash_is_parsed() {
        let tag = format!("a {RUN} 00112233aabbccdd");
        let (found, known) = of_meta(&[
            ("tag", &tag),
            ("from", "ffeeddccbbaa9988"),
            ("left", "1122334455667788"),
            ("floor", "70"),
            ("max_ttl", "1500"),
            ("longer", "2500 0123456789abcdef"),
        ]);

        assert_eq!(found.unwrap().text().as_ref(), tag);
        assert_eq!(known.left, Some(("ffeeddccbbaa9988".into(), "1122334455667788".into())));
        assert_eq!(known.floor, 70);
        assert_eq!(known.max_ttl, Duration::from_millis(1_500));
        assert_eq!(known.longer, Duration::from_millis(2_500));
        assert_eq!(known.longest(), known.longer);
    }

    #[test]
    fn only_stripes_have_fences() {
        let last = (STRIPES - 1).to_string();
        let next = STRIPES.to_string();
        let fields = [
            ("0", "12"),
            ("1", "0"),
            (&*last, "3"),
            (&*next, "3"),
            ("007", "12"),
            ("+8", "12"),
            ("x", "1"),
        ];
        let text = |text: &str| Value::BulkString(text.into());
        let items = fields.iter().flat_map(|(field, value)| [text(field), text(value)]);
        let mut known = LearntState::default();

        known.learn_fences(&Value::Array(items.collect()));

        assert_eq!(known.fences, BTreeMap::from([(0, 12), (STRIPES - 1, 3)]));
    }

    #[test]
    fn map_replies_are_parsed() {
        let text = |text: &str| Value::SimpleString(text.into());
        let meta = Value::Map(vec![(text("floor"), text("7"))]);
        assert_eq!(LearntState::of_meta(&meta).1.floor, 7);
        assert_eq!(LearntState::of_meta(&Value::Nil).1.floor, 0);
    }

    #[test]
    fn merge_keeps_maxima() {
        let (_, mut low) = of_meta(&[("floor", "3"), ("longer", "4 x")]);
        let (_, mut high) = of_meta(&[("floor", "2"), ("max_ttl", "3")]);
        low.fences.extend([(1, 5), (2, 9)]);
        high.fences.extend([(1, 8), (2, 6)]);

        for (mut one, other) in [(low.clone(), high.clone()), (high, low)] {
            one.merge(other);
            assert_eq!(one.fences, BTreeMap::from([(1, 8), (2, 9)]));
            assert_eq!((one.floor, one.max_ttl.as_millis(), one.longer.as_millis()), (3, 3, 4));
            assert_eq!(one.longest().as_millis(), 4);
        }
    }

    #[test]
    fn merge_keeps_later_claims() {
        let (low, high) = (mark(7, 3), mark(7, 4));
        for (one, other) in [(&low, &high), (&high, &low)] {
            let mut known = with_marks(&[("job", one.clone())]);
            known.merge(with_marks(&[("job", other.clone())]));
            assert_eq!(known.marks["job"], high);
        }
        let mut known = with_marks(&[("job", mark(10, 1))]);

        known.merge(with_marks(&[("job", mark(9, 2)), ("other", "0".into())]));

        assert_eq!((&known.marks["job"], &*known.marks["other"]), (&mark(10, 1), "0"));
    }
}
