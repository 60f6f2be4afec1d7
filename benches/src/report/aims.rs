//! The aims, and whether they are met.

use super::{distance::to_third, format::significant, table::Table};
use crate::{
    contestants::Kind,
    cycles,
    samples::{CORES, Key, MACHINE, Samples, key},
    scenarios::{
        contended,
        distance::{self, Far, Load},
        distinct,
        faults::{self, Condition},
        handover, layer, linger,
        many::{self, Crowd, Wanted},
        processes,
        reader_costs::{self, Subject},
        reconnect, service, slots,
        waiters::{self, Course},
    },
    service::Guard,
    spread::Spread,
    waits,
};

enum Limit {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
}

struct Aim {
    of: String,
    limit: Limit,
    measured: Option<Spread>,
}

pub(crate) fn table(samples: &Samples) -> Table {
    let mut table = Table::new(["aim", "at", "median", "all rounds", "met"]);
    for Aim { of, limit, measured } in aims(samples) {
        let Some(Spread { least, median, most }) = measured else { continue };
        let (limit, is_met) = match limit {
            Limit::AtMost(limit) => (format!("≤ {limit}"), median <= limit),
            Limit::Below(limit) => (format!("< {limit}"), median < limit),
            Limit::AtLeast(limit) => (format!("≥ {limit}"), median >= limit),
        };
        let [median, least, most] = [median, least, most].map(significant);
        let met = if is_met { "met" } else { "**no**" };
        table.add([of, limit, median, format!("{least} to {most}"), met.into()]);
    }
    table
}

fn aims(samples: &Samples) -> Vec<Aim> {
    let mut aims = Vec::new();
    let mut add = |of: String, limit, measured| aims.push(Aim { of, limit, measured });
    of_distance(samples, &mut add);
    of_now_and_then(samples, &mut add);
    of_one_name(samples, &mut add);
    of_slots(samples, &mut add);
    of_waiters(samples, &mut add);
    of_layer(samples, &mut add);
    of_reader_costs(samples, &mut add);
    of_cycles(samples, &mut add);
    of_linger(samples, &mut add);
    of_many(samples, &mut add);
    of_service(samples, &mut add);
    aims
}

fn of_linger(samples: &Samples, add: &mut impl FnMut(String, Limit, Option<Spread>)) {
    for (case, ..) in linger::cases() {
        let rate = |kind: Kind| key(&case, kind.name(), cycles::RATE);
        let ratio = samples.ratio(&rate(Kind::Lingering), &rate(Kind::Ours));
        add(format!("{case}: rate with linger to that without"), Limit::AtLeast(100.0), ratio);
    }
}

fn of_distance(samples: &Samples, add: &mut impl FnMut(String, Limit, Option<Spread>)) {
    for load in [Load::One, Load::Paced] {
        for far in Far::ALL.into_iter().filter(|far| far.is_away()) {
            let case = far.case(load);
            let to_third = |what| to_third(samples, &case, Kind::Ours.name(), what);
            let [p50, p99] = if load == Load::One { [1.05, 1.1] } else { [1.1, 1.15] };
            add(
                format!("{case}: p50 of an acquire to the third answer's"),
                Limit::AtMost(p50),
                to_third(distance::P50),
            );
            add(
                format!("{case}: p99 of an acquire to the third answer's"),
                Limit::AtMost(p99),
                to_third(distance::P99),
            );
        }
        let [slow, alike] = [Far::ONE_SLOW, Far::ALL_ALIKE].map(|far| far.case(load));
        for what in [distance::P50, distance::P99] {
            add(
                format!("{slow}: {what} to the one without it"),
                Limit::AtMost(1.05),
                samples.ratio(&ours(&slow, what), &ours(&alike, what)),
            );
        }
    }
}

fn of_now_and_then(samples: &Samples, add: &mut impl FnMut(String, Limit, Option<Spread>)) {
    let case = Far::HERE.case(Load::NowAndThen);
    let to_rslock = to_rslock(samples, &case, distance::P50);
    add(format!("{case}: p50 of an acquire to rslock's"), Limit::AtMost(1.0), to_rslock);
}

