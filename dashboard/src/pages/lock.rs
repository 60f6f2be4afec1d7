//! One lock: its holder, the key on each node, and its last events.

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::Resource;

use super::{
    events::event_list,
    layout::Visit,
    locks::{slot_of, waiting_json},
    region::{RegionSource, actions, region, snapshot_json, snapshot_region, trouble},
    sets::{set_of, with_set},
    timeline::{holders_json, timeline},
    words::{ago, span, text, token, until},
};
use crate::{
    access::{Action, Subject},
    cache::{HeldLock, LockDetails, ShownLock},
    events::EventSource,
    site::Site,
};

/// Maximum number of events that are shown.
const MAX_EVENTS: usize = 20;

pub(crate) async fn lock(site: &Site, visit: &Visit, name: &str) -> Markup {
    let snapshot = site.lock(name).await;
    let content = html! {
        (other_slots(visit, name))
        (set_of(site, visit, Subject::Lock, name))
        (snapshot_region("holder", "Holder", RegionSource::Fleet, snapshot.as_deref(), |lock| holder(lock, visit, name)))
        (region("here", "In this process", RegionSource::Process, &here(site, visit, name)))
        (region("holders", "Holders of late", RegionSource::Both, &timeline(&site.recent.holdings(name), visit)))
        (region("lock-events", "Last events", RegionSource::Process, &html! {
            (event_list(&site.log.about(EventSource::Lock, name, MAX_EVENTS)))
        }))
    };
    visit.subpage("locks", "Lock", &Resource::display_name(name), &content)
}

/// Returns a link to all slots of a name, if this is one of them, or the line of requests for any of them.
fn other_slots(visit: &Visit, name: &str) -> Markup {
    let of = slot_of(name).1;
    html! {
        @if let Some(of) = of {
            @let search = format!("{of}, slot");
            p {
                @if Resource::any_slot_of(name).is_some() {
                    "No lock, but the requests of this process for any slot. "
                }
                a #slots href=(visit.link("locks", &[("q", &*search)])) { "The slots that are held" }
            }
        }
    }
}

fn holder(holder: &LockDetails, visit: &Visit, name: &str) -> Markup {
    html! {
        @match holder {
            Err(error) => (trouble(Some(error))),
            Ok(None) => p { "No process holds it." },
            Ok(Some(held)) => {
                (holder_facts(held, visit))
                @if held.shown.owner.is_some() {
                    (actions(visit, name, &[(Action::BreakLock, "Take it away from its holder")]))
                }
            }
        }
    }
}

/// Returns what is known of a holder.
pub(super) fn holder_facts(held: &HeldLock, visit: &Visit) -> Markup {
    let lock = &held.shown;
    html! {
        @if !lock.is_quorum {
            p { strong { "Not held." } " Fewer than a quorum of nodes have a key: of an attempt that is under way, \
                or left behind by a holder that crashed. It goes by itself." }
        }
        dl {
            @if lock.readers > 0 {
                (readers(lock, visit))
            } @else {
                div { dt { "Owner" } dd { @match &lock.owner {
                    Some(owner) => (text(owner)),
                    None => em { "a key that tower-redlock did not write" },
                } } }
                @if let Some(since) = lock.since {
                    div { dt { "Held since" } dd { (ago(since, visit.now)) ", by the holder's clock" } }
                }
            }
            div { dt { "Ends" } dd { @match lock.ends {
                Some(ends) => { (until(ends, visit.now)) " unless it is renewed" },
                None => "never: it has no TTL, and stays until it is deleted",
            } } }
            div { dt { "Fencing token" } dd {
                @if lock.readers > 0 { "not kept by the servers for a shared lock" } @else { (token(lock.token)) }
            } }
            div { dt { "May linger unused" } dd { @if lock.lingers { "yes, until another process asks" } @else { "no" } } }
            div { dt { "Other processes wait" } dd { @if lock.is_awaited { "yes, or did" } @else { "no" } } }
        }
        table {
            caption { "What each node keeps" }
            thead { tr { th scope="col" { "Node" } th scope="col" { "Key" } } }
            tbody { @for (node, words) in held.votes() {
                tr { th scope="row" { (text(&node)) } td { (text(&words)) } }
            } }
        }
    }
}

/// Returns the processes that share a lock.
fn readers(lock: &ShownLock, visit: &Visit) -> Markup {
    html! {
        div { dt { "Mode" } dd { "shared by " (lock.readers) @if lock.readers == 1 { " reader" } @else { " readers" } } }
        @for reader in &lock.shared_by {
            div { dt { "Reader" } dd {
                (text(&reader.owner))
                @if let Some(since) = reader.since { ", since " (ago(since, visit.now)) ", by its own clock" }
            } }
        }
        @if lock.readers > lock.shared_by.len() {
            div { dt { "Reader" } dd { (lock.readers - lock.shared_by.len()) " more" } }
        }
    }
}

fn here(site: &Site, visit: &Visit, name: &str) -> Markup {
    let snapshot = site.redlock.snapshot();
    let held = snapshot.locks.iter().find(|lock| lock.resource.names().any(|of| of == name));
    let waiting = snapshot.waiting.iter().find(|waiting| &*waiting.name == name);
    html! {
        dl {
            div { dt { "Held here" } dd { @match held {
                Some(held) => {
                    "since " (ago(held.since, visit.now))
                    @if held.is_shared { ", shared" }
                    @if held.token.get() > 0 { ", token " (held.token) }
                    ", valid for another "
                    (span(held.remaining))
                }
                None => "no",
            } } }
            div { dt { "Requests that wait" } dd { @match waiting {
                Some(waiting) => { (waiting.requests) ", the oldest for " (span(waiting.oldest)) }
                None => "none",
            } } }
        }
    }
}

pub(crate) async fn lock_json(site: &Site, name: &str) -> Value {
    let events = site.log.about(EventSource::Lock, name, MAX_EVENTS);
    let events: Vec<_> = events.iter().map(|event| event.json()).collect();
    let waiting = site.redlock.snapshot().waiting;
    let waiting = waiting.iter().find(|waiting| &*waiting.name == name).map(waiting_json);
    let fleet = site.lock(name).await.map(|snapshot| {
        let holder = snapshot.value.as_ref().ok().and_then(Option::as_ref);
        let votes = holder.map(HeldLock::votes).unwrap_or_default().into_iter();
        let nodes: Vec<_> =
            votes.map(|(node, words)| json!({ "node": node, "keeps": words })).collect();
        json!({
            "holder": holder.map(|held| &held.shown),
            "nodes": nodes,
            "error": snapshot.value.as_ref().err(),
            "look": snapshot_json(&snapshot),
        })
    });
    let (slot, slot_of) = slot_of(name);
    let value = json!({
        "name": name,
        "slot": slot,
        "slot_of": slot_of,
        "fleet": fleet,
        "process": { "waiting": waiting, "events": events },
        "holders": holders_json(&site.recent.holdings(name)),
    });
    with_set(value, site.set_of(Subject::Lock, name))
}
