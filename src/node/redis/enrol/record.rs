//! What a client has to change in what a node stores of its membership.
//!
//! Every change is made in the same way: a client reads the record, decides here what it has to
//! become, and stores that with a script that compares what was read. If another client was faster,
//! nothing is stored, and the next health check reads the record again.

use std::time::Duration;

use ::redis::Pipeline;

use super::{
    Layout, NodeReport, Tag,
    activate::LearntState,
    node_report::{BOOTSTRAPPED, LEARNT, millis},
};
use crate::{
    error::Reason,
    membership::other_sets::ForeignSet,
    node::{
        Memory,
        redis::{RestartGuard, encode::Keys},
    },
    protocol::views::Incarnation,
    stripe::{STRIPES, fnv},
    switches::{self, Switch},
    token::TOKEN_LEAD,
};

/// A change of a node's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The tag that was read, and the one that is stored: the fences have a key by it.
    before: Tag,
    pub(crate) after: Tag,
    /// The fields that must have these values still; an empty one is missing.
    pub(super) expected: Vec<(&'static str, String)>,
    pub(super) fields: Vec<(String, String)>,
    /// The node is enrolled: all stripes have to be there, with fences that are at least this.
    pub(super) least_fence: Option<u64>,
    /// Fences by stripe, which are stored where they are greater.
    pub(super) fences: Vec<(usize, u64)>,
    pub(crate) kind: ChangeKind,
}

/// What depends on a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// The node's vote.
    Vote,
    /// That its votes count together with those of the others.
    Owners,
    /// Nothing at once: the node is as useful without.
    Mark,
    /// The node leaves an unused set of this many nodes, or starts after that.
    Takeover(usize),
    Start,
}

/// What an enrolment depends on, besides the record.
#[derive(Clone, Debug)]
pub(crate) struct EnrolTerms<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) restart: RestartGuard,
    pub(crate) max_ttl: Duration,
    /// Whether the node's `max_ttl` may be raised while it votes.
    pub(crate) may_raise: bool,
    /// The least epoch of a new enrolment; `None` if the node must not be enrolled.
    pub(crate) least_epoch: Option<u32>,
    /// The incarnation that is to be enrolled anew, as another one owns its name.
    pub(crate) reclaims: Option<Incarnation>,
    /// Whether the node lacks an owner of another name, as last seen.
    pub(crate) lacks_owners: bool,
    /// The names of the other nodes, sorted, and the known owners of these.
    pub(crate) others: Vec<&'a str>,
    pub(crate) owners: Vec<Option<Incarnation>>,
    /// The set that the node belongs to, if that is to be taken over.
    pub(crate) unused: Option<ForeignSet>,
    /// Whether a moved node may start its probation.
    pub(crate) may_start: bool,
    /// The tag that the node had before.
    pub(crate) latest_tag: Tag,
    pub(crate) nonce: u64,
}

/// The state in a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagState {
    Active,
    Probation,
    /// In probation, and moved from a set that may still grant.
    Moved,
}

impl TagState {
    fn of(tag: &Tag) -> Self {
        if tag.is_active() {
            Self::Active
        } else if tag.is_moved() {
            Self::Moved
        } else {
            Self::Probation
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::Active => 'a',
            Self::Probation => 'p',
            Self::Moved => 'm',
        }
    }
}

/// Returns the tag of an incarnation that knows these owners of the other names.
pub(super) fn new_tag(
    state: TagState,
    layout: &str,
    own: Incarnation,
    owners: &[Option<Incarnation>],
    max_ttl: Duration,
) -> Tag {
    // No two names have the same owner: with the same owners, the views are the same.
    let mut view: Vec<_> = owners.iter().flatten().chain([&own]).collect();
    view.sort_unstable();
    let view = view.into_iter().fold(layout.to_owned(), |text, owner| format!("{text},{owner}"));
    let Incarnation { epoch, id, nonce } = own;
    let (state, view, ttl) = (state.letter(), fnv(&view), millis(max_ttl));
    Tag::new(format!("{state} {id:032x} {layout} {nonce:016x} {epoch:08x} {view:016x}-{ttl}"))
}

