//! Changes of the membership that a node stores.
//!
//! Every change is made in the same way: a client reads the record, decides on the new values, and
//! stores them with a script that compares the record with the values that were read. If another
//! client was faster, nothing is stored, and the next health check reads the record again.

use std::{collections::BTreeMap, time::Duration};

use ::redis::Pipeline;

use super::{
    Layout, NodeReport, Tag,
    learnt_state::LearntState,
    node_report::{BOOTSTRAPPED, LEARNT, millis},
};
use crate::{
    hash::fnv,
    node::redis::{encode::Keys, scripts},
    protocol::views::Incarnation,
    stripe::STRIPES,
    switches::{self, Switch},
    token::TOKEN_LEAD,
};

/// A change of a node's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The tags before and after the change, which the keys of the fences contain.
    pub(super) before: Tag,
    pub(crate) after: Tag,
    /// The fields that must still have these values; a missing field has an empty value.
    pub(super) expected: Vec<(&'static str, String)>,
    pub(super) fields: Vec<(String, String)>,
    /// Set if the node is enrolled: all stripes must exist, with fences of at least this value.
    pub(super) least_fence: Option<u64>,
    /// Fences by stripe, which are stored if they are greater.
    pub(super) fences: BTreeMap<usize, u64>,
    pub(crate) kind: ChangeKind,
}

/// The effect that depends on a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// The node's vote.
    Vote,
    /// Whether the node's votes count together with the votes of the other nodes.
    NameOwners,
    /// Nothing immediate: the node works without the change.
    InUse,
    /// The node leaves an unused set of this many nodes, or starts after it left.
    Takeover(usize),
    Start,
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
    pub(super) fn of(tag: &Tag) -> Self {
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

/// Returns the tag of a new incarnation with these owners of the other names.
pub(super) fn new_tag(
    state: TagState,
    layout: &str,
    own: Incarnation,
    owners: &[Option<Incarnation>],
    max_ttl: Duration,
) -> Tag {
    // No two names have the same owner, so equal owners mean equal views.
    let mut view: Vec<_> = owners.iter().flatten().chain([&own]).collect();
    view.sort_unstable();
    let view = view.into_iter().fold(layout.to_owned(), |text, owner| format!("{text},{owner}"));
    let Incarnation { epoch, id, nonce } = own;
    let (state, view, ttl) = (state.letter(), fnv(&view), millis(max_ttl));
    let text = format!("{state} {id:032x} {layout} {nonce:016x} {epoch:08x} {view:016x}-{ttl}");
    let tag = Tag::new(text);
    debug_assert!(tag.is_complete() && tag.incarnation() == Some(own), "{tag:?}");
    tag
}

/// Returns the tag of a node that stays in its state, with these owners and this limit.
pub(super) fn same_tag(
    report: &NodeReport,
    owners: &[Option<Incarnation>],
    max_ttl: Duration,
) -> Tag {
    let tag = &report.tag;
    match tag.incarnation().filter(|_| tag.is_complete()) {
        Some(own) => new_tag(TagState::of(tag), tag.layout(), own, owners, max_ttl),
        None => tag.clone(),
    }
}

impl Change {
    /// Creates a change of a record that has this tag.
    pub(super) fn of_tag(tag: &Tag) -> Self {
        Self {
            before: tag.clone(),
            after: tag.clone(),
            expected: vec![("tag", tag.text().to_string())],
            fields: Vec::new(),
            least_fence: None,
            fences: BTreeMap::new(),
            kind: ChangeKind::Vote,
        }
    }

    /// Creates a change that also requires `max_ttl` and its previous value to be unchanged.
    pub(super) fn of_limits(report: &NodeReport) -> Self {
        let mut change = Self::of_tag(&report.tag);
        change.expected.push(("max_ttl", report.raw_max_ttl()));
        change.expected.push(("longer", report.previous_max_ttl.to_string()));
        change
    }

    /// Creates a change that clears the previous value of `max_ttl`, if it is still this. The tag
    /// stays.
    pub(super) fn clearing(previous_max_ttl: &str) -> Self {
        let mut change = Self::of_tag(&Tag::new(""));
        change.expected = vec![("longer", previous_max_ttl.to_owned())];
        change.set("longer", "");
        change
    }

    pub(super) fn set(&mut self, field: impl Into<String>, value: &(impl ToString + ?Sized)) {
        self.fields.push((field.into(), value.to_string()));
    }

    /// If only the record of a node was lost, its fences are stored under its previous tag.
    pub(super) fn may_have_had(&mut self, latest: &Tag) {
        if self.before.text().is_empty() {
            self.before = latest.clone();
        }
    }

    pub(super) fn set_tag(&mut self, tag: Tag) {
        if tag != self.after {
            let is_compared = |(field, _): &(&str, String)| *field == "tag";
            assert!(self.expected.iter().any(is_compared), "the former tag is compared");
            self.set("tag", tag.text());
            self.after = tag;
        }
    }

    /// Returns the call of `change.lua` on a server that knows script flags or does not.
    pub(crate) fn call(&self, keys: &Keys, knows_flags: bool) -> Pipeline {
        let mut call = Pipeline::with_capacity(1);
        call.cmd("EVAL").arg(scripts::CHANGE.text(knows_flags));
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
        call
    }
}

/// The destination of a move, and the values that the node takes along.
#[derive(Clone, Debug)]
pub(super) struct Entering<'a> {
    pub(super) layout: &'a Layout,
    /// The names of the other nodes of that set, sorted.
    pub(super) others: Vec<&'a str>,
    pub(super) max_ttl: Duration,
    pub(super) known: &'a LearntState,
    pub(super) state: TagState,
}

