//! Decides which change of a node's record comes next.

use std::time::Duration;

use super::{
    Layout, NodeReport, Tag,
    learnt_state::LearntState,
    node_report::millis,
    record::{Change, ChangeKind, Entering, TagState, moving, new_tag, same_tag},
};
use crate::{
    error::Reason,
    membership::other_sets::ForeignSet,
    node::{Memory, redis::RestartGuard},
    protocol::views::Incarnation,
    switches::{self, Switch},
};

/// Whether servers may join a set, as the other sets of the list show (R17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joining {
    Allowed,
    Waits,
}

/// The state that a change of a record depends on, besides the record.
#[derive(Clone, Debug)]
pub(crate) struct EnrolTerms<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) restart: RestartGuard,
    pub(crate) max_ttl: Duration,
    /// Whether the node's `max_ttl` may be raised while it votes.
    pub(crate) may_raise: bool,
    /// The minimum epoch of a new enrolment; `None` if the node must not be enrolled.
    pub(crate) least_epoch: Option<u32>,
    /// The incarnation that must be enrolled again because another one owns its name.
    pub(crate) reclaims: Option<Incarnation>,
    /// Whether the node lacked the owner of another name when it was last checked.
    pub(crate) lacks_owners: bool,
    /// The names of the other nodes, sorted, and the known owners of these names.
    pub(crate) others: Vec<&'a str>,
    pub(crate) owners: Vec<Option<Incarnation>>,
    /// The set that the node belongs to, if that set may be taken over.
    pub(crate) unused: Option<ForeignSet>,
    /// Whether servers without a record, or of an unused set, may join the set.
    pub(crate) joining: Joining,
    /// Whether a moved node may start its probation.
    pub(crate) may_start: bool,
    /// The tag that the node had before.
    pub(crate) latest_tag: Tag,
    pub(crate) nonce: u64,
}