/// Returns the tag of a node that stays in its state, but knows these owners and keeps this limit.
fn same_tag(report: &NodeReport, owners: &[Option<Incarnation>], max_ttl: Duration) -> Tag {
    let tag = &report.tag;
    match tag.incarnation().filter(|_| tag.is_complete()) {
        Some(own) => new_tag(TagState::of(tag), tag.layout(), own, owners, max_ttl),
        None => tag.clone(),
    }
}

impl Change {
    /// A change of a record with this tag.
    pub(super) fn of_tag(tag: &Tag) -> Self {
        Self {
            before: tag.clone(),
            after: tag.clone(),
            expected: vec![("tag", tag.text().to_string())],
            fields: Vec::new(),
            least_fence: None,
            fences: Vec::new(),
            kind: ChangeKind::Vote,
        }
    }

    /// The same, if `max_ttl` and what it was before are still as they were read, too.
    fn of_limits(report: &NodeReport) -> Self {
        let mut change = Self::of_tag(&report.tag);
        change.expected.push(("max_ttl", report.raw_max_ttl()));
        change.expected.push(("longer", report.longer.to_string()));
        change
    }

    /// Has what `max_ttl` was before forgotten, if it is still this. The tag stays.
    pub(super) fn clearing(longer: &str) -> Self {
        let mut change = Self::of_tag(&Tag::new(""));
        change.expected = vec![("longer", longer.to_owned())];
        change.set("longer", "");
        change
    }

    pub(super) fn set(&mut self, field: impl Into<String>, value: &(impl ToString + ?Sized)) {
        self.fields.push((field.into(), value.to_string()));
    }

    /// Where only the record of a node was lost, its fences are under the tag that it had before.
    pub(super) fn may_have_had(&mut self, latest: &Tag) {
        if self.before.text().is_empty() {
            self.before = latest.clone();
        }
    }

    fn set_tag(&mut self, tag: Tag) {
        if tag != self.after {
            self.set("tag", tag.text());
            self.after = tag;
        }
    }

    /// Adds the keys and arguments of `change.lua`.
    pub(crate) fn add_to(&self, call: &mut Pipeline, keys: &Keys) {
        call.arg(3).arg(&keys.meta).arg(keys.fences(&self.before)).arg(keys.fences(&self.after));
        call.arg(self.expected.len());
        for (field, value) in &self.expected {
            call.arg(*field).arg(value);
        }
        call.arg(self.fields.len());
        for (field, value) in &self.fields {
            call.arg(field).arg(value);
        }
        call.arg(if self.least_fence.is_some() { STRIPES } else { 0 });
        call.arg(self.least_fence.unwrap_or(0));
        for (stripe, fence) in &self.fences {
            call.arg(*stripe).arg(*fence);
        }
    }
}

