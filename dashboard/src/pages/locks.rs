//! Every lock of the fleet, and the requests of this process that wait.

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::{
    Resource,
    lock::{Owed, Snapshot, WaitingName},
};

use super::{
    layout::Visit,
    region::{RegionSource, pager, region, snapshot_json, snapshot_region, table, trouble},
    sets::SetColumn,
    words::{ago, span, text, token, until},
};
use crate::{
    access::Subject,
    cache::{LockListing, ShownLock},
    paging::Paging,
    query::Params,
    site::Site,
    text::millis,
};

/// Number of locks on a page.
const PAGE_SIZE: usize = 200;
/// Maximum number of waiting names that are shown.
const MAX_WAITING: usize = 100;
/// Maximum number of owed ends that are shown.
const MAX_OWED: usize = 100;

/// Maximum number of readers that a row names.
const MAX_NAMED_READERS: usize = 3;

/// Returns the locks that match the search of a viewer, on the page that it asks for.
fn found<'a>(listing: &'a LockListing, params: &Params) -> (Paging, Vec<&'a ShownLock>) {
    let wanted = params.get("q").map(str::to_lowercase);
    let is_wanted = |lock: &&ShownLock| wanted.as_ref().is_none_or(|wanted| lock.has(wanted));
    let found: Vec<_> = listing.locks.iter().filter(is_wanted).collect();
    let paging = Paging::new(found.len(), PAGE_SIZE, params.page());
    (paging, found[paging.range()].to_vec())
}