/// Returns the next change that makes a node a member of the set, with the owners that this client
/// knows. Fails if the node can't be enrolled at present.
///
/// A node is enrolled if it is new, if its server was restarted, if it is displaced, or if it lost
/// its fences.
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
    if is_blank && terms.joining == Joining::Waits {
        return Ok(None);
    }
    let is_ours = !is_blank && tag.layout() == &*terms.layout.hash;
    let is_current = is_ours && tag.run() == &*report.run;
    let is_guarded = terms.restart == RestartGuard::Probation;
    let is_reclaimed =
        is_current && terms.reclaims.is_some() && tag.incarnation() == terms.reclaims;
    // The node's fences were deleted, or its tag has another form.
    let has_lost = is_current && (report.lacks_fences || is_guarded != tag.is_complete());
    // A blank node that is full can't store locks.
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
        () if !news.is_empty() => (ChangeKind::NameOwners, Change::of_limits(report)),
        () => (ChangeKind::InUse, Change::of_tag(tag)),
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
    } else if kind != ChangeKind::InUse {
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

/// Returns the change that moves a node of an unused set to this one, if no client of that set has
/// checked it meanwhile; or the change that starts it, once enough nodes of that set were moved.
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

/// The epoch is at least the time in seconds, so that a client that has not seen the former owner
/// of the name still enrols its successor with a greater epoch.
fn next_incarnation(report: &NodeReport, least_epoch: u32, nonce: u64) -> Incarnation {
    let seconds = u32::try_from(report.server_micros / 1_000_000).unwrap_or(u32::MAX);
    let before = report.tag.incarnation().map_or(1, |before| before.epoch.saturating_add(1));
    let epoch = least_epoch.max(before).max(seconds.min(4_000_000_000));
    Incarnation { epoch, id: report.run_number(), nonce }
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

    /// A report with a recent mark.
    fn marked(report: NodeReport) -> NodeReport {
        NodeReport { seen: "5".into(), server_micros: 5, ..report }
    }

    /// The terms of a client that knows no owners.
    fn terms(set: &NodeSet) -> EnrolTerms<'_> {
        EnrolTerms { nonce: 9, ..set.terms(1, false) }
    }

    fn change_of(report: &NodeReport, terms: &EnrolTerms<'_>) -> Change {
        next_change(report, terms).unwrap().expect("a change")
    }

    fn blank(report: NodeReport) -> NodeReport {
        NodeReport { tag: Tag::new(""), ..report }
    }

    #[test]
    fn current_nodes_are_left_alone() {
        let set = Scripted::new("p").set;

        for state in ['a', 'p', 'm'] {
            assert_eq!(next_change(&marked(report(&set, state, 2, 1)), &terms(&set)), Ok(None));
        }

        let tag = report(&set, 'a', 2, 1).tag.text().replace(&*set.layout.hash, "fedcba9876543210");
        let other = NodeReport { tag: Tag::new(tag), ..marked(report(&set, 'a', 2, 1)) };
        assert_eq!(next_change(&other, &terms(&set)), Ok(None), "a node of another set");

        let unmarked = NodeReport { seen: "".into(), server_micros: 5_000_000, ..other };
        assert_eq!(next_change(&unmarked, &terms(&set)), Ok(None), "its mark is theirs, too");
    }

    #[test]
    fn nodes_that_have_to_be_enrolled_again() {
        let set = Scripted::new("p").set;
        let member = marked(report(&set, 'a', 2, 4));
        let own = member.tag.incarnation();
        let restarted = NodeReport { run: format!("{:032x}", 3).into(), ..member.clone() };
        let without_fences = NodeReport { lacks_fences: true, ..member.clone() };
        let former = member.tag.text()[..77].to_owned();
        let of_former_version = NodeReport { tag: Tag::new(former), ..member.clone() };
        let displaced = EnrolTerms { reclaims: own, ..terms(&set) };
        for (member, terms, why) in [
            (blank(member.clone()), terms(&set), "blank"),
            (restarted, terms(&set), "another run of the server"),
            (without_fences, terms(&set), "its fences were deleted"),
            (of_former_version, terms(&set), "a tag of another form"),
            (member.clone(), displaced, "another incarnation owns its name"),
        ] {
            let change = change_of(&member, &terms);
            assert_eq!((change.kind, change.least_fence), (ChangeKind::Vote, Some(0)), "{why}");
            assert!(change.after.is_probation() && !change.after.is_moved(), "{why}");
            assert_eq!(field(&change, "layout"), Some(&*set.layout.description), "{why}");
        }
        let other = Some(incarnation(3));

        let terms = EnrolTerms { reclaims: other, ..terms(&set) };

        assert_eq!(next_change(&member, &terms), Ok(None), "another one is displaced");

        let nobody = EnrolTerms { least_epoch: None, ..terms };
        assert_eq!(next_change(&blank(member), &nobody), Ok(None), "it was seen in another set");
    }

    #[test]
    fn moved_nodes_stay_moved() {
        let set = Scripted::new("p").set;
        let moved = report(&set, 'm', 2, 4);
        let restarted = marked(NodeReport { run: format!("{:032x}", 3).into(), ..moved });
        assert!(change_of(&restarted, &terms(&set)).after.is_moved());
    }

    #[test]
    fn full_blank_node_is_refused() {
        let set = Scripted::new("p").set;
        let memory = Some(Memory::new(7, "noeviction".into(), 8));
        let full = NodeReport { memory, ..marked(report(&set, 'a', 2, 1)) };
        assert_eq!(next_change(&full, &terms(&set)), Ok(None));
        assert_eq!(next_change(&blank(full), &terms(&set)), Err(Reason::OutOfMemory));
    }

    #[test]
    fn epoch_is_above_all_known() {
        let set = Scripted::new("p").set;
        let epoch = |least: u32, before: u32, seconds: u64| {
            let member = report(&set, 'a', 2, before);
            let run = format!("{:032x}", 3).into();
            let restarted = NodeReport { run, server_micros: seconds * 1_000_000, ..member };
            let terms = EnrolTerms { least_epoch: Some(least), ..terms(&set) };
            change_of(&restarted, &terms).after.incarnation().unwrap()
        };

        assert_eq!(epoch(90, 4, 5), Incarnation { epoch: 90, id: 3, nonce: 9 });
        assert_eq!(epoch(1, 90, 5).epoch, 91, "above that of its former run");
        assert_eq!(epoch(1, 4, 90).epoch, 90, "at least the time in seconds");
        assert_eq!(epoch(1, 4, u64::MAX / 1_000_000).epoch, 4_000_000_000);
    }

    #[test]
    fn limits_are_raised_where_allowed() {
        let set = Scripted::new("p").set;
        let limit = set.settings.max_ttl;
        let shorter =
            |state| NodeReport { max_ttl: limit / 2, ..marked(report(&set, state, 2, 1)) };
        let raising = |may_raise| EnrolTerms { may_raise, ..terms(&set) };

        assert_eq!(next_change(&shorter('a'), &raising(false)), Ok(None), "it votes");
        for (member, terms) in [
            (shorter('a'), raising(true)),
            (shorter('p'), raising(false)),
            (blank(shorter('a')), raising(false)),
        ] {
            let change = change_of(&member, &terms);
            assert_eq!(change.kind, ChangeKind::Vote);
            assert_eq!(field(&change, "max_ttl"), Some(&*millis(limit).to_string()));
            assert!(change.after.text().ends_with("-10000"), "{:?}", change.after);
            let expected: Vec<_> = change.expected.iter().map(|(field, _)| *field).collect();
            assert_eq!(expected, ["tag", "max_ttl", "longer"]);
        }
        let longer = NodeReport { max_ttl: limit * 2, ..marked(report(&set, 'p', 2, 1)) };
        assert_eq!(next_change(&longer, &raising(true)), Ok(None));
        let change = change_of(&blank(longer), &raising(true));
        assert!(field(&change, "max_ttl").is_none(), "it keeps its own");
        assert!(change.after.text().ends_with("-20000"), "{:?}", change.after);
    }

    #[test]
    fn lost_record_leaves_its_fences() {
        let set = Scripted::new("p").set;
        let member = marked(report(&set, 'a', 2, 1));
        let terms = EnrolTerms { latest_tag: member.tag.clone(), ..terms(&set) };
        let change = change_of(&blank(member.clone()), &terms);
        assert_eq!(change.before, member.tag, "they are under the tag that it had");
        assert!(change.expected.contains(&("tag", String::new())));
    }

    #[test]
    fn marks_are_renewed_each_quarter() {
        let set = Scripted::new("p").set;
        let seen_at = |seen: u64, now: u64| {
            let member = report(&set, 'a', 2, 1);
            NodeReport { seen: seen.to_string().into(), server_micros: now, ..member }
        };

        let quarter = u64::try_from(set.settings.max_ttl.as_micros()).unwrap() / 4;

        assert_eq!(next_change(&seen_at(7, 7 + quarter), &terms(&set)), Ok(None));

        for (seen, now) in [(7, 8 + quarter), (7, 6)] {
            let change = change_of(&seen_at(seen, now), &terms(&set));
            assert_eq!(change.kind, ChangeKind::InUse);
            let expected = [Some(now.to_string()), Some("3".into())];
            assert_eq!(["seen", "size"].map(|name| field(&change, name).map(Into::into)), expected);
            assert_eq!((change.after, change.least_fence), (change.before, None));
        }
    }

    #[test]
    fn latest_owners_are_stored() {
        let set = Scripted::new("p").set;
        let member = marked(report(&set, 'a', 2, 1));

        let change = next(&set, &member, true).unwrap();

        assert_eq!(change.kind, ChangeKind::NameOwners);
        assert_eq!(field(&change, "owner:c:1/0"), Some(&*incarnation(3).to_string()));
        assert_eq!(field(&change, "owner:a:1/0"), None, "it is not known");

        let (before, after) = (member.tag.text(), change.after.text());
        assert!(before != after && before[..77] == after[..77], "{after}");

        // The node knows a later owner.
        let later = Incarnation { epoch: 2, ..incarnation(4) };
        let knows = NodeReport { owners: vec![None, Some(later)], ..member.clone() };
        assert_eq!(next(&set, &knows, true), None);
        assert_eq!(next(&set, &member, false), None, "displaced, or one server under two names");

        // A new enrolment includes the owners.
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
        for state in ['a', 'p'] {
            assert_eq!(next_change(&marked(report(&set, state, 2, 1)), &terms), Ok(None));
        }

        let elsewhere = moved.tag.text().replace(&*set.layout.hash, "fedcba9876543210");
        let elsewhere = NodeReport { tag: Tag::new(elsewhere), ..moved.clone() };
        assert_eq!(next_change(&elsewhere, &terms).unwrap(), None, "moved to another set");

        let change = next_change(&moved, &terms).unwrap().unwrap();
        assert_eq!(change.kind, ChangeKind::Start);
        assert_eq!(field(&change, "from"), None, "where it came from stays");
        assert!(change.after.is_probation() && !change.after.is_moved());

        let started = marked(report(&set, 'p', 2, 2));
        assert_eq!(next_change(&started, &terms).unwrap(), None);
    }
}
