//! The frame of all pages: heading, navigation, footer.

use std::{sync::Arc, time::SystemTime};

use maud::{DOCTYPE, Markup, html};

use super::words::text;
use crate::{
    access::Viewer,
    actions::Done,
    query::{Params, link},
    text::visible,
};

const PAGES: [(&str, &str); 7] = [
    ("./", "Overview"),
    ("locks", "Locks"),
    ("nodes", "Nodes"),
    ("jobs", "Jobs"),
    ("leaders", "Leaders"),
    ("once", "Once"),
    ("events", "Events"),
];
/// Intervals that a viewer may choose, in seconds; zero is none.
const INTERVALS: [usize; 6] = [0, 1, 2, 5, 10, 30];

/// Returns the interval in these parameters; zero for one that is not offered.
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
    /// Returns a relative address with parameters, and with the interval that the viewer has chosen.
    pub(super) fn link(&self, page: &str, params: &[(&str, &str)]) -> String {
        keeping_interval(page, params, &self.params)
    }

    /// Returns a whole page. `page` is the one that the navigation shows as the current one.
    pub(super) fn page(&self, page: &str, title: &str, content: &Markup) -> Markup {
        self.whole(page, "page", title, &html! { (title) }, content)
    }

    /// Returns a page about one thing, below the one that the navigation shows.
    pub(super) fn subpage(&self, page: &str, title: &str, name: &str, content: &Markup) -> Markup {
        let heading = html! { (title) " " span.subject { (text(name)) } };
        let title = format!("{} – {title}", visible(name));
        self.whole(page, "true", &title, &heading, content)
    }

    /// Returns a whole page. `how` is the value of `aria-current` of the current page in the navigation.
    fn whole(
        &self,
        current: &str,
        how: &str,
        title: &str,
        heading: &Markup,
        content: &Markup,
    ) -> Markup {
        let interval = chosen_interval(&self.params).unwrap_or(0);
        let head = html! {
            @if interval > 0 { noscript { meta http-equiv="refresh" content=(interval); } }
            (files())
            script src="live.js" defer {}
        };
        let header = html! { (self.nav(current, how)) (self.refresh_form(interval)) };
        let content = html! { (self.notice()) (content) };
        shell(title, heading, &head, &header, &self.footer(), &content)
    }

    fn nav(&self, current: &str, how: &str) -> Markup {
        html! {
            nav aria-label="Pages" { ul { @for (page, name) in PAGES {
                @let current = (page == current).then_some(how);
                li { a href=(self.link(page, &[])) aria-current=[current] { (name) } }
            } } }
        }
    }

    /// Returns the field of a form that keeps the interval that the viewer has chosen.
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
                label for="refresh" { "Refresh" } " "
                select #refresh name="refresh" { @for of in INTERVALS {
                    option value=(of) selected[of == interval] {
                        @if of == 0 { "off" } @else { "every " (of) " s" }
                    }
                } }
                noscript { button type="submit" { "Set" } }
            }
        }
    }

    /// Returns what an action has done. Only known codes are shown, as any site may link to this address.
    fn notice(&self) -> Markup {
        html! {
            @if let Some(text) = self.params.get("done").and_then(Done::text_of) {
                p.notice role="status" { (text) }
            }
        }
    }

    fn footer(&self) -> Markup {
        html! {
            footer {
                @if let Some(name) = self.viewer.name() { p { "You are " (text(name)) "." } }
                p { "This process: " (text(&self.process)) "." }
                p.state #live-state role="status" {}
                p.state #stream-state role="status" {}
            }
        }
    }
}

/// Returns a page without navigation, which is not refreshed.
pub(super) fn bare_page(title: &str, head: &Markup, content: &Markup) -> Markup {
    let none = html! {};
    shell(title, &html! { (title) }, head, &none, &none, content)
}

/// Returns the links to the dashboard's files, for the head of a page.
pub(super) fn files() -> Markup {
    html! {
        link rel="stylesheet" href="style.css";
        link rel="icon" href="icon.svg" type="image/svg+xml";
    }
}

fn shell(
    title: &str,
    heading: &Markup,
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