fn of_one_name(samples: &Samples, add: &mut impl FnMut(String, Limit, Option<Spread>)) {
    for tasks in contended::TASKS {
        let case = contended::case(tasks);
        add(
            format!("{case}: grants to rslock's"),
            Limit::AtLeast(20.0),
            to_rslock(samples, &case, waits::RATE),
        );
        let [p99, mean] = [waits::P99, waits::MEAN].map(|what| ours(&case, what));
        add(
            format!("{case}: p99 of the wait to its mean"),
            Limit::AtMost(2.0),
            samples.ratio(&p99, &mean),
        );
    }
    let case = processes::case(1);
    add(
        format!("{case}: grants to rslock's"),
        Limit::AtLeast(1.0),
        to_rslock(samples, &case, waits::RATE),
    );
    add(
        format!("{case}: {}", processes::ACQUIRES),
        Limit::AtMost(1.25),
        samples.spread(&ours(&case, processes::ACQUIRES)),
    );
    add(
        format!("{case}: p99 of the wait, in ms"),
        Limit::AtMost(10.0),
        samples.spread(&ours(&case, waits::P99)).map(|spread| spread.map(|time| time * 1e3)),
    );
    let case = processes::case(4);
    add(
        format!("{case}: grants to rslock's"),
        Limit::AtLeast(1.0),
        to_rslock(samples, &case, waits::RATE),
    );
    add(
        format!("{case}: least to most served process"),
        Limit::AtLeast(0.5),
        samples.spread(&ours(&case, waits::LEAST_TO_MOST)),
    );
    add(
        format!("{case}: p99 of the wait to rslock's"),
        Limit::Below(0.1),
        to_rslock(samples, &case, waits::P99),
    );
    let case = processes::case_held(4);
    add(
        format!("{case}: longest wait to the mean of a fair line"),
        Limit::AtMost(4.0),
        samples.spread(&ours(&case, processes::LONGEST_TO_FAIR)),
    );
    for case in handover::Place::ALL.map(handover::Place::case) {
        add(
            format!("{case}: median to a round trip"),
            Limit::AtMost(2.5),
            samples.spread(&ours(&case, handover::TO_TRIP)),
        );
    }
}

fn of_slots(samples: &Samples, add: &mut impl FnMut(String, Limit, Option<Spread>)) {
    let case = slots::case();
    for (what, limit) in [
        (slots::IN_USE, Limit::AtLeast(0.9)),
        (waits::LEAST_TO_MOST, Limit::AtLeast(0.5)),
        (slots::ACQUIRES, Limit::AtMost(1.5)),
    ] {
        add(format!("{case}: {what}"), limit, samples.spread(&ours(&case, what)));
    }
}

fn of_waiters(samples: &Samples, add: &mut impl FnMut(String, Limit, Option<Spread>)) {
    let [few, .., many] = waiters::WAITERS;
    for course in Course::ALL {
        let [few, many] = [few, many].map(|waiters| waiters::case(waiters, course));
        add(
            format!("{many}: grants to those of the fewest"),
            Limit::AtLeast(0.8),
            samples.ratio(&ours(&many, waiters::RATE), &ours(&few, waiters::RATE)),
        );
        add(
            format!("{many}: not granted, at the most"),
            Limit::AtMost(0.0),
            samples.spread(&ours(&many, waiters::MISSED)),
        );
    }
}

fn of_layer(samples: &Samples, add: &mut impl FnMut(String, Limit, Option<Spread>)) {
    for (nodes, most) in [(3, 2.5), (5, 3.0)] {
        let name = format!("the layer over {nodes} embedded nodes");
        let added = |what| added(samples, layer::Subject::Layer(nodes), what);
        let micros = added(layer::TIME).map(|spread| spread.map(|seconds| seconds * 1e6));
        add(format!("{name}: µs added to a request"), Limit::AtMost(most), micros);
        let allocations = added(layer::ALLOCATIONS);
        add(format!("{name}: allocations added to a request"), Limit::AtMost(10.0), allocations);
    }
}

fn of_reader_costs(samples: &Samples, add: &mut impl FnMut(String, Limit, Option<Spread>)) {
    for case in reader_costs::TASKS.map(reader_costs::case) {
        for subject in [Subject::Lock { shared: true }, Subject::Layer { shared: true }] {
            for what in [layer::TIME, layer::ALLOCATIONS] {
                let of = |subject: Subject| key(&case, subject.name(), what);
                let ratio = samples.ratio(&of(subject), &of(Subject::Layer { shared: false }));
                let of = format!("{case}: {what} of {} to the layer's", subject.name());
                add(of, Limit::AtMost(1.0), ratio);
            }
        }
    }
}

