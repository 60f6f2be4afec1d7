//! What all pages have in common.

use std::{sync::Arc, time::SystemTime};

use maud::{DOCTYPE, Markup, html};
use serde_json::{Value, json};

use super::words::span;
use crate::{
    access::{Action, Viewer},
    actions::Done,
    look::{Look, millis, unix_millis},
    query::{Params, link, visible},
};

const PAGES: [(&str, &str); 6] = [
    ("locks", "Locks"),
    ("nodes", "Nodes"),
    ("jobs", "Jobs"),
    ("leaders", "Leaders"),
    ("once", "Once"),
    ("events", "Events"),
];
/// Intervals that a viewer may choose, in seconds; zero is none.
const INTERVALS: [usize; 6] = [0, 1, 2, 5, 10, 30];

/// The interval in these parameters; zero for one that is not offered.
fn chosen_interval(params: &Params) -> Option<usize> {
    let chosen = params.get("refresh")?.parse().unwrap_or(0);
    Some(INTERVALS.into_iter().find(|interval| *interval == chosen).unwrap_or(0))
}

/// Returns a relative address with the interval that is chosen in some parameters, if one is.
pub(crate) fn keeping_interval(page: &str, params: &[(&str, &str)], chosen: &Params) -> String {
    let interval = chosen_interval(chosen).map(|interval| interval.to_string());
    let interval = interval.as_deref().map(|interval| ("refresh", interval));
    link(page, &params.iter().copied().chain(interval).collect::<Vec<_>>())
}

/// A request for a page.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) viewer: Viewer,
    pub(crate) params: Params,
    pub(crate) now: SystemTime,
    /// The manager's name, which tells replicas apart.
    pub(crate) process: Arc<str>,
}

impl Visit {
    /// The `name` parameter.
    pub(crate) fn name(&self) -> Option<&str> {
        self.params.exact("name")
    }

    fn interval(&self) -> usize {
        chosen_interval(&self.params).unwrap_or(0)
    }

    /// A relative address with parameters, and with the interval that the viewer has chosen.
    pub(super) fn link(&self, page: &str, params: &[(&str, &str)]) -> String {
        keeping_interval(page, params, &self.params)
    }

    /// A whole page. `page` is the one that the navigation shows as the current one.
    pub(super) fn page(&self, page: &str, title: &str, content: &Markup) -> Markup {
        let nav = self.nav(page, "page");
        self.shell(title, &html! { (title) }, &nav, &html! { (self.notice()) (content) })
    }

    /// A page about one thing, below the one that the navigation shows.
    pub(super) fn subpage(&self, page: &str, title: &str, name: &str, content: &Markup) -> Markup {
        let heading = html! { (title) " " span.subject { (super::words::text(name)) } };
        let title = format!("{} – {title}", visible(name));
        let nav = self.nav(page, "true");
        self.shell(&title, &heading, &nav, &html! { (self.notice()) (content) })
    }

    /// A page to which nothing leads, that is not refreshed, and loads nothing.
    pub(super) fn plain_page(title: &str, content: &Markup) -> Markup {
        let none = html! {};
        let head = html! { link rel="icon" href="data:,"; };
        shell((title, &html! { (title) }), &head, &none, &none, content)
    }

    /// The same with the dashboard's files.
    pub(super) fn problem_page(title: &str, content: &Markup) -> Markup {
        let none = html! {};
        shell((title, &html! { (title) }), &files(), &none, &none, content)
    }

    fn shell(&self, title: &str, heading: &Markup, nav: &Markup, content: &Markup) -> Markup {
        let interval = self.interval();
        let head = html! {
            @if interval > 0 { noscript { meta http-equiv="refresh" content=(interval); } }
            (files())
            script src="live.js" defer {}
        };
        let header = html! { (nav) (self.refresh_form(interval)) };
        shell((title, heading), &head, &header, &self.footer(), content)
    }

