//! A table for each scenario.

use super::{
    aims::added,
    format::{median, significant, time, times, with_spread},
    table::Table,
};
use crate::{
    contestants::Kind,
    cycles,
    samples::{Samples, key},
    scenarios::{
        allocations, contended, distinct,
        faults::{self, Condition},
        handover, layer, listing, reader_costs, readers, slots,
        waiters::{self, Course},
    },
    waits,
};

/// The column of the number of grants of the least served process as a share of the most served one's.
pub(crate) const SERVED: &str = "least to most served process";

/// The waits of cases in which many tasks contend for one name. `served` names the column of the
/// least to the most served task or process.
pub(crate) fn waits(samples: &Samples, cases: &[String], served: &'static str) -> Table {
    let kinds = contended::KINDS.map(Kind::name);
    Table::of_contestants(
        samples,
        cases.iter().cloned(),
        &kinds,
        &[
            ("grants per second", |row| row.spread(waits::RATE, significant)),
            ("wait: mean", |row| row.median(waits::MEAN, time)),
            ("p50", |row| row.median(waits::P50, time)),
            ("p99", |row| row.median(waits::P99, time)),
            ("longest", |row| row.median(waits::LONGEST, time)),
            ("p99 to mean", |row| row.ratio(waits::P99, waits::MEAN, significant)),
            (served, |row| row.spread(waits::LEAST_TO_MOST, significant)),
            ("grants to rslock's", |row| {
                row.ratio_to_who(waits::RATE, Kind::Rslock.name(), significant)
            }),
        ],
    )
}

pub(crate) fn handover(samples: &Samples) -> Table {
    Table::of_contestants(
        samples,
        handover::Place::ALL.map(handover::Place::case),
        &handover::KINDS.map(Kind::name),
        &[
            ("hand-overs a round", |row| row.median(handover::COUNT, significant)),
            ("median", |row| row.spread(handover::MEDIAN, time)),
            ("p90", |row| row.median(handover::P90, time)),
            ("p99", |row| row.median(handover::P99, time)),
            ("a node's round trip", |row| row.median(handover::TRIP, time)),
            ("median to the round trip", |row| row.spread(handover::TO_TRIP, times)),
            ("two third answers of five to the round trip", |row| {
                row.median(handover::TWO_REQUESTS, times)
            }),
        ],
    )
}

pub(crate) fn waiters(samples: &Samples) -> Table {
    let cases = Course::ALL
        .into_iter()
        .flat_map(|course| waiters::WAITERS.map(|waiters| waiters::case(waiters, course)));
    Table::of_cases(
        samples,
        cases,
        &[
            ("grants per second", |row| row.spread(waiters::RATE, significant)),
            ("until half are granted", |row| row.median(waiters::P50, time)),
            ("until 99 %", |row| row.median(waiters::P99, time)),
            ("until the last grant", |row| row.spread(waiters::LAST, time)),
            ("not granted", |row| row.spread(waiters::MISSED, significant)),
            ("renewed lock kept, of 1", |row| row.spread(waiters::KEPT, significant)),
        ],
    )
}

pub(crate) fn listing(samples: &Samples) -> Table {
    Table::of_cases(
        samples,
        [listing::CASE.into()],
        &[
            ("cycles per second alone", |row| row.spread(listing::ALONE, significant)),
            ("while locks are listed", |row| row.spread(listing::MEANWHILE, significant)),
            ("share of the rate alone", |row| row.spread(listing::SHARE, significant)),
            ("duration of the listing", |row| row.spread(listing::TOOK, time)),
        ],
    )
}

pub(crate) fn layer(samples: &Samples) -> Table {
    let mut table =
        Table::new(["", "a request", "added", "allocations", "added", "bytes allocated", "added"]);
    for subject in layer::Subject::ALL {
        let who = subject.name();
        let all = |what| samples.spread(&key(layer::CASE, &who, what));
        let added = |what, format| match subject {
            layer::Subject::Bare => String::new(),
            _ => with_spread(added(samples, subject, what), format),
        };
        table.add([
            who.clone(),
            median(all(layer::TIME), time),
            added(layer::TIME, time),
            median(all(layer::ALLOCATIONS), significant),
            added(layer::ALLOCATIONS, significant),
            median(all(layer::BYTES), significant),
            added(layer::BYTES, significant),
        ]);
    }
    table
}

