//! The first page: whether all is well, and where it is not.

use std::{collections::HashMap, sync::Arc, time::Duration};

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::{
    Resource,
    diagnosis::Diagnosis,
    lock::{Snapshot, WaitingName},
    scheduler::JobStatus,
};

use super::{
    activity::{activity, activity_json},
    health::{
        FleetJobs, JobTrouble, Level, MISSED_TIME, Tile, TroubleKind, held, jobs, losses, owed,
        troubles, votes, waiting,
    },
    layout::Visit,
    region::{RegionSource, region, table, trouble},
    sets::{SetColumn, sets_region, works},
    words::{counted, number, span, text},
};
use crate::{
    access::Subject,
    cache::{FleetSnapshot, LockListing},
    recent::{NameWaits, RatesView},
    site::Site,
    text::millis,
};

/// Maximum number of contended names that are shown.
const MAX_CONTENDED: usize = 10;
/// Maximum number of jobs that are shown.
const MAX_TROUBLES: usize = 20;

/// What the overview is made of.
struct Facts {
    nodes: Option<Arc<FleetSnapshot<Diagnosis>>>,
    locks: Option<Arc<FleetSnapshot<LockListing>>>,
    /// `None` if they are being read for the first time.
    jobs: Option<FleetJobs>,
    here: Vec<JobStatus>,
    snapshot: Snapshot,
    rates: RatesView,
    /// Time for which this process has recorded.
    recorded: Duration,
    contended: Vec<Contended>,
}

/// A name that requests of this process wait for, or waited for in the last 15 minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Contended {
    name: Arc<str>,
    waiting: usize,
    oldest: Duration,
    past: NameWaits,
}

impl Facts {
    async fn read(site: &Site) -> Self {
        let (nodes, locks, pages) =
            tokio::join!(site.snapshots.nodes(), site.locks(), site.snapshots.all_jobs());
        let jobs = fleet_jobs(&pages);
        let (snapshot, rates) = (site.redlock.snapshot(), site.recent.rates());
        let contended = contended(&snapshot.waiting, site.recent.contended());
        let (here, recorded) = (site.jobs(), site.recent.age());
        Self { nodes, locks, jobs, here, snapshot, rates, recorded, contended }
    }

    fn troubles(&self, now: std::time::SystemTime) -> Vec<JobTrouble> {
        let fleet = self.jobs.as_ref().map_or(&[][..], |fleet| &fleet.jobs);
        troubles(fleet, &self.here, now)
    }

    fn tiles(&self, troubles: &[JobTrouble]) -> Vec<Tile> {
        let fleet = self.jobs.as_ref().map_or(&[][..], |fleet| &fleet.jobs);
        let is_new = |job: &&JobStatus| fleet.iter().all(|other| other.name != job.name);
        let count = fleet.len() + self.here.iter().filter(is_new).count();
        let tiles = [
            votes(self.nodes.as_ref().map(|snapshot| &snapshot.value)),
            held(self.locks.as_deref()),
            waiting(&self.snapshot),
            jobs(self.jobs.as_ref(), count, troubles),
            losses(&self.rates, self.recorded),
        ];
        tiles.into_iter().chain(owed(&self.snapshot, &self.rates)).collect()
    }
}

fn fleet_jobs(pages: &[Option<Arc<FleetSnapshot<crate::cache::JobListing>>>]) -> Option<FleetJobs> {
    pages.first()?.as_ref()?;
    let mut fleet = FleetJobs::default();
    for page in pages {
        let Some(snapshot) = page else {
            fleet.is_partial = true;
            continue;
        };
        fleet.jobs.extend(snapshot.value.jobs.iter().cloned());
        fleet.is_partial |= snapshot.is_partial || snapshot.value.more;
        fleet.error = fleet.error.or_else(|| snapshot.value.error.clone());
    }
    Some(fleet)
}

/// Returns the names with the most requests that wait or waited, the first ones first.
fn contended(waiting: &[WaitingName], past: Vec<(Arc<str>, NameWaits)>) -> Vec<Contended> {
    let mut names: HashMap<_, _> = past
        .into_iter()
        .map(|(name, past)| (Arc::clone(&name), Contended { name, past, ..Contended::default() }))
        .collect();
    for WaitingName { name, requests, oldest, .. } in waiting {
        let of = names.entry(Arc::clone(name)).or_default();
        *of = Contended {
            name: Arc::clone(name),
            waiting: *requests,
            oldest: *oldest,
            past: of.past,
        };
    }
    let mut names: Vec<_> = names.into_values().collect();
    let requests = |of: &Contended| of.waiting as u64 + of.past.requests();
    names.sort_unstable_by(|a, b| requests(b).cmp(&requests(a)).then_with(|| a.name.cmp(&b.name)));
    names.truncate(MAX_CONTENDED);
    names
}