fn of_cycles(samples: &Samples, add: &mut impl FnMut(String, Limit, Option<Spread>)) {
    let case = distinct::case(1, 5);
    add(
        format!("{case}: time of a cycle to rslock's"),
        Limit::AtMost(if has_few_cores(samples) { 0.65 } else { 0.6 }),
        to_rslock(samples, &case, cycles::RATE).map(|spread| spread.map(f64::recip)),
    );
    for nodes in [5, 1] {
        let case = distinct::case(1, nodes);
        let rate = |kind: Kind| key(&case, kind.name(), cycles::RATE);
        add(
            format!("{case}: time of a cycle with its release awaited to rslock's"),
            Limit::AtMost(1.0),
            samples.ratio(&rate(Kind::Rslock), &rate(Kind::Awaited)),
        );
    }
    let case = distinct::case(1, 1);
    add(
        format!("{case}: {} for a cycle, in µs", cycles::CLIENT),
        Limit::AtMost(18.0),
        samples.spread(&ours(&case, cycles::CLIENT)).map(|one| one.map(|time| time * 1e6)),
    );
    for (nodes, least) in [(5, 1.5), (3, 1.2), (1, 1.0)] {
        let case = distinct::case(64, nodes);
        add(
            format!("{case}: rate to rslock's"),
            Limit::AtLeast(least),
            to_rslock(samples, &case, cycles::RATE),
        );
    }
    let case = distinct::case(64, 1);
    add(
        format!("{case}: {} for a cycle to rslock's", cycles::SERVERS),
        Limit::AtMost(1.15),
        to_rslock(samples, &case, cycles::SERVERS),
    );
    for tasks in faults::TASKS {
        let [frozen, healthy] = [Condition::Frozen, Condition::Healthy]
            .map(|condition| ours(&faults::case(tasks, condition), cycles::RATE));
        add(
            format!("{}: rate to our healthy rate", faults::case(tasks, Condition::Frozen)),
            Limit::AtLeast(0.9),
            samples.ratio(&frozen, &healthy),
        );
    }
}

fn of_service(samples: &Samples, add: &mut impl FnMut(String, Limit, Option<Spread>)) {
    for case in service::CONNECTIONS.map(service::case) {
        let to_rslock = |what| {
            let [ours, rslock] = [Guard::Layer, Guard::Rslock].map(Guard::name);
            samples.ratio(&key(&case, ours, what), &key(&case, rslock, what))
        };
        add(
            format!("{case} to a service: requests to those with rslock"),
            Limit::AtLeast(1.05),
            to_rslock(service::RATE),
        );
        add(
            format!("{case} to a service: p99 to that with rslock"),
            Limit::AtMost(1.0),
            to_rslock(service::P99),
        );
    }
}

fn of_many(samples: &Samples, add: &mut impl FnMut(String, Limit, Option<Spread>)) {
    let [few, .., most] = Crowd::FULL.map(Crowd::case);
    for what in [many::MEMORY, many::CLIENT, many::SERVERS] {
        add(
            format!("{most}: {what} to that of the fewest"),
            Limit::AtMost(1.1),
            samples.ratio(&ours(&most, what), &ours(&few, what)),
        );
    }
    add(
        format!("{most}: {}", many::MEMORY),
        Limit::AtMost(2_000.0),
        samples.spread(&ours(&most, many::MEMORY)),
    );
    for case in Crowd::ALL.map(Crowd::case) {
        let of = |what| samples.spread(&ours(&case, what));
        add(format!("{case}: {}", many::LOST), Limit::AtMost(0.0), of(many::LOST));
        let remaining = of(many::LEAST_REMAINING);
        add(
            format!("{case}: {}, of the TTL", many::LEAST_REMAINING),
            Limit::AtLeast(0.5),
            remaining,
        );
    }
    for case in [20, 200, 1_000].map(|managers| Crowd::Managers(managers).case()) {
        add(
            format!("{case}: {}, in µs a second", many::IDLE_SERVERS),
            Limit::AtMost(200.0),
            samples.spread(&ours(&case, many::IDLE_SERVERS)).map(|one| one.map(|time| time * 1e6)),
        );
    }
    for case in reconnect::MANAGERS.map(reconnect::case) {
        for (what, limit) in [(reconnect::WORST, 0.05), (reconnect::ALL_VOTE, 2.0)] {
            let measured = samples.spread(&ours(&case, what));
            add(format!("{case}: {what}, in s"), Limit::AtMost(limit), measured);
        }
    }
    for case in Wanted::ALL.map(Wanted::case) {
        let of = |what| samples.spread(&ours(&case, what));
        add(format!("{case}: {}", many::HELD), Limit::AtLeast(0.9), of(many::HELD));
        let served = of(waits::LEAST_TO_MOST);
        add(format!("{case}: {} process", waits::LEAST_TO_MOST), Limit::AtLeast(0.5), served);
    }
}

/// Returns whether servers, clients and the benchmark share so few cores that processor time limits
/// the rates.
fn has_few_cores(samples: &Samples) -> bool {
    let cores = samples.spread(&key(MACHINE, MACHINE, CORES));
    cores.is_some_and(|cores| cores.median <= 2.0)
}

fn ours(case: &str, what: &str) -> Key {
    key(case, Kind::Ours.name(), what)
}

fn to_rslock(samples: &Samples, case: &str, what: &str) -> Option<Spread> {
    samples.ratio(&ours(case, what), &key(case, Kind::Rslock.name(), what))
}

/// Returns the difference from the service alone.
pub(crate) fn added(samples: &Samples, subject: layer::Subject, what: &str) -> Option<Spread> {
    let of = |subject: layer::Subject| key(layer::CASE, &subject.name(), what);
    samples.difference(&of(subject), &of(layer::Subject::Bare))
}