    fn nav(&self, current: &str, how: &str) -> Markup {
        let to = |page| self.link(page, &[]);
        html! {
            nav aria-label="Pages" {
                ul {
                    @for (page, name) in PAGES {
                        li {
                            @if page == current {
                                a href=(to(page)) aria-current=(how) { (name) }
                            } @else {
                                a href=(to(page)) { (name) }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The interval that the viewer has chosen, for a form.
    pub(super) fn interval_field(&self) -> Markup {
        html! {
            @if let Some(interval) = chosen_interval(&self.params) {
                input type="hidden" name="refresh" value=(interval);
            }
        }
    }

    fn refresh_form(&self, interval: usize) -> Markup {
        html! {
            form.refresh method="get" {
                @for (name, value) in self.params.only(&["name", "key", "q", "page"]) {
                    input type="hidden" name=(name) value=(value);
                }
                label for="refresh" { "Refresh" }
                " "
                select #refresh name="refresh" {
                    @for of in INTERVALS {
                        option value=(of) selected[of == interval] {
                            @if of == 0 { "off" } @else { "every " (of) " s" }
                        }
                    }
                }
                noscript { button type="submit" { "Set" } }
            }
        }
    }

    /// What an action has done. Only known codes are shown: the address may come from anybody.
    fn notice(&self) -> Markup {
        html! {
            @if let Some(done) = self.params.get("done").and_then(Done::of_code) {
                p.notice role="status" { (Self::result(done)) }
            }
        }
    }

    const fn result(done: Done) -> &'static str {
        match done {
            Done::Broken => "The lock was taken away from the holder that was shown.",
            Done::Gone => "The holder that was shown had lost it already. Nothing was taken away.",
            Done::Requested => {
                "A run was requested: a replica that has the job starts it within seconds."
            }
            Done::Paused => "The job was paused on the whole fleet.",
            Done::Resumed => "The job has no pause on the fleet any more.",
            Done::Recorded => "The key was recorded as done.",
            Done::Forgotten => "The record of the key was removed.",
            Done::NoRecord => "There was no record to remove.",
        }
    }

    fn footer(&self) -> Markup {
        html! {
            footer {
                @if let Some(name) = self.viewer.name() {
                    p { "You are " (super::words::text(name)) "." }
                }
                p { "This process: " (super::words::text(&self.process)) "." }
                p.state #live-state role="status" {}
                p.state #stream-state role="status" {}
            }
        }
    }
}

fn files() -> Markup {
    html! {
        link rel="stylesheet" href="style.css";
        link rel="icon" href="icon.svg" type="image/svg+xml";
    }
}

fn shell(
    (title, heading): (&str, &Markup),
    head: &Markup,
    header: &Markup,
    footer: &Markup,
    content: &Markup,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – tower-redlock" }
                (head)
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header { p.brand { "tower-redlock" } (header) }
                main #main tabindex="-1" { h1 { (heading) } (content) }
                (footer)
            }
        }
    }
}

/// A part of a page, and where what it says comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum RegionSource {
    Fleet,
    Process,
}

impl RegionSource {
    const fn name(self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Process => "process",
        }
    }

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Fleet => "the whole fleet, as the servers say",
            Self::Process => "this process alone",
        }
    }
}

/// A part of a page that is refreshed.
pub(super) fn region(id: &str, title: &str, from: RegionSource, content: &Markup) -> Markup {
    let heading = format!("{id}-title");
    html! {
        section #(id) data-live="" data-from=(from.name()) aria-labelledby=(heading) {
            h2 #(heading) { (title) " " small.from { (from.label()) } }
            (content)
        }
    }
}

/// Links to the pages before and after this one of a listing.
pub(super) fn pager(visit: &Visit, page: &str, number: usize, pages: usize) -> Markup {
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

/// How old a look is.
pub(super) fn freshness<T>(look: &Look<T>) -> Markup {
    html! {
        p.fresh {
            @if look.is_partial {
                "The servers are still being read: these are the first."
            } @else if look.age().as_secs() >= 2 {
                "Read " (span(look.age())) " ago, within " (span(look.took)) "."
            } @else {
                "Read just now, within " (span(look.took)) "."
            }
        }
    }
}

/// How old a look is, for programs.
pub(super) fn look_json<T>(look: &Look<T>) -> Value {
    json!({
        "number": look.number,
        "at_unix_ms": unix_millis(look.at),
        "took_ms": millis(look.took),
        "partial": look.is_partial,
    })
}

/// In the place of a look that takes long.
pub(super) fn reading() -> Markup {
    html! { p.fresh { "The servers are being read, which takes longer than usual: reload the page in a moment." } }
}

/// Why something may be missing.
pub(super) fn trouble(error: Option<&str>) -> Markup {
    html! {
        @if let Some(error) = error {
            p.trouble { "Something may be missing here: " (super::words::text(error)) }
        }
    }
}

/// Links to actions, without those that the viewer may not do.
pub(super) fn actions(visit: &Visit, param: (&str, &str), offered: &[(Action, &str)]) -> Markup {
    let offered: Vec<_> = offered.iter().filter(|(action, _)| visit.viewer.may(*action)).collect();
    html! {
        @if !offered.is_empty() {
            ul.actions {
                @for (action, label) in offered {
                    li {
                        a.button data-action=(action.name()) href=(visit.link(action.name(), &[param])) {
                            (label)
                        }
                    }
                }
            }
        }
    }
}
