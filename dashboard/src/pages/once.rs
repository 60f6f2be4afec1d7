//! What the servers know of a key of once.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{
    layout::{RegionSource, Visit, actions, freshness, look_json, reading, region, trouble},
    words::{ago, text, token, until},
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
            (visit.interval_field())
            label for="key" { "Key" } " "
            input #key type="search" name="key" value=[key] required; " "
            button type="submit" { "Look it up" }
        }
        @if let Some(key) = key {
            (region("key-state", "State", RegionSource::Fleet, &html! {
                @match &look {
                    Some(look) => (details(look, visit, key)),
                    None => (reading()),
                }
            }))
        }
    };
    visit.page("once", "Once", &content)
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
                    @if let Some(ends) = look.value.ends(status) {
                        div { dt { "Record expires" } dd { (until(ends, visit.now)) } }
                    }
                    div { dt { "Fencing token" } dd { (token(status.token.get())) } }
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
    let fleet = look.map(|look| {
        let mut value = look.value.json(key);
        value["look"] = look_json(&look);
        value
    });
    Some(json!({ "fleet": fleet }))
}