/// Returns the change that moves a node from one layout to another: it stops voting at once, and
/// starts a probation.
///
/// The owners of names start empty, as a name may mean another server in the new set. `left`
/// records how the node left the other layout: its view if it voted, or nothing.
///
/// `size` is the number of nodes of the other set if clients may start the moved node once enough
/// nodes were moved; zero if only the command may.
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
    change.fences.clone_from(&entering.known.fences);
    change
}

/// The sources of the state that an activated node learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LessonKind {
    Learnt,
    /// Too few other nodes vote. `has_sources` is true if at least one does.
    Bootstrapped {
        has_sources: bool,
    },
    /// No node has ever voted.
    New,
}

impl LessonKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Learnt => "learn",
            Self::Bootstrapped { .. } => "bootstrap",
            Self::New => "new",
        }
    }
}

/// Returns the change that ends the probation of a node whose record was read after the wait, and
/// stores the `known` state on it.
pub(super) fn activation(report: &NodeReport, known: LearntState, kind: LessonKind) -> Change {
    debug_assert!(report.tag.is_probation(), "only a probation ends: {report:?}");
    // Another client may have raised the limit meanwhile, and then waits longer.
    let mut change = Change::of_limits(report);
    let mut floor = report.floor.max(known.floor);
    let copies = match kind {
        LessonKind::Learnt => LEARNT,
        // No node accepts a token further ahead of its clock, so every granted token is at most
        // this.
        LessonKind::Bootstrapped { .. } | LessonKind::New => {
            if !switches::is_out(Switch::Floor) {
                floor = floor.max(report.server_micros.saturating_add(TOKEN_LEAD));
            }
            let has_sources = kind == LessonKind::Bootstrapped { has_sources: true };
            if has_sources { BOOTSTRAPPED } else { "" }
        }
    };
    let max_ttl = report.max_ttl.max(known.max_ttl);
    if let Some(own) = report.tag.incarnation() {
        let layout = report.tag.layout();
        change.set_tag(new_tag(TagState::Active, layout, own, &report.owners, max_ttl));
    }
    change.set("max_ttl", &millis(max_ttl));
    change.set("floor", &floor);
    change.set("learner", "");
    let once = if copies.is_empty() {
        String::new()
    } else {
        format!("{copies}{}", report.tag.enrolment_ref())
    };
    change.set("once", &once);
    change.least_fence = Some(floor);
    change.fences = known.fences;
    change
}