pub(crate) async fn overview(site: &Site, visit: &Visit) -> Markup {
    let facts = Facts::read(site).await;
    let troubles = facts.troubles(visit.now);
    let tiles = facts.tiles(&troubles);
    let worst = worst(&tiles);
    let content = html! {
        (region("state", worst.headline(), RegionSource::Both, &html! {
            @if let Some(works) = facts.nodes.as_ref().and_then(|snapshot| works(&snapshot.value)) { p #works { (works) } }
            (state(&tiles, worst, visit))
        }))
        (sets_region(site, facts.nodes.as_deref(), visit))
        (region("activity", "Requests", RegionSource::Process, &activity(&facts.rates)))
        (region("contended", "Most contended names", RegionSource::Process, &names(&facts.contended, visit, SetColumn::new(site, Subject::Lock))))
        (region("job-troubles", "Jobs that need attention", RegionSource::Both, &html! {
            (trouble(facts.jobs.as_ref().and_then(|fleet| fleet.error.as_deref())))
            (jobs_listed(&troubles, visit, SetColumn::new(site, Subject::Job)))
        }))
    };
    visit.page("./", "Overview", &content)
}

fn worst(tiles: &[Tile]) -> Level {
    tiles.iter().map(|tile| tile.level).max().unwrap_or(Level::Good)
}

fn state(tiles: &[Tile], worst: Level, visit: &Visit) -> Markup {
    html! {
        ul.tiles data-level=(worst.name()) { @for tile in tiles {
            @let (page, fragment) = tile.page.split_once('#').unwrap_or((tile.page, ""));
            @let address = visit.link(page, &[]);
            li { a.tile data-tile=(tile.id) data-level=(tile.level.name())
                href={ (address) @if !fragment.is_empty() { "#" (fragment) } } {
                span.value { (tile.value) } " "
                span.title { (tile.title) } " "
                span.note { (tile.note) } " "
                @if tile.level != Level::Good { span.level { (tile.level.word()) } }
            } }
        } }
    }
}

fn names(contended: &[Contended], visit: &Visit, sets: SetColumn<'_>) -> Markup {
    const COLUMNS: [&str; 6] =
        ["Name", "#Wait now", "#Oldest", "#Waited, 15 min", "#Refused, 15 min", "#Longest wait"];
    let dash = |time: Duration| if time.is_zero() { "–".into() } else { span(time) };
    html! {
        @if contended.is_empty() {
            p { "No request of this process has waited or was refused in the last 15 minutes." }
        } @else {
            (table("contended", "the most contended names", &sets.after(&COLUMNS), &html! { @for of in contended {
                tr data-contended=(of.name) {
                    th scope="row" {
                        a href=(visit.link("lock", &[("name", &*of.name)])) { (text(&Resource::display_name(&of.name))) }
                    }
                    td.number { (of.waiting) }
                    td.number { (dash(of.oldest)) }
                    td.number { (number(of.past.granted)) }
                    td.number { (number(of.past.refused)) }
                    td.number { (dash(of.past.longest)) }
                    (sets.cell(&of.name))
                }
            } }))
        }
    }
}

fn jobs_listed(troubles: &[JobTrouble], visit: &Visit, sets: SetColumn<'_>) -> Markup {
    const COLUMNS: [&str; 3] = ["Job", "What", "Details"];
    let has_missed = troubles
        .iter()
        .flat_map(|trouble| &trouble.kinds)
        .any(|(kind, _)| *kind == TroubleKind::Missed);
    let (shown, rest) = troubles.split_at(troubles.len().min(MAX_TROUBLES));
    html! {
        @if troubles.is_empty() {
            p { "No job is known to be late, failed or paused, or to have missed a tick of late." }
        } @else {
            (table("job-troubles", "jobs that need attention", &sets.after(&COLUMNS), &html! {
                @for JobTrouble { name, kinds } in shown {
                    tr data-trouble=(name) {
                        th scope="row" { a href=(visit.link("job", &[("name", &**name)])) { (text(name)) } }
                        td { @for (nth, (kind, _)) in kinds.iter().enumerate() {
                            @if nth > 0 { " " }
                            span.kind data-kind=(kind.name()) { (kind.name()) }
                        } }
                        td { @for (nth, (_, words)) in kinds.iter().enumerate() {
                            @if nth > 0 { "; " }
                            (text(words))
                        } }
                        (sets.cell(name))
                    }
                }
            }))
            @if has_missed { p { "A missed tick is shown for " (span(MISSED_TIME)) " after it was found." } }
            @if !rest.is_empty() { p { "And " (counted(rest.len() as u64, "further job")) "." } }
        }
    }
}

pub(crate) async fn overview_json(site: &Site) -> Value {
    let facts = Facts::read(site).await;
    let troubles = facts.troubles(std::time::SystemTime::now());
    let tiles = facts.tiles(&troubles);
    let contended = facts.contended.iter().map(|of| {
        let value = json!({
            "name": of.name,
            "waiting": of.waiting,
            "oldest_ms": millis(of.oldest),
            "waited": of.past.granted,
            "refused": of.past.refused,
            "longest_ms": millis(of.past.longest),
        });
        SetColumn::new(site, Subject::Lock).json(value, &of.name)
    });
    let jobs = SetColumn::new(site, Subject::Job);
    let troubles = troubles.iter().map(|trouble| jobs.json(json!(trouble), &trouble.name));
    let mut value = json!({
        "level": worst(&tiles),
        "tiles": tiles,
        "jobs": troubles.collect::<Vec<_>>(),
        "process": {
            "activity": activity_json(&facts.rates),
            "contended": contended.collect::<Vec<_>>(),
        },
    });
    if let Some(snapshot) = facts.nodes.as_ref().filter(|snapshot| snapshot.value.sets().len() > 1)
    {
        let of_set =
            |set: &Diagnosis| json!({ "verdict": set.verdict(), "summary": set.summary() });
        value["sets"] = snapshot.value.sets().iter().map(of_set).collect();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_most_contended_names_come_first() {
        let past = |granted| NameWaits { granted, ..NameWaits::default() };
        let names = (0..20).map(|number| (format!("name-{number:02}").into(), past(number)));

        let first = contended(&[], names.collect());

        let shown: Vec<_> = first.iter().map(|of| (&*of.name, of.past.granted)).collect();
        assert_eq!((shown.len(), shown[0], shown[9]), (10, ("name-19", 19), ("name-10", 10)));
    }
}
