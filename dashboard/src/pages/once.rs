//! What the servers know of a key of once.

use maud::{Markup, html};
use serde_json::Value;

use super::{
    layout::{RegionSource, Visit, actions, freshness, reading, region, trouble},
    words::{ago, span, text},
};
use crate::{
    access::Action,
    look::{Look, OnceDetails},
    router::Site,
};

pub(crate) async fn once(site: &Site, visit: &Visit) -> Markup {
    let key = visit.params.exact("key");
    let look = match key {
        Some(key) => site.looks.once(&site.redlock, key).await,
        None => None,
    };
    let content = html! {
        form.search method="get" action="once" role="search" {
            @for (name, value) in visit.params.without(&["key", "done"]) {
                input type="hidden" name=(name) value=(value);
            }
            label for="key" { "Key" } " "
            input #key type="search" name="key" value=[key] required; " "
            button type="submit" { "Look it up" }
        }
        @if let Some(key) = key {
            (region("key-state", "State", RegionSource::Fleet, html! {
                @match &look {
                    Some(look) => (details(look, visit, key)),
                    None => (reading()),
                }
            }))
        }
    };
    visit.page("once", "Once", content)
}

fn details(look: &Look<OnceDetails>, visit: &Visit, key: &str) -> Markup {
    let offered = [
        (Action::MarkDone, "Record it as done"),
        (Action::ForgetKey, "Forget it, so that it runs again"),
    ];
    html! {
        p.subject { (text(key)) }
        (freshness(look))
        @match &look.value.status {
            Err(error) => (trouble(Some(error))),
            Ok(None) => {
                p data-once="none" { "The servers know nothing of it: nothing was begun, or its record has expired." }
                (actions(visit, ("key", key), &offered[..1]))
            }
            Ok(Some(status)) => {
                p data-once=(OnceDetails::state(status)) { strong { (OnceDetails::state(status)) } }
                @if OnceDetails::state(status) == "unknown" {
                    p { "The work was begun, and its end is not recorded: find out whether it had its effect, and \
                        then record it as done, or forget it." }
                }
                dl {
                    div { dt { "By" } dd { @match &status.by { Some(by) => (text(by)), None => "unknown" } } }
                    @if let Some(since) = status.since {
                        div { dt { "Since" } dd { (ago(since, visit.now)) } }
                    }
                    @if let Some(left) = status.remaining {
                        div { dt { "Recorded for another" } dd { (span(left)) } }
                    }
                    div { dt { "Fencing token" } dd { (status.token) } }
                }
                (actions(visit, ("key", key), &offered))
            }
        }
    }
}

/// `None` without a key.
pub(crate) async fn once_json(site: &Site, key: Option<&str>) -> Option<Value> {
    let key = key?;
    let look = site.looks.once(&site.redlock, key).await;
    Some(serde_json::json!({ "fleet": look.map(|look| look.value.json(key)) }))
}
