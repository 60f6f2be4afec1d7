//! What the servers know of a key of once.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{
    layout::Visit,
    region::{RegionSource, actions, snapshot_json, snapshot_region, trouble},
    sets::{set_of, with_set},
    words::{ago, text, token, until},
};
use crate::{
    access::{Action, Subject},
    cache::OnceDetails,
    site::Site,
};

pub(crate) async fn once(site: &Site, visit: &Visit) -> Markup {
    let key = visit.params.exact("key");
    let snapshot = match key {
        Some(key) => site.snapshots.once(key).await,
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
            (set_of(site, visit, Subject::Key, key))
            (snapshot_region("key-state", "State", RegionSource::Fleet, snapshot.as_deref(), |once| details(once, visit, key)))
        }
    };
    visit.page("once", "Once", &content)
}

fn details(once: &OnceDetails, visit: &Visit, key: &str) -> Markup {
    let offered = [
        (Action::MarkDone, "Record it as done"),
        (Action::ForgetKey, "Forget it, so that it runs again"),
    ];
    html! {
        p.subject { (text(key)) }
        @match &once.status {
            Err(error) => (trouble(Some(error))),
            Ok(None) => {
                p data-once="none" { "The servers know nothing of it: nothing was begun, or its record has expired." }
                (actions(visit, key, &offered[..1]))
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
                    @if let Some(ends) = once.ends(status) {
                        div { dt { "Record expires" } dd { (until(ends, visit.now)) } }
                    }
                    div { dt { "Fencing token" } dd { (token(status.token.get())) } }
                }
                (actions(visit, key, &offered))
            }
        }
    }
}

pub(crate) async fn once_json(site: &Site, key: &str) -> Value {
    let fleet = site.snapshots.once(key).await.map(|snapshot| {
        let mut value = snapshot.value.json(key);
        value["look"] = snapshot_json(&snapshot);
        value
    });
    with_set(json!({ "fleet": fleet }), site.set_of(Subject::Key, key))
}
