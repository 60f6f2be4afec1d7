//! Who leads.

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::Resource;

use super::{
    layout::Visit,
    region::{RegionSource, snapshot_json, snapshot_region, table, trouble},
    sets::SetColumn,
    words::{ago, text, token, until},
};
use crate::{
    access::Subject,
    cache::{LockListing, ShownLock},
    site::Site,
};

pub(crate) async fn leaders(site: &Site, visit: &Visit) -> Markup {
    let snapshot = site.locks().await;
    let content =
        snapshot_region("leaders", "Leaders", RegionSource::Fleet, snapshot.as_deref(), |locks| {
            listing(locks, visit, SetColumn::new(site, Subject::Lock))
        });
    visit.page("leaders", "Leaders", &content)
}

/// Returns the leaders among the locks, with the names of their elections.
fn among(listing: &LockListing) -> impl Iterator<Item = (&str, &ShownLock)> {
    let of = |name: &str| Resource::of_leader(name).map(|of| of.to_string()).unwrap_or_default();
    let prefix = of("x").trim_end_matches('x').to_owned();
    let held = listing.locks.iter().filter(|lock| lock.is_quorum);
    held.filter_map(move |lock| Some((lock.name.strip_prefix(&*prefix)?, lock)))
}

fn listing(locks: &LockListing, visit: &Visit, sets: SetColumn<'_>) -> Markup {
    const COLUMNS: [&str; 5] = ["Name", "Leader", "Since", "Ends", "#Token"];
    let leaders: Vec<_> = among(locks).collect();
    html! {
        (trouble(locks.error.as_deref()))
        @if locks.more { p.trouble { "There are more locks than can be read: leaders may be missing here." } }
        @if leaders.is_empty() {
            p { "No process leads." }
        } @else {
            (table("leaders", "leaders", &sets.after(&COLUMNS), &html! { @for (name, lock) in leaders {
                tr data-leader=(name) {
                    th scope="row" { a href=(visit.link("lock", &[("name", &*lock.name)])) { (text(name)) } }
                    td { @if let Some(owner) = &lock.owner { (text(owner)) } }
                    td { @match lock.since { Some(since) => (ago(since, visit.now)), None => "–" } }
                    td { @match lock.ends { Some(ends) => (until(ends, visit.now)), None => "never" } }
                    td.number { (token(lock.token)) }
                    (sets.cell(&lock.name))
                }
            } }))
        }
    }
}

pub(crate) async fn leaders_json(site: &Site) -> Value {
    let fleet = site.locks().await.map(|snapshot| {
        let sets = SetColumn::new(site, Subject::Lock);
        let leader = |(name, lock): (&str, &ShownLock)| {
            sets.json(json!({ "leads": name, "lock": lock }), &lock.name)
        };
        let leaders: Vec<_> = among(&snapshot.value).map(leader).collect();
        json!({ "leaders": leaders, "more": snapshot.value.more, "error": snapshot.value.error, "look": snapshot_json(&snapshot) })
    });
    json!({ "fleet": fleet })
}