pub(crate) async fn locks(site: &Site, visit: &Visit) -> Markup {
    let listing = site.locks().await;
    let (snapshot, sets) = (site.redlock.snapshot(), SetColumn::new(site, Subject::Lock));
    let content = html! {
        (search(visit))
        (snapshot_region("fleet-locks", "Locks", RegionSource::Fleet, listing.as_deref(), |locks| fleet(locks, visit, sets)))
        (region("waiting", "Waiting requests", RegionSource::Process, &waiting(&snapshot, visit, sets)))
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

fn fleet(listing: &LockListing, visit: &Visit, sets: SetColumn<'_>) -> Markup {
    const COLUMNS: [&str; 7] = ["Name", "Owner", "Held", "Ends", "#Token", "Nodes", "Others wait"];
    let (paging, locks) = found(listing, &visit.params);
    html! {
        (trouble(listing.error.as_deref()))
        p.count {
            (paging.found) @if paging.found == 1 { " lock" } @else { " locks" }
            @if paging.found < listing.locks.len() { " of " (listing.locks.len()) }
            @if listing.more { ", and more than can be read" }
            "."
        }
        @if !locks.is_empty() {
            (table("locks", "locks", &sets.after(&COLUMNS), &html! { @for lock in locks { (row(lock, visit, sets)) } }))
        }
        (pager(visit, "locks", paging))
    }
}

fn row(lock: &ShownLock, visit: &Visit, sets: SetColumn<'_>) -> Markup {
    html! {
        tr data-lock=(lock.name) .minority[!lock.is_quorum] {
            th scope="row" { a href=(visit.link("lock", &[("name", &*lock.name)])) { (text(&lock.display_name())) } }
            td { (owners(lock)) }
            td { @match lock.since { Some(since) => (ago(since, visit.now)), None => "–" } }
            td { @match lock.ends { Some(ends) => (until(ends, visit.now)), None => "never" } }
            td.number { (token(lock.token)) }
            td {
                (lock.kept) "/" (lock.nodes)
                @if !lock.is_quorum { " " em { "leftover or attempt" } }
            }
            td { @if lock.is_awaited { "yes" } }
            (sets.cell(&lock.name))
        }
    }
}

/// Returns the owner of a lock, or its readers.
fn owners(lock: &ShownLock) -> Markup {
    html! {
        @match &lock.owner {
            _ if lock.readers > 0 => {
                (lock.readers) @if lock.readers == 1 { " reader: " } @else { " readers: " }
                @for (nth, reader) in lock.shared_by.iter().take(MAX_NAMED_READERS).enumerate() {
                    @if nth > 0 { ", " }
                    (text(&reader.owner))
                }
                @if lock.readers > MAX_NAMED_READERS { " and " (lock.readers - MAX_NAMED_READERS) " more" }
            }
            Some(owner) => (text(owner)),
            None => em { "a foreign key" },
        }
    }
}

fn waiting(snapshot: &Snapshot, visit: &Visit, sets: SetColumn<'_>) -> Markup {
    let (waiting, rest) = snapshot.waiting.split_at(snapshot.waiting.len().min(MAX_WAITING));
    html! {
        @if waiting.is_empty() {
            p { "No request of this process waits." }
        } @else {
            (table("waiting", "waiting requests", &sets.after(&["Name", "#Requests", "Oldest"]), &html! {
                @for WaitingName { name, requests, oldest, .. } in waiting {
                    tr data-waiting=(name) {
                        th scope="row" { a href=(visit.link("lock", &[("name", &**name)])) { (text(&Resource::display_name(name))) } }
                        td.number { (requests) }
                        td { (span(*oldest)) }
                        (sets.cell(name))
                    }
                }
            }))
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
            div { dt { "Ends that a server has not acknowledged" } dd { (unacknowledged) } }
        }
        @if !snapshot.owed.is_empty() {
            p { "Too few servers have stored that this work has ended. This process sends it until they have." }
            (table("owed", "ends that are owed", &["Name", "What", "Since", "Protected"], &html! {
                @for owed in snapshot.owed.iter().take(MAX_OWED) {
                    tr data-owed=(owed.name) {
                        th scope="row" { (text(&Resource::display_name(&owed.name))) }
                        td { (owed.kind.to_string()) }
                        td { (span(owed.age)) }
                        td { @if owed.is_protected { "by its lock" } @else { strong { "no: it may run again" } } }
                    }
                }
            }))
            @if snapshot.owed.len() > MAX_OWED { p { "And " (snapshot.owed.len() - MAX_OWED) " further ones." } }
        }
    }
}

fn owed_json(owed: &Owed) -> Value {
    json!({
        "name": owed.name,
        "kind": owed.kind.to_string(),
        "age_ms": millis(owed.age),
        "protected": owed.is_protected,
    })
}

pub(super) fn waiting_json(of: &WaitingName) -> Value {
    let (slot, slot_of) = slot_of(&of.name);
    json!({
        "name": of.name,
        "slot": slot,
        "slot_of": slot_of,
        "requests": of.requests,
        "oldest_ms": millis(of.oldest),
    })
}

/// Returns the number of a slot, without one for any slot, and the name that it belongs to.
pub(super) fn slot_of(name: &str) -> (Option<u32>, Option<&str>) {
    let (slot, of) = Resource::slot_of(name).unzip();
    (slot, of.or_else(|| Resource::any_slot_of(name)))
}

pub(crate) async fn locks_json(site: &Site, params: &Params) -> Value {
    let snapshot = site.redlock.snapshot();
    let sets = SetColumn::new(site, Subject::Lock);
    let waiting = snapshot.waiting.iter().map(|of| sets.json(waiting_json(of), &of.name));
    let waiting: Vec<_> = waiting.collect();
    let fleet = site.locks().await.map(|snapshot| {
        let (paging, locks) = found(&snapshot.value, params);
        let locks: Vec<_> =
            locks.into_iter().map(|lock| sets.json(json!(lock), &lock.name)).collect();
        json!({
            "locks": locks,
            "found": paging.found,
            "page": paging.number,
            "pages": paging.pages,
            "more": snapshot.value.more,
            "error": snapshot.value.error,
            "look": snapshot_json(&snapshot),
        })
    });
    json!({
        "fleet": fleet,
        "process": {
            "waiting": waiting,
            "held": snapshot.locks.len(),
            "releasing": snapshot.releasing,
            "unacknowledged": snapshot.unacknowledged,
            "owed": snapshot.owed.iter().map(owed_json).collect::<Vec<_>>(),
        },
    })
}
