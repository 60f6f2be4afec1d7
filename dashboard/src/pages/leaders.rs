//! Who leads.

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::Resource;

use super::{
    layout::{RegionSource, Visit, freshness, look_json, reading, region, trouble},
    words::{ago, text, token, until},
};
use crate::{
    look::{LockListing, Look, ShownLock},
    router::Site,
};

pub(crate) async fn leaders(site: &Site, visit: &Visit) -> Markup {
    let look = site.looks.locks(&site.redlock).await;
    let content = region(
        "leaders",
        "Leaders",
        RegionSource::Fleet,
        &html! {
            @match &look {
                Some(look) => (listing(look, visit)),
                None => (reading()),
            }
        },
    );
    visit.page("leaders", "Leaders", &content)
}

/// The leaders among the locks, with the names that they lead under.
fn among(listing: &LockListing) -> impl Iterator<Item = (&str, &ShownLock)> {
    let of = |name: &str| Resource::of_leader(name).map(|of| of.to_string()).unwrap_or_default();
    let prefix = of("x").trim_end_matches('x').to_owned();
    let held = listing.locks.iter().filter(|lock| lock.is_quorum);
    held.filter_map(move |lock| Some((lock.name.strip_prefix(&*prefix)?, lock)))
}

fn listing(look: &Look<LockListing>, visit: &Visit) -> Markup {
    let leaders: Vec<_> = among(&look.value).collect();
    html! {
        (freshness(look))
        (trouble(look.value.error.as_deref()))
        @if look.value.more { p.trouble { "There are more locks than can be read: leaders may be missing here." } }
        @if leaders.is_empty() {
            p { "Nobody leads." }
        } @else {
            div #leaders-scroll.scroll tabindex="0" role="region" aria-label="Table of leaders" { table {
                thead { tr {
                    th scope="col" { "Name" } th scope="col" { "Leader" } th scope="col" { "Since" }
                    th scope="col" { "Ends" } th.number scope="col" { "Token" }
                } }
                tbody { @for (name, lock) in leaders {
                    tr data-leader=(name) {
                        th scope="row" { a href=(visit.link("lock", &[("name", &*lock.name)])) { (text(name)) } }
                        td { @if let Some(owner) = &lock.owner { (text(owner)) } }
                        td { @match lock.since { Some(since) => (ago(since, visit.now)), None => "–" } }
                        td { @match lock.ends { Some(ends) => (until(ends, visit.now)), None => "never" } }
                        td.number { (token(lock.token)) }
                    }
                } }
            } }
        }
    }
}

pub(crate) async fn leaders_json(site: &Site) -> Value {
    let fleet = site.looks.locks(&site.redlock).await.map(|look| {
        let leaders: Vec<_> =
            among(&look.value).map(|(name, lock)| json!({ "leads": name, "lock": lock })).collect();
        json!({ "leaders": leaders, "more": look.value.more, "error": look.value.error, "look": look_json(&look) })
    });
    json!({ "fleet": fleet })
}
