//! Several sets of servers: which one a name belongs to, and how each of them is. Nothing for one set.

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::{
    Redlock,
    diagnosis::{Diagnosis, Severity, Verdict},
};

use super::{
    advice::{advise, state, verdict},
    layout::Visit,
    region::{RegionSource, region, snapshot_region},
    words::text,
};
use crate::{
    access::Subject,
    cache::FleetSnapshot,
    set_place::{SetPlace, each_set},
    site::Site,
};

/// Returns each set of several, with its place.
pub(super) fn several(diagnosis: &Diagnosis) -> impl Iterator<Item = (SetPlace, &Diagnosis)> {
    let sets = diagnosis.sets();
    let place = |index: usize| SetPlace::nth(index, sets.len());
    sets.iter().enumerate().filter_map(move |(index, set)| Some((place(index)?, set)))
}

/// Returns sets by their places in words: `set 1 of 3`, `sets 1 and 2 of 3`.
fn listed(places: &[SetPlace]) -> String {
    match places {
        [] => String::new(),
        [one] => one.to_string(),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(|place| place.number().to_string()).collect();
            format!("sets {} and {}", first.join(", "), last.to_string().trim_start_matches("set "))
        }
    }
}

/// Returns what works, by set, in one or two sentences; `None` for one set.
pub(super) fn works(diagnosis: &Diagnosis) -> Option<String> {
    let with = |wanted: fn(Verdict) -> bool| {
        let found = several(diagnosis).filter(|(_, set)| wanted(set.verdict()));
        found.map(|(place, _)| place).collect::<Vec<_>>()
    };
    let down = with(|verdict| verdict == Verdict::NoQuorum);
    let (troubled, up) = (
        with(|verdict| verdict == Verdict::Degraded),
        with(|verdict| verdict != Verdict::NoQuorum),
    );
    if down.is_empty() && up.is_empty() {
        return None;
    }
    let mut words = match (&down[..], &up[..]) {
        ([], _) => "Names of all sets can be locked.".to_owned(),
        (_, []) => "No name can be locked at present: no set has a quorum.".to_owned(),
        (down, up) => format!(
            "Names of {} can't be locked at present; names of {} can.",
            listed(down),
            listed(up)
        ),
    };
    if !troubled.is_empty() {
        let need = if troubled.len() == 1 { "needs" } else { "need" };
        let mut listed = listed(&troubled);
        listed.replace_range(..1, "S");
        words = format!("{words} {listed} {need} attention.");
    }
    Some(words)
}

/// Returns the state of each set of several, for the overview: what is wrong there, and what to do.
pub(super) fn sets_region(
    site: &Site,
    snapshot: Option<&FleetSnapshot<Diagnosis>>,
    visit: &Visit,
) -> Markup {
    if site.redlock.sets().len() < 2 {
        return html! {};
    }
    snapshot_region("sets", "Servers by set", RegionSource::Process, snapshot, |diagnosis| {
        html! {
            @for (place, set) in several(diagnosis) {
                div.set data-set=(place.number()) {
                    h3 { a href=(to_nodes(visit, place)) { (place.title()) } }
                    (verdict(set))
                    (advise(set, |advice| advice.severity == Severity::Problem))
                    ul.servers { @for node in &set.nodes {
                        li data-server=(node.health.name) data-state=(state(&node.health.state)) {
                            (text(&node.health.name)) " " span.note { (text(&node.state())) }
                        }
                    } }
                }
            }
        }
    })
}

/// Returns the address of a set on the page of the nodes.
fn to_nodes(visit: &Visit, place: SetPlace) -> String {
    format!("{}#{}", visit.link("nodes", &[]), place.id())
}

/// Returns the set that a name belongs to, and whether its servers vote, as a part of the name's page.
pub(super) fn set_of(site: &Site, visit: &Visit, subject: Subject, name: &str) -> Markup {
    let Some(place) = site.set_of(subject, name) else { return html! {} };
    let set = &site.redlock.sets()[place.index];
    let (health, is_ready) = (set.health(), set.readiness().is_ok());
    let voting = health.iter().filter(|node| node.is_voting()).count();
    let content = html! {
        p data-set=(place.number()) {
            "This name belongs to " (place) ", and its servers alone decide about it. "
            (voting) " of " (health.len()) " vote"
            @if is_ready {
                "."
            } @else {
                ": " strong.bad { "it can't be locked at present" } ". " (others(site))
            }
        }
        ul.servers { @for node in &health {
            li data-server=(node.name) data-state=(state(&node.state)) {
                (text(&node.name)) " " span.note { (text(&node.state.to_string())) }
            }
        } }
        p { a href=(to_nodes(visit, place)) { "What is wrong with these servers, and what to do" } }
    };
    region("set", &place.title(), RegionSource::Process, &content)
}

/// Returns which sets work, in one sentence.
fn others(site: &Site) -> String {
    let ready = each_set(&site.redlock).filter(|(_, set)| set.readiness().is_ok());
    let ready: Vec<_> = ready.filter_map(|(place, _)| place).collect();
    match &ready[..] {
        [] => "Names of the other sets can't, either.".into(),
        ready => format!("Names of {} can.", listed(ready)),
    }
}

/// Returns the same in one line, for a page that is not refreshed.
pub(super) fn set_line(site: &Site, visit: &Visit, subject: Subject, name: &str) -> Markup {
    html! {
        @if let Some(place) = site.set_of(subject, name) {
            p data-set=(place.number()) {
                "This name belongs to " a href=(to_nodes(visit, place)) { (place) } "."
            }
        }
    }
}

/// The last column of a table of names: the set of each, if there are several.
#[derive(Clone, Copy)]
pub(super) struct SetColumn<'a> {
    redlock: &'a Redlock,
    subject: Subject,
}

impl<'a> SetColumn<'a> {
    pub(super) const fn new(site: &'a Site, subject: Subject) -> Self {
        Self { redlock: &site.redlock, subject }
    }

    /// Returns the titles of the columns, with its own.
    pub(super) fn after(self, columns: &[&'static str]) -> Vec<&'static str> {
        let own = (self.redlock.sets().len() > 1).then_some("Set");
        columns.iter().copied().chain(own).collect()
    }

    /// Returns the cell of a name.
    pub(super) fn cell(self, name: &str) -> Markup {
        html! {
            @if self.redlock.sets().len() > 1 {
                td.set { @if let Some(place) = SetPlace::of(self.redlock, self.subject, name) { (place) } }
            }
        }
    }

    /// Returns a value about a name as JSON, with the number of its set.
    pub(super) fn json(self, value: Value, name: &str) -> Value {
        with_set(value, SetPlace::of(self.redlock, self.subject, name))
    }
}

/// Adds the number of a set, from 1, to an object.
pub(super) fn with_set(mut value: Value, place: Option<SetPlace>) -> Value {
    if let (Some(place), Value::Object(fields)) = (place, &mut value) {
        fields.insert("set".into(), json!(place.number()));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_listed_in_words() {
        let places: Vec<_> = (0..3).filter_map(|index| SetPlace::nth(index, 3)).collect();
        let words = [1, 2, 3].map(|count| listed(&places[..count]));
        assert_eq!(words, ["set 1 of 3", "sets 1 and 2 of 3", "sets 1, 2 and 3 of 3"]);
    }
}