/// Returns what has to change next, so that a node is enrolled in the set of these terms and knows what
/// the client knows; or why it can't be enrolled at present.
///
/// A node is enrolled if it is new, or another run of its server, or displaced, or lost its fences.
pub(crate) fn next_change(
    report: &NodeReport,
    terms: &EnrolTerms<'_>,
) -> Result<Option<Change>, Reason> {
    if let Some(change) = takeover(report, terms) {
        return Ok(Some(change));
    }
    let Some(least_epoch) = terms.least_epoch else { return Ok(None) };
    let tag = &report.tag;
    let is_blank = tag.text().is_empty();
    let is_ours = !is_blank && tag.layout() == &*terms.layout.hash;
    let is_current = is_ours && tag.run() == &*report.run;
    let is_guarded = terms.restart == RestartGuard::Probation;
    let is_reclaimed =
        is_current && terms.reclaims.is_some() && tag.incarnation() == terms.reclaims;
    // Its fences were deleted, or its tag is of another form.
    let has_lost = is_current && (report.lacks_fences || is_guarded != tag.is_complete());
    // A blank one is of no use when it is full.
    if is_blank && report.memory.as_ref().is_some_and(Memory::is_full) {
        return Err(Reason::OutOfMemory);
    }
    let is_new = is_blank || (is_ours && !is_current) || is_reclaimed || has_lost;
    let may_raise = is_new || (is_ours && (!tag.is_active() || terms.may_raise));
    let raises = may_raise && report.max_ttl < terms.max_ttl;
    let max_ttl = if raises { terms.max_ttl } else { report.max_ttl };
    let mut owners = report.owners.clone();
    owners.resize(terms.others.len(), None);
    let mut news = Vec::new();
    if is_new || (is_current && terms.lacks_owners) {
        for ((known, owner), name) in owners.iter_mut().zip(&terms.owners).zip(&terms.others) {
            if let Some(text) = owner.filter(|owner| *known < Some(*owner)) {
                *known = *owner;
                news.push((format!("owner:{name}"), text.to_string()));
            }
        }
    }
    let (kind, mut change) = match () {
        () if is_new || raises => (ChangeKind::Vote, Change::of_limits(report)),
        () if !news.is_empty() => (ChangeKind::Owners, Change::of_limits(report)),
        () => (ChangeKind::Mark, Change::of_tag(tag)),
    };
    change.kind = kind;
    change.may_have_had(&terms.latest_tag);
    if is_new {
        let state = match () {
            () if tag.is_moved() => TagState::Moved,
            () if switches::is_out(Switch::Probation) => TagState::Active,
            () => TagState::Probation,
        };
        let tag = if is_guarded {
            let own = next_incarnation(report, least_epoch, terms.nonce);
            new_tag(state, &terms.layout.hash, own, &owners, max_ttl)
        } else {
            Tag::new(format!("a {} {}", report.run, terms.layout.hash))
        };
        change.set_tag(tag);
        change.set("layout", &terms.layout.description);
        change.least_fence = Some(0);
    } else if kind != ChangeKind::Mark {
        change.set_tag(same_tag(report, &owners, max_ttl));
    }
    change.fields.extend(news);
    if raises {
        change.set("max_ttl", &millis(max_ttl));
    }
    // The set is in use: see other_sets.rs.
    let (now, seen) = (report.server_micros, report.seen.parse::<u64>().unwrap_or(0));
    let quarter = u64::try_from(report.max_ttl.as_micros() / 4).unwrap_or(u64::MAX);
    if (is_new || is_ours) && (now < seen || now - seen > quarter) {
        change.set("seen", &now);
        change.set("size", &(terms.others.len() + 1));
    }
    Ok((!change.fields.is_empty()).then_some(change))
}

/// Returns how a node of an unused set is moved to this one, if no client of that set has checked it
/// meanwhile; or how it starts, once enough nodes of that set were moved.
fn takeover(report: &NodeReport, terms: &EnrolTerms<'_>) -> Option<Change> {
    let known = LearntState::default();
    let entering = |state| Entering {
        layout: terms.layout,
        others: terms.others.clone(),
        max_ttl: terms.max_ttl,
        known: &known,
        state,
    };
    if let Some(unused) = terms.unused.as_ref().filter(|unused| **unused == report.other_set()) {
        let mut change = moving(report, unused.size, &entering(TagState::Moved));
        change.expected.push(("seen", report.seen.to_string()));
        change.kind = ChangeKind::Takeover(unused.size);
        Some(change)
    } else if terms.may_start && report.tag.is_moved() && report.tag.layout() == &*terms.layout.hash
    {
        let mut change = moving(report, 0, &entering(TagState::Probation));
        change.kind = ChangeKind::Start;
        Some(change)
    } else {
        None
    }
}

/// At least the time in seconds: a client that has not seen the former owner of the name still enrols
/// its successor above it.
fn next_incarnation(report: &NodeReport, least_epoch: u32, nonce: u64) -> Incarnation {
    let seconds = u32::try_from(report.server_micros / 1_000_000).unwrap_or(u32::MAX);
    let before = report.tag.incarnation().map_or(1, |before| before.epoch.saturating_add(1));
    let epoch = least_epoch.max(before).max(seconds.min(4_000_000_000));
    Incarnation { epoch, id: report.run_number(), nonce }
}

