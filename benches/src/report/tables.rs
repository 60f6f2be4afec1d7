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

/// The waits of cases in which many tasks contend for one name.
pub(crate) fn waits(samples: &Samples, cases: &[String], served: &str) -> Table {
    let mut table = Table::new([
        "",
        "grants per second",
        "wait: mean",
        "p50",
        "p99",
        "longest",
        "p99 to mean",
        served,
        "grants to rslock's",
    ]);
    for case in cases {
        for kind in contended::KINDS {
            let of = |what| key(case, kind.name(), what);
            let short = |what| median(samples.spread(&of(what)), time);
            let rslock = key(case, Kind::Rslock.name(), waits::RATE);
            table.add([
                format!("{case}: {}", kind.name()),
                with_spread(samples.spread(&of(waits::RATE)), significant),
                short(waits::MEAN),
                short(waits::P50),
                short(waits::P99),
                short(waits::LONGEST),
                with_spread(samples.ratio(&of(waits::P99), &of(waits::MEAN)), significant),
                with_spread(samples.spread(&of(waits::LEAST_TO_MOST)), significant),
                with_spread(samples.ratio(&of(waits::RATE), &rslock), significant),
            ]);
        }
    }
    table
}

pub(crate) fn handover(samples: &Samples) -> Table {
    let mut table = Table::new([
        "",
        "hand-overs a round",
        "median",
        "p90",
        "p99",
        "a node's round trip",
        "median to the round trip",
        "two third answers of five to the round trip",
    ]);
    for case in handover::Place::ALL.map(handover::Place::case) {
        for kind in handover::KINDS {
            let of = |what| samples.spread(&key(&case, kind.name(), what));
            table.add([
                format!("{case}: {}", kind.name()),
                median(of(handover::COUNT), significant),
                with_spread(of(handover::MEDIAN), time),
                median(of(handover::P90), time),
                median(of(handover::P99), time),
                median(of(handover::TRIP), time),
                with_spread(of(handover::TO_TRIP), times),
                median(of(handover::TWO_REQUESTS), times),
            ]);
        }
    }
    table
}

pub(crate) fn waiters(samples: &Samples) -> Table {
    let mut table = Table::new([
        "",
        "grants per second",
        "until half are granted",
        "until 99 %",
        "until the last grant",
        "not granted",
        "renewed lock kept, of 1",
    ]);
    for course in Course::ALL {
        for case in waiters::WAITERS.map(|waiters| waiters::case(waiters, course)) {
            let of = |what| samples.spread(&key(&case, Kind::Ours.name(), what));
            table.add([
                case.clone(),
                with_spread(of(waiters::RATE), significant),
                median(of(waiters::P50), time),
                median(of(waiters::P99), time),
                with_spread(of(waiters::LAST), time),
                with_spread(of(waiters::MISSED), significant),
                with_spread(of(waiters::KEPT), significant),
            ]);
        }
    }
    table
}

pub(crate) fn listing(samples: &Samples) -> Table {
    let mut table = Table::new([
        "",
        "cycles per second alone",
        "while locks are listed",
        "share of the rate alone",
        "duration of the listing",
    ]);
    let of = |what| samples.spread(&key(listing::CASE, Kind::Ours.name(), what));
    table.add([
        listing::CASE.into(),
        with_spread(of(listing::ALONE), significant),
        with_spread(of(listing::MEANWHILE), significant),
        with_spread(of(listing::SHARE), significant),
        with_spread(of(listing::TOOK), time),
    ]);
    table
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
    let mut table = Table::new([
        "",
        "grants per second",
        "share of the slots in use",
        "wait: p50",
        "p99",
        "longest",
        "least to most served process",
        "acquires for a grant",
        "scripts for a grant",
    ]);
    let case = slots::case();
    let of = |what| samples.spread(&key(&case, Kind::Ours.name(), what));
    table.add([
        case.clone(),
        with_spread(of(waits::RATE), significant),
        with_spread(of(slots::IN_USE), significant),
        median(of(waits::P50), time),
        median(of(waits::P99), time),
        median(of(waits::LONGEST), time),
        with_spread(of(waits::LEAST_TO_MOST), significant),
        with_spread(of(slots::ACQUIRES), significant),
        with_spread(of(slots::SCRIPTS), significant),
    ]);
    table
}

pub(crate) fn readers(samples: &Samples) -> Table {
    let mut table = Table::new([
        "",
        "grants per second",
        "wait: p50",
        "p99",
        "longest",
        "least to most served process",
        "scripts for a reader's grant",
    ]);
    for case in readers::WRITERS.map(readers::case) {
        for group in readers::GROUPS {
            let of = |what| samples.spread(&key(&case, group, what));
            table.add([
                format!("{case}: {group}"),
                with_spread(of(waits::RATE), significant),
                median(of(waits::P50), time),
                median(of(waits::P99), time),
                with_spread(of(waits::LONGEST), time),
                with_spread(of(waits::LEAST_TO_MOST), significant),
                with_spread(of(readers::SCRIPTS), significant),
            ]);
        }
    }
    table
}

pub(crate) fn reader_costs(samples: &Samples) -> Table {
    let mut table = Table::new(["", "a request", "allocations", "bytes allocated"]);
    for case in reader_costs::TASKS.map(reader_costs::case) {
        for who in reader_costs::Subject::ALL.map(reader_costs::Subject::name) {
            let of = |what| samples.spread(&key(&case, who, what));
            table.add([
                format!("{case}: {who}"),
                with_spread(of(layer::TIME), time),
                median(of(layer::ALLOCATIONS), significant),
                median(of(layer::BYTES), significant),
            ]);
        }
    }
    table
}

pub(crate) fn allocations(samples: &Samples) -> Table {
    let mut table = Table::new(["", "allocations", "bytes allocated"]);
    for case in allocations::TASKS.map(allocations::case) {
        for kind in distinct::WITH_AWAITED {
            let of = |what| samples.spread(&key(&case, kind.name(), what));
            table.add([
                format!("{case}: {}", kind.name()),
                with_spread(of(allocations::ALLOCATIONS), significant),
                with_spread(of(allocations::BYTES), significant),
            ]);
        }
    }
    table
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
