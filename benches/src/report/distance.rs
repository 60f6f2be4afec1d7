//! Tables of the servers at a distance.

use super::{
    format::{median, significant, time, times, with_spread},
    table::Table,
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
fn cases() -> impl Iterator<Item = (Far, Load)> {
    Load::ALL.into_iter().flat_map(|load| Far::ALL.map(|far| (far, load)))
}

/// Returns the values as multiples of the answer time of the third-fastest server in the same
/// round.
pub(crate) fn to_third(samples: &Samples, case: &str, who: Who, what: &str) -> Option<Spread> {
    // A client that only waits for answers has no cycles.
    let of_third = if what == P99 || what == CYCLE_P99 { P99 } else { P50 };
    samples.ratio(&key(case, who.name(), what), &key(case, Who::Third.name(), of_third))
}

fn to_nominal(samples: &Samples, case: &str, who: Who, what: &str) -> Option<Spread> {
    samples.ratio(&key(case, who.name(), what), &key(case, who.name(), NOMINAL))
}

pub(crate) fn acquires(samples: &Samples) -> Table {
    let mut table = Table::new([
        "an acquire",
        "p50",
        "p99",
        "p50 in set round trips",
        "p99 in set round trips",
        "p50 to the third answer's",
        "p99 to the third answer's",
    ]);
    for (far, load) in cases() {
        let case = far.case(load);
        for who in Who::ALL {
            let of = |what| median(samples.spread(&key(&case, who.name(), what)), time);
            let nominal = |what| with_spread(to_nominal(samples, &case, who, what), times);
            let third = |what| with_spread(to_third(samples, &case, who, what), times);
            let name = format!("{case}: {}", who.name());
            let times = [of(P50), of(P99), nominal(P50), nominal(P99), third(P50), third(P99)];
            table.add(std::iter::once(name).chain(times));
        }
    }
    table
}

pub(crate) fn cycles(samples: &Samples) -> Table {
    let mut table = Table::new([
        "a cycle",
        "p50",
        "p99",
        "p50 in set round trips",
        "p50 to the third answer's",
        "p99 to the third answer's",
        "cycles per second",
        "to rslock's",
    ]);
    for (far, load) in cases() {
        let case = far.case(load);
        for who in Who::ALL.into_iter().filter(|who| *who != Who::Third) {
            let of = |what| samples.spread(&key(&case, who.name(), what));
            let [rate, rslock] = [who.name(), Kind::Rslock.name()].map(|who| key(&case, who, RATE));
            table.add([
                format!("{case}: {}", who.name()),
                median(of(CYCLE_P50), time),
                median(of(CYCLE_P99), time),
                with_spread(to_nominal(samples, &case, who, CYCLE_P50), times),
                with_spread(to_third(samples, &case, who, CYCLE_P50), times),
                with_spread(to_third(samples, &case, who, CYCLE_P99), times),
                with_spread(of(RATE), significant),
                with_spread(samples.ratio(&rate, &rslock), times),
            ]);
        }
    }
    table
}

/// The delays of the forwarders beyond the due times, in addition to the shortest delay.
pub(crate) fn lateness(samples: &Samples) -> Table {
    let mut table = Table::new(["the forwarder is late by", "p50", "p99"]);
    for (far, load) in cases() {
        let case = far.case(load);
        for who in Who::ALL {
            let of = |what| samples.spread(&key(&case, who.name(), what));
            let late = [LATE_P50, LATE_P99].map(|what| with_spread(of(what), time));
            table.add(std::iter::once(format!("{case}: {}", who.name())).chain(late));
        }
    }
    table
}
