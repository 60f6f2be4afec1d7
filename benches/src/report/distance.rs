//! Tables of the servers at a distance.

use super::{
    format::{significant, time, times, with_spread},
    table::{Column, Row, Table},
};
use crate::{
    contestants::Kind,
    samples::{Samples, key},
    scenarios::distance::{
        CYCLE_P50, CYCLE_P99, Far, LATE_P50, LATE_P99, Load, NOMINAL, P50, P99, RATE, Who,
    },
    spread::Spread,
};

/// All cases, the shortest distances first.
fn cases() -> impl Iterator<Item = String> {
    Load::ALL.into_iter().flat_map(|load| Far::ALL.map(|far| far.case(load)))
}

/// Returns the values as multiples of the answer time of the third-fastest server in the same
/// round.
pub(crate) fn to_third(samples: &Samples, case: &str, who: &str, what: &str) -> Option<Spread> {
    // A client that only waits for answers has no cycles.
    let of_third = if what == P99 || what == CYCLE_P99 { P99 } else { P50 };
    samples.ratio(&key(case, who, what), &key(case, Who::Third.name(), of_third))
}

/// Formats a value as a multiple of that of the third-fastest server.
fn third(row: &Row<'_>, what: &'static str) -> String {
    with_spread(to_third(row.samples, row.case, row.who, what), times)
}

pub(crate) fn acquires(samples: &Samples) -> Table {
    let columns: &[Column] = &[
        ("p50", |row| row.median(P50, time)),
        ("p99", |row| row.median(P99, time)),
        ("p50 in set round trips", |row| row.ratio(P50, NOMINAL, times)),
        ("p99 in set round trips", |row| row.ratio(P99, NOMINAL, times)),
        ("p50 to the third answer's", |row| third(row, P50)),
        ("p99 to the third answer's", |row| third(row, P99)),
    ];
    Table::of_contestants(samples, cases(), &Who::ALL.map(Who::name), columns).titled("an acquire")
}

pub(crate) fn cycles(samples: &Samples) -> Table {
    let columns: &[Column] = &[
        ("p50", |row| row.median(CYCLE_P50, time)),
        ("p99", |row| row.median(CYCLE_P99, time)),
        ("p50 in set round trips", |row| row.ratio(CYCLE_P50, NOMINAL, times)),
        ("p50 to the third answer's", |row| third(row, CYCLE_P50)),
        ("p99 to the third answer's", |row| third(row, CYCLE_P99)),
        ("cycles per second", |row| row.spread(RATE, significant)),
        ("to rslock's", |row| row.ratio_to_who(RATE, Kind::Rslock.name(), times)),
    ];
    let who = Who::ALL.into_iter().filter(|who| *who != Who::Third).map(Who::name);
    Table::of_contestants(samples, cases(), &who.collect::<Vec<_>>(), columns).titled("a cycle")
}

/// The delays of the forwarders beyond the due times, in addition to the shortest delay.
pub(crate) fn lateness(samples: &Samples) -> Table {
    let columns: &[Column] =
        &[("p50", |row| row.spread(LATE_P50, time)), ("p99", |row| row.spread(LATE_P99, time))];
    Table::of_contestants(samples, cases(), &Who::ALL.map(Who::name), columns)
        .titled("the forwarder is late by")
}