pub(crate) fn slots(samples: &Samples) -> Table {
    Table::of_cases(
        samples,
        [slots::case()],
        &[
            ("grants per second", |row| row.spread(waits::RATE, significant)),
            ("share of the slots in use", |row| row.spread(slots::IN_USE, significant)),
            ("wait: p50", |row| row.median(waits::P50, time)),
            ("p99", |row| row.median(waits::P99, time)),
            ("longest", |row| row.median(waits::LONGEST, time)),
            (SERVED, |row| row.spread(waits::LEAST_TO_MOST, significant)),
            ("acquires for a grant", |row| row.spread(slots::ACQUIRES, significant)),
            ("scripts for a grant", |row| row.spread(slots::SCRIPTS, significant)),
        ],
    )
}

pub(crate) fn readers(samples: &Samples) -> Table {
    Table::of_contestants(
        samples,
        readers::WRITERS.map(readers::case),
        &readers::GROUPS,
        &[
            ("grants per second", |row| row.spread(waits::RATE, significant)),
            ("wait: p50", |row| row.median(waits::P50, time)),
            ("p99", |row| row.median(waits::P99, time)),
            ("longest", |row| row.spread(waits::LONGEST, time)),
            (SERVED, |row| row.spread(waits::LEAST_TO_MOST, significant)),
            ("scripts for a reader's grant", |row| row.spread(readers::SCRIPTS, significant)),
        ],
    )
}

pub(crate) fn reader_costs(samples: &Samples) -> Table {
    Table::of_contestants(
        samples,
        reader_costs::TASKS.map(reader_costs::case),
        &reader_costs::Subject::ALL.map(reader_costs::Subject::name),
        &[
            ("a request", |row| row.spread(layer::TIME, time)),
            ("allocations", |row| row.median(layer::ALLOCATIONS, significant)),
            ("bytes allocated", |row| row.median(layer::BYTES, significant)),
        ],
    )
}

pub(crate) fn allocations(samples: &Samples) -> Table {
    Table::of_contestants(
        samples,
        allocations::TASKS.map(allocations::case),
        &distinct::WITH_AWAITED.map(Kind::name),
        &[
            ("allocations", |row| row.spread(allocations::ALLOCATIONS, significant)),
            ("bytes allocated", |row| row.spread(allocations::BYTES, significant)),
        ],
    )
}

/// Cycles per second of several cases, named by their differences. Both forms of this crate's cycle
/// are compared if both were measured, as the other contestants await their releases.
pub(crate) fn rates(samples: &Samples, cases: &[(String, String)], kinds: &[Kind]) -> Table {
    let mut to = vec![
        ("to rslock's", Kind::Ours, Kind::Rslock),
        ("to the floor's", Kind::Ours, Kind::Floor),
    ];
    if kinds.contains(&Kind::Awaited) {
        to.insert(1, ("release awaited, to rslock's", Kind::Awaited, Kind::Rslock));
    }
    if kinds.contains(&Kind::OnRuntime) {
        to.insert(2, ("on the runtime, to rslock's", Kind::OnRuntime, Kind::Rslock));
        let awaited = "on the runtime, release awaited, to rslock's";
        to.insert(3, (awaited, Kind::OnRuntimeAwaited, Kind::Rslock));
    }
    let head = kinds.iter().map(|kind| kind.name()).chain(to.iter().map(|(name, ..)| *name));
    let mut table = Table::new(std::iter::once("cycles per second").chain(head));
    for (label, case) in cases {
        let of = |kind: Kind| key(case, kind.name(), cycles::RATE);
        let rates = kinds.iter().map(|kind| with_spread(samples.spread(&of(*kind)), significant));
        let ratios = to
            .iter()
            .map(|(_, own, other)| with_spread(samples.ratio(&of(*own), &of(*other)), times));
        table.add(std::iter::once(label.clone()).chain(rates).chain(ratios));
    }
    table
}

pub(crate) fn shares(samples: &Samples) -> Table {
    let kinds = distinct::KINDS;
    let mut table =
        Table::new(std::iter::once("rate to one's own, all well").chain(kinds.map(Kind::name)));
    for tasks in faults::TASKS {
        for condition in Condition::ALL {
            let Some(sound) = condition.sound() else { continue };
            let of = |kind: Kind, condition| {
                key(faults::case(tasks, condition), kind.name(), cycles::RATE)
            };
            let shares = kinds.map(|kind| {
                with_spread(samples.ratio(&of(kind, condition), &of(kind, sound)), times)
            });
            table.add(std::iter::once(faults::case(tasks, condition)).chain(shares));
        }
    }
    table
}
