//! Every lock of the fleet, and the requests of this process that wait.

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::lock::{Snapshot, WaitingName};

use super::{
    layout::{RegionSource, Visit, freshness, pager, reading, region, trouble},
    words::{ago, span, text, token, until},
};
use crate::{
    look::{LockListing, Look, ShownLock, millis},
    query::Params,
    router::Site,
};

/// Number of locks on a page.
const PAGE: usize = 200;
/// Maximum number of waiting names that are shown.
const MAX_WAITING: usize = 100;

/// The locks that a viewer asked for.
struct LockPage<'a> {
    locks: Vec<&'a ShownLock>,
    /// How many match the search.
    found: usize,
    number: usize,
    pages: usize,
}

impl<'a> LockPage<'a> {
    fn of(listing: &'a LockListing, params: &Params) -> Self {
        let wanted = params.get("q").map(str::to_lowercase);
        let is_wanted = |lock: &&ShownLock| wanted.as_ref().is_none_or(|wanted| lock.has(wanted));
        let found: Vec<_> = listing.locks.iter().filter(is_wanted).collect();
        let pages = found.len().div_ceil(PAGE).max(1);
        let number = params.number("page").unwrap_or(1).clamp(1, pages);
        let locks = found.iter().skip((number - 1) * PAGE).take(PAGE).copied().collect();
        Self { locks, found: found.len(), number, pages }
    }
}

pub(crate) async fn locks(site: &Site, visit: &Visit) -> Markup {
    let look = site.looks.locks(&site.redlock).await;
    let fleet = html! {
        @match &look {
            Some(look) => (fleet(look, visit)),
            None => (reading()),
        }
    };
    let snapshot = site.redlock.snapshot();
    let content = html! {
        (search(visit))
        (region("fleet-locks", "Locks", RegionSource::Fleet, &fleet))
        (region("waiting", "Waiting requests", RegionSource::Process, &waiting(&snapshot, visit)))
        (region("held-here", "Held here", RegionSource::Process, &held(&snapshot)))
    };
    visit.page("locks", "Locks", &content)
}

fn search(visit: &Visit) -> Markup {
    html! {
        form.search method="get" action="locks" role="search" {
            (visit.interval_field())
            label for="q" { "Name or owner" }
            " "
            input #q type="search" name="q" value=[visit.params.get("q")];
            " "
            button type="submit" { "Search" }
        }
    }
}

fn fleet(look: &Look<LockListing>, visit: &Visit) -> Markup {
    let listing = &look.value;
    let page = LockPage::of(listing, &visit.params);
    html! {
        (freshness(look))
        (trouble(listing.error.as_deref()))
        p.count {
            (page.found) @if page.found == 1 { " lock" } @else { " locks" }
            @if page.found < listing.locks.len() { " of " (listing.locks.len()) }
            @if listing.more { ", and more than can be read" }
            "."
        }
        @if !page.locks.is_empty() {
            div #locks-scroll.scroll tabindex="0" role="region" aria-label="Table of locks" { table {
                thead { tr {
                    th scope="col" { "Name" } th scope="col" { "Owner" } th scope="col" { "Held" }
                    th scope="col" { "Ends" } th.number scope="col" { "Token" }
                    th scope="col" { "Nodes" } th scope="col" { "Others wait" }
                } }
                tbody { @for lock in &page.locks { (row(lock, visit)) } }
            } }
        }
        (pager(visit, "locks", page.number, page.pages))
    }
}

fn row(lock: &ShownLock, visit: &Visit) -> Markup {
    html! {
        tr data-lock=(lock.name) .minority[!lock.is_quorum] {
            th scope="row" { a href=(visit.link("lock", &[("name", &*lock.name)])) { (text(&lock.name)) } }
            td { @match &lock.owner {
                Some(owner) => (text(owner)),
                None => em { "a foreign key" },
            } }
            td { @match lock.since {
                Some(since) => (ago(since, visit.now)),
                None => "–",
            } }
            td { @match lock.ends {
                Some(ends) => (until(ends, visit.now)),
                None => "never",
            } }
            td.number { (token(lock.token)) }
            td {
                (lock.kept) "/" (lock.nodes)
                @if !lock.is_quorum { " " em { "leftover or attempt" } }
            }
            td { @if lock.is_awaited { "yes" } }
        }
    }
}

fn waiting(snapshot: &Snapshot, visit: &Visit) -> Markup {
    let (waiting, rest) = snapshot.waiting.split_at(snapshot.waiting.len().min(MAX_WAITING));
    html! {
        @if waiting.is_empty() {
            p { "No request of this process waits." }
        } @else {
            div #waiting-scroll.scroll tabindex="0" role="region" aria-label="Table of waiting requests" { table {
                thead { tr {
                    th scope="col" { "Name" } th.number scope="col" { "Requests" } th scope="col" { "Oldest" }
                } }
                tbody { @for WaitingName { name, requests, oldest, .. } in waiting {
                    tr data-waiting=(name) {
                        th scope="row" { a href=(visit.link("lock", &[("name", &**name)])) { (text(name)) } }
                        td.number { (requests) }
                        td { (span(*oldest)) }
                    }
                } }
            } }
            @if !rest.is_empty() { p { "And " (rest.len()) " further names." } }
        }
    }
}

fn held(snapshot: &Snapshot) -> Markup {
    let unacknowledged: usize = snapshot.unacknowledged.iter().sum();
    html! {
        dl {
            div { dt { "Locks held by this process" } dd { (snapshot.locks.len()) } }
            div { dt { "Releases on their way" } dd { (snapshot.releasing) } }
            div { dt { "Releases that a node has not acknowledged" } dd { (unacknowledged) } }
        }
    }
}

pub(crate) async fn locks_json(site: &Site, params: &Params) -> Value {
    let snapshot = site.redlock.snapshot();
    let waiting: Vec<_> = snapshot
        .waiting
        .iter()
        .map(|name| json!({ "name": name.name, "requests": name.requests, "oldest_ms": millis(name.oldest) }))
        .collect();
    let fleet = site.looks.locks(&site.redlock).await.map(|look| {
        let page = LockPage::of(&look.value, params);
        json!({
            "locks": page.locks,
            "found": page.found,
            "page": page.number,
            "pages": page.pages,
            "more": look.value.more,
            "error": look.value.error,
            "look": super::layout::look_json(&look),
        })
    });
    json!({
        "fleet": fleet,
        "process": {
            "waiting": waiting,
            "held": snapshot.locks.len(),
            "releasing": snapshot.releasing,
            "unacknowledged": snapshot.unacknowledged,
        },
    })
}