/// Where a node moves, and what it takes along.
#[derive(Clone, Debug)]
pub(super) struct Entering<'a> {
    pub(super) layout: &'a Layout,
    /// The names of the other nodes there, sorted.
    pub(super) others: Vec<&'a str>,
    pub(super) max_ttl: Duration,
    pub(super) known: &'a LearntState,
    pub(super) state: TagState,
}

/// Returns how a node moves from one layout to another: it stops voting at once, and starts a
/// probation.
///
/// The owners of names begin anew: a name need not mean in one set what it means in another. How the
/// node left the other layout is kept (`left`): its view if it voted, or nothing.
///
/// `size`: the number of nodes of the other set, if clients may start the moved node once enough were
/// moved; zero if only the command may.
pub(super) fn moving(report: &NodeReport, size: usize, entering: &Entering<'_>) -> Change {
    let mut change = Change::of_limits(report);
    let layout = report.tag.layout();
    if !layout.is_empty() && layout != &*entering.layout.hash {
        change.set("from", layout);
        change.set("from_size", &size);
        let voted = report.tag.is_active() && report.tag.run() == &*report.run;
        change.set("left", &if voted { report.tag.view() } else { "" });
    }
    for name in &entering.others {
        change.set(format!("owner:{name}"), "");
    }
    let own = Incarnation {
        epoch: report.tag.incarnation().map_or(1, |before| before.epoch.saturating_add(1)),
        id: report.run_number(),
        nonce: crate::random::number(),
    };
    let none = vec![None; entering.others.len()];
    let max_ttl = report.longest_ttl().max(entering.max_ttl);
    change.set_tag(new_tag(entering.state, &entering.layout.hash, own, &none, max_ttl));
    change.set("layout", &entering.layout.description);
    change.set("seen", &0);
    change.set("max_ttl", &millis(max_ttl));
    change.set("floor", &report.floor.max(entering.known.floor));
    change.least_fence = Some(0);
    change.fences = entering.known.fences.iter().map(|(stripe, fence)| (*stripe, *fence)).collect();
    change
}

/// What an activated node takes from others.
#[derive(Clone, Debug)]
pub(super) struct Lesson {
    pub(super) max_ttl: Duration,
    pub(super) floor: u64,
    pub(super) fences: Vec<(usize, u64)>,
    pub(super) kind: LessonKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LessonKind {
    Learnt,
    /// There were too few others that vote. Whether there was any at all.
    Bootstrapped {
        has_sources: bool,
    },
}

impl LessonKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Learnt => "learn",
            Self::Bootstrapped { .. } => "bootstrap",
        }
    }
}

/// Returns how the probation ends of a node whose record was read after the wait.
pub(super) fn activation(report: &NodeReport, lesson: Lesson) -> Change {
    // Another client may have raised the limit meanwhile, and waits for longer.
    let mut change = Change::of_limits(report);
    let mut floor = report.floor.max(lesson.floor);
    let copies = match lesson.kind {
        LessonKind::Learnt => LEARNT,
        // No node takes a token further ahead of its clock, so none that was ever granted is above
        // this.
        LessonKind::Bootstrapped { has_sources } => {
            if !switches::is_out(Switch::Floor) {
                floor = floor.max(report.server_micros.saturating_add(TOKEN_LEAD));
            }
            if has_sources { BOOTSTRAPPED } else { "" }
        }
    };
    let max_ttl = report.max_ttl.max(lesson.max_ttl);
    if let Some(own) = report.tag.incarnation() {
        let layout = report.tag.layout();
        change.set_tag(new_tag(TagState::Active, layout, own, &report.owners, max_ttl));
    }
    change.set("max_ttl", &millis(max_ttl));
    change.set("floor", &floor);
    change.set("learner", "");
    let once =
        if copies.is_empty() { String::new() } else { format!("{copies}{}", report.tag.mark()) };
    change.set("once", &once);
    change.least_fence = Some(floor);
    change.fences = lesson.fences;
    change
}

