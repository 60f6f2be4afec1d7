//! The parts of a page, and where what they say comes from.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{
    layout::Visit,
    words::{span, text},
};
use crate::{
    access::Action,
    cache::FleetSnapshot,
    paging::Paging,
    text::{millis, unix_millis},
};

/// The origin of what a region says.
#[derive(Clone, Copy, Debug)]
pub(super) enum RegionSource {
    Fleet,
    Process,
    Both,
}

impl RegionSource {
    /// Returns the name in attributes, and the words.
    pub(super) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Fleet => ("fleet", "the whole fleet, as the servers say"),
            Self::Process => ("process", "this process alone"),
            Self::Both => ("both", "the whole fleet, and this process"),
        }
    }
}

/// Returns a part of a page that is refreshed.
pub(super) fn region(id: &str, title: &str, from: RegionSource, content: &Markup) -> Markup {
    let (heading, (from, words)) = (format!("{id}-title"), from.names());
    html! {
        section #(id) data-live="" data-from=(from) aria-labelledby=(heading) {
            h2 #(heading) { (title) " " small.from { (words) } }
            (content)
        }
    }
}

/// Returns a region about what was read from the servers, with the age of the snapshot.
pub(super) fn snapshot_region<T>(
    id: &str,
    title: &str,
    from: RegionSource,
    snapshot: Option<&FleetSnapshot<T>>,
    content: impl FnOnce(&T) -> Markup,
) -> Markup {
    let content = html! {
        @match snapshot {
            Some(snapshot) => { (freshness(snapshot)) (content(&snapshot.value)) },
            None => p.fresh {
                "The servers are being read, which takes longer than usual: reload the page in a moment."
            },
        }
    };
    region(id, title, from, &content)
}

fn freshness<T>(snapshot: &FleetSnapshot<T>) -> Markup {
    html! {
        p.fresh {
            @if snapshot.is_partial {
                "The servers are still being read: these are the first."
            } @else if snapshot.age().as_secs() >= 2 {
                "Read " (span(snapshot.age())) " ago, within " (span(snapshot.took)) "."
            } @else {
                "Read just now, within " (span(snapshot.took)) "."
            }
        }
    }
}

/// Returns the age of a snapshot, for programs.
pub(super) fn snapshot_json<T>(snapshot: &FleetSnapshot<T>) -> Value {
    json!({
        "number": snapshot.start.number,
        "at_unix_ms": unix_millis(snapshot.start.at),
        "took_ms": millis(snapshot.took),
        "partial": snapshot.is_partial,
    })
}

/// Returns why something may be missing.
pub(super) fn trouble(error: Option<&str>) -> Markup {
    html! {
        @if let Some(error) = error {
            p.trouble { "Something may be missing here: " (text(error)) }
        }
    }
}

/// Returns a table that scrolls sideways where the screen is narrow. A column whose title begins with `#` has
/// numbers.
pub(super) fn table(id: &str, what: &str, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        div #{ (id) "-scroll" }.scroll tabindex="0" role="region" aria-label={ "Table of " (what) } { table {
            thead { tr { @for column in columns {
                @match column.strip_prefix('#') {
                    Some(column) => th.number scope="col" { (column) },
                    None => th scope="col" { (column) },
                }
            } } }
            tbody { (rows) }
        } }
    }
}

/// Returns links to the pages before and after this one of a listing.
pub(super) fn pager(visit: &Visit, page: &str, Paging { number, pages, .. }: Paging) -> Markup {
    let to = |number: usize| {
        let number = number.to_string();
        let mut params: Vec<_> = visit.params.only(&["q"]).collect();
        params.push(("page", &number));
        visit.link(page, &params)
    };
    html! {
        @if pages > 1 {
            nav.pages aria-label={ "Pages of " (page) } {
                @if number > 1 { a rel="prev" href=(to(number - 1)) { "Previous" } " " }
                span { "Page " (number) " of " (pages) }
                @if number < pages { " " a rel="next" href=(to(number + 1)) { "Next" } }
            }
        }
    }
}

/// Returns links to the actions that the viewer may do.
pub(super) fn actions(visit: &Visit, name: &str, offered: &[(Action, &str)]) -> Markup {
    let offered: Vec<_> = offered.iter().filter(|(action, _)| visit.viewer.may(*action)).collect();
    html! {
        @if !offered.is_empty() {
            ul.actions { @for (action, label) in offered {
                @let to = visit.link(action.name(), &[(action.subject().param(), name)]);
                li { a.button data-action=(action.name()) href=(to) { (label) } }
            } }
        }
    }
}
