//! The last events of this process, live.

use std::sync::Arc;

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{
    layout::Visit,
    region::RegionSource,
    words::{moment, text},
};
use crate::{events::NumberedEvent, site::Site};

pub(crate) fn events(site: &Site, visit: &Visit) -> Markup {
    let mut events = site.log.after(0);
    events.reverse();
    let last = events.first().map_or(0, |event| event.id);
    let (from, words) = RegionSource::Process.names();
    let content = html! {
        section #events data-from=(from) aria-labelledby="events-title" {
            h2 #events-title { "Events " small.from { (words) } }
            p {
                "The last 1,000, the newest first: locks that were acquired after a wait, refused or lost, nodes that \
                stop voting or return, runs of jobs, and actions of viewers. A lock that is acquired at once and \
                released in time is no event."
            }
            @if events.is_empty() { p #no-events { "Nothing has happened yet." } }
            ul #event-list.events data-last=(last) { @for event in &events { (row(event)) } }
        }
    };
    visit.page("events", "Events", &content)
}

fn row(NumberedEvent { event, .. }: &NumberedEvent) -> Markup {
    let class = if event.is_bad { "bad" } else { "good" };
    html! {
        li.(class) data-event=(event.kind) {
            (moment(event.at)) " " b { (event.kind.replace('_', " ")) } " " (text(&event.text))
        }
    }
}

/// Returns events as a list, the newest first.
pub(super) fn event_list(events: &[Arc<NumberedEvent>]) -> Markup {
    html! {
        @if events.is_empty() {
            p { "None that this process knows of." }
        } @else {
            ul.events { @for event in events { (row(event)) } }
        }
    }
}

pub(crate) fn events_json(site: &Site) -> Value {
    let events: Vec<_> = site.log.after(0).iter().map(|event| event.json()).collect();
    json!({ "process": { "events": events } })
}