/// Returns how a node takes a shorter `max_ttl`, and keeps the former one beside it.
pub(super) fn lowering(report: &NodeReport, max_ttl: Duration, longer: &str) -> Change {
    let mut change = Change::of_limits(report);
    let max_ttl = report.max_ttl.min(max_ttl);
    change.set_tag(same_tag(report, &report.owners, max_ttl));
    change.set("max_ttl", &millis(max_ttl));
    change.set("longer", longer);
    change
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            NodeSet,
            tests::{Scripted, report},
        },
        *,
    };

    fn incarnation(run: u128) -> Incarnation {
        Incarnation { epoch: 1, id: run, nonce: 7 }
    }

    fn field<'a>(change: &'a Change, name: &str) -> Option<&'a str> {
        change.fields.iter().find(|(field, _)| field == name).map(|(_, value)| &**value)
    }

    fn next(set: &NodeSet, report: &NodeReport, lacks_owners: bool) -> Option<Change> {
        let mut terms = set.terms(1, false);
        (terms.lacks_owners, terms.owners) = (lacks_owners, vec![None, Some(incarnation(3))]);
        next_change(report, &terms).unwrap()
    }

    /// A report whose mark is fresh.
    fn marked(report: NodeReport) -> NodeReport {
        NodeReport { seen: "5".into(), server_micros: 5, ..report }
    }

    #[test]
    fn owners_are_told_by_maximum() {
        let set = Scripted::new("p").set;
        let member = marked(report(&set, 'a', 2, 1));
        let change = next(&set, &member, true).unwrap();
        assert_eq!(change.kind, ChangeKind::Owners);
        assert_eq!(field(&change, "owner:c:1/0"), Some(&*incarnation(3).to_string()));
        assert_eq!(field(&change, "owner:a:1/0"), None, "it is not known");
        let (before, after) = (member.tag.text(), change.after.text());
        assert!(before != after && before[..77] == after[..77], "{after}");
        // It knows a later one.
        let later = Incarnation { epoch: 2, ..incarnation(4) };
        let knows = NodeReport { owners: vec![None, Some(later)], ..member.clone() };
        assert_eq!(next(&set, &knows, true), None);
        assert_eq!(next(&set, &member, false), None, "displaced, or one server under two names");
        // A new one takes them along.
        let blank = marked(NodeReport { tag: Tag::new(""), ..member });
        let change = next(&set, &blank, false).unwrap();
        assert_eq!(change.kind, ChangeKind::Vote);
        assert!(change.after.is_probation() && field(&change, "owner:c:1/0").is_some());
    }

    #[test]
    fn unused_nodes_leave_as_seen() {
        let set = Scripted::new("p").set;
        let ours = report(&set, 'a', 2, 4);
        let tag = Tag::new(ours.tag.text().replace(&*set.layout.hash, "fedcba9876543210"));
        let member = NodeReport { tag, seen: "77".into(), size: 5, ..ours };
        let mut terms = set.terms(1, false);
        assert!(next_change(&member, &terms).unwrap().is_none(), "its set may be in use");
        terms.unused = Some(member.other_set());
        let change = next_change(&member, &terms).unwrap().unwrap();
        assert_eq!(change.kind, ChangeKind::Takeover(5));
        assert!(change.expected.contains(&("seen", "77".into())));
        assert!(change.after.is_moved() && change.after.layout() == &*set.layout.hash);
        assert_eq!(change.after.incarnation().unwrap().epoch, 5);
        assert_eq!(
            ["from", "from_size", "seen"].map(|name| field(&change, name)),
            [Some("fedcba9876543210"), Some("5"), Some("0")]
        );
        // A client changed the mark.
        let used = NodeReport { seen: "78".into(), ..member };
        assert!(next_change(&used, &terms).unwrap().is_none());
    }

    #[test]
    fn moved_nodes_start_in_probation() {
        let set = Scripted::new("p").set;
        let moved = marked(report(&set, 'm', 2, 1));
        let mut terms = set.terms(1, false);
        assert_eq!(next_change(&moved, &terms).unwrap(), None);
        terms.may_start = true;
        let change = next_change(&moved, &terms).unwrap().unwrap();
        assert_eq!(change.kind, ChangeKind::Start);
        assert!(change.after.is_probation() && !change.after.is_moved());
        let started = marked(report(&set, 'p', 2, 2));
        assert_eq!(next_change(&started, &terms).unwrap(), None);
    }
}