/// Returns the change that stores a shorter `max_ttl`, together with the previous one.
pub(super) fn lowering(report: &NodeReport, max_ttl: Duration, previous: &str) -> Change {
    let mut change = Change::of_limits(report);
    let max_ttl = report.max_ttl.min(max_ttl);
    change.set_tag(same_tag(report, &report.owners, max_ttl));
    change.set("max_ttl", &millis(max_ttl));
    change.set("longer", previous);
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

    const SECOND: Duration = Duration::from_secs(1);

    fn field<'a>(change: &'a Change, name: &str) -> Option<&'a str> {
        change.fields.iter().find(|(field, _)| field == name).map(|(_, value)| &**value)
    }

    fn expected(change: &Change) -> Vec<&'static str> {
        change.expected.iter().map(|(field, _)| *field).collect()
    }

    fn entering<'a>(set: &'a NodeSet, known: &'a LearntState) -> Entering<'a> {
        let (layout, max_ttl) = (&set.layout, 20 * SECOND);
        Entering { layout, others: vec!["a:1/0", "c:1/0"], max_ttl, known, state: TagState::Moved }
    }

    #[test]
    fn moved_node_takes_along_its_limits() {
        let set = Scripted::new("p").set;
        let known = LearntState { floor: 30, fences: [(3, 7)].into(), ..LearntState::default() };
        let of = |floor, max_ttl: u32| NodeReport {
            floor,
            max_ttl: max_ttl * SECOND,
            ..report(&set, 'a', 2, 4)
        };

        let change = moving(&of(50, 60), 0, &entering(&set, &known));
        assert_eq!(
            (field(&change, "floor"), field(&change, "max_ttl")),
            (Some("50"), Some("60000"))
        );
        let change = moving(&of(10, 5), 0, &entering(&set, &known));
        assert_eq!(
            (field(&change, "floor"), field(&change, "max_ttl")),
            (Some("30"), Some("20000"))
        );
        assert_eq!((change.least_fence, &change.fences), (Some(0), &[(3, 7)].into()));
        assert_eq!(field(&change, "seen"), Some("0"), "no client of the set has checked it");
        for owner in ["owner:a:1/0", "owner:c:1/0"] {
            assert_eq!(field(&change, owner), Some(""), "a name may mean another server there");
        }
        assert_eq!(expected(&change), ["tag", "max_ttl", "longer"]);
    }

    #[test]
    fn moved_node_records_how_it_left() {
        let set = Scripted::new("p").set;
        let known = LearntState::default();
        let left = |state, run: u128| {
            let ours = report(&set, state, 2, 4);
            let tag = ours.tag.text().replace(&*set.layout.hash, "fedcba9876543210");
            let run = format!("{run:032x}").into();
            let member = NodeReport { tag: Tag::new(tag), run, ..ours };
            let change = moving(&member, 5, &entering(&set, &known));
            field(&change, "left").unwrap().to_owned()
        };

        assert_eq!(left('a', 2), format!("{:016x}", 7), "its view, as it voted");
        assert_eq!(left('p', 2), "", "in probation");
        assert_eq!(left('a', 3), "", "restarted");
    }

    #[test]
    fn activated_node_keeps_the_greater_limits() {
        let set = Scripted::new("p").set;
        let probation = NodeReport { floor: 40, ..report(&set, 'p', 2, 4) };
        let known = |floor, max_ttl: u32| LearntState {
            max_ttl: max_ttl * SECOND,
            floor,
            fences: [(1, 9)].into(),
            ..LearntState::default()
        };

        let change = activation(&probation, known(30, 20), LessonKind::Learnt);
        assert!(change.after.is_active());
        assert_eq!((field(&change, "floor"), change.least_fence), (Some("40"), Some(40)));
        assert_eq!(field(&change, "max_ttl"), Some("20000"), "that of the others");
        let change = activation(&probation, known(50, 5), LessonKind::Learnt);
        assert_eq!(
            (field(&change, "floor"), field(&change, "max_ttl")),
            (Some("50"), Some("10000"))
        );
        let bootstrapped = LessonKind::Bootstrapped { has_sources: false };
        let change = activation(&probation, known(50, 5), bootstrapped);
        let floor = TOKEN_LEAD.to_string();
        assert_eq!(field(&change, "floor"), Some(&*floor), "above the tokens of all clocks");
        assert_eq!(["once", "learner"].map(|name| field(&change, name)), [Some(""); 2]);
    }

    #[test]
    fn shorter_limit_leaves_the_former_one() {
        let set = Scripted::new("p").set;
        let member = report(&set, 'a', 2, 4);

        let change = lowering(&member, 3 * SECOND, "10000 ann");
        assert_eq!(field(&change, "max_ttl"), Some("3000"));
        assert_eq!(field(&change, "longer"), Some("10000 ann"));
        assert_eq!(expected(&change), ["tag", "max_ttl", "longer"]);
        let change = lowering(&member, 30 * SECOND, "");
        assert_eq!(field(&change, "max_ttl"), Some("10000"), "it is never raised here");
    }
}
