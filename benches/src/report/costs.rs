//! Tables of the cost of locks: processor time, memory, and requests per second of a service.

use super::{
    format::{bytes, median, significant, time, times, with_spread},
    table::Table,
};
use crate::{
    contestants::Kind,
    cycles,
    samples::{Samples, key},
    scenarios::{
        distinct::KINDS,
        many::{self, Crowd, Wanted},
        reconnect, service,
    },
    service::Guard,
    waits,
};

/// Processor time of a cycle in several cases, for the client and for all servers together.
pub(crate) fn processor(samples: &Samples, cases: &[String]) -> Table {
    let who = KINDS.into_iter().flat_map(|kind| {
        let name = kind.name();
        [format!("{name}: client"), format!("{name}: servers")]
    });
    let to = ["client to rslock's", "client to the floor's", "servers to rslock's"];
    let head = std::iter::once("processor time of a cycle".into());
    let mut table = Table::new(head.chain(who).chain(to.map(Into::into)));
    for case in cases {
        let of = |kind: Kind, what| key(case, kind.name(), what);
        let each = KINDS.into_iter().flat_map(|kind| {
            [cycles::CLIENT, cycles::SERVERS]
                .map(|what| with_spread(samples.spread(&of(kind, what)), time))
        });
        let to = [
            (Kind::Rslock, cycles::CLIENT),
            (Kind::Floor, cycles::CLIENT),
            (Kind::Rslock, cycles::SERVERS),
        ];
        let to = to.map(|(other, what)| {
            with_spread(samples.ratio(&of(Kind::Ours, what), &of(other, what)), times)
        });
        table.add(std::iter::once(case.clone()).chain(each).chain(to));
    }
    table
}

pub(crate) fn held(samples: &Samples) -> Table {
    let mut table = Table::new([
        "",
        "TTL",
        "memory of a lock",
        "on each server",
        "client's processor time a second",
        "servers', together",
        "client's for each lock",
        "servers' for each lock",
        "lost",
        "least remaining validity of the TTL",
        "until all are held",
        "until all are released",
    ]);
    for crowd in Crowd::ALL {
        let case = crowd.case();
        let of = |what| samples.spread(&key(&case, Kind::Ours.name(), what));
        let all = |what| of(what).map(|one| one.map(|value| value * f64::from(crowd.locks())));
        table.add([
            case.clone(),
            median(of(many::TTL_OF_ALL), time),
            with_spread(of(many::MEMORY), bytes),
            with_spread(of(many::SERVER_MEMORY), bytes),
            with_spread(all(many::CLIENT), time),
            with_spread(all(many::SERVERS), time),
            with_spread(of(many::CLIENT), time),
            with_spread(of(many::SERVERS), time),
            with_spread(of(many::LOST), significant),
            with_spread(of(many::LEAST_REMAINING), significant),
            with_spread(of(many::ACQUIRED), time),
            with_spread(of(many::RELEASED), time),
        ]);
    }
    table
}

pub(crate) fn managers(samples: &Samples) -> Table {
    let mut table = Table::new([
        "",
        "memory of a manager",
        "threads",
        "until all may acquire",
        "idle: client's processor time a second",
        "idle: servers', together",
        "idle: commands a second, memory on each server",
    ]);
    for case in Crowd::ALL.map(Crowd::case) {
        let of = |what| samples.spread(&key(&case, Kind::Ours.name(), what));
        table.add([
            case.clone(),
            with_spread(of(many::MEMORY_OF_MANAGER), bytes),
            median(of(many::THREADS), significant),
            with_spread(of(many::CONNECTED), time),
            with_spread(of(many::IDLE_CLIENT), time),
            with_spread(of(many::IDLE_SERVERS), time),
            format!(
                "{}, {}",
                median(of(many::IDLE_COMMANDS), significant),
                median(of(many::IDLE_MEMORY), bytes)
            ),
        ]);
    }
    table
}

pub(crate) fn reconnects(samples: &Samples) -> Table {
    let mut table = Table::new([
        "",
        "longest PING of a healthy server before",
        "from the restart to the last vote",
        "its p99",
        "from the loss to the first vote",
        "from the first to the last manager",
    ]);
    for case in reconnect::MANAGERS.map(reconnect::case) {
        let of = |what| with_spread(samples.spread(&key(&case, Kind::Ours.name(), what)), time);
        table.add([
            case.clone(),
            of(reconnect::WORST_BEFORE),
            of(reconnect::WORST),
            of(reconnect::P99),
            of(reconnect::PROBATION),
            of(reconnect::ALL_VOTE),
        ]);
    }
    table
}

pub(crate) fn wanted(samples: &Samples) -> Table {
    let mut table = Table::new([
        "",
        "grants per second",
        "share of the time held",
        "wait: p50",
        "p99",
        "longest",
        "least to most served process",
        "acquires that a server runs for a grant",
        "scripts",
    ]);
    for case in Wanted::ALL.map(Wanted::case) {
        let of = |what| samples.spread(&key(&case, Kind::Ours.name(), what));
        table.add([
            case.clone(),
            with_spread(of(waits::RATE), significant),
            with_spread(of(many::HELD), significant),
            median(of(waits::P50), time),
            median(of(waits::P99), time),
            median(of(waits::LONGEST), time),
            with_spread(of(waits::LEAST_TO_MOST), significant),
            with_spread(of(many::ACQUIRES), significant),
            with_spread(of(many::SCRIPTS), significant),
        ]);
    }
    table
}

pub(crate) fn service(samples: &Samples) -> Table {
    let mut table = Table::new([
        "",
        "requests per second",
        "p50",
        "p99",
        "service's processor time of a request",
        "servers', together",
        "requests to those with rslock",
    ]);
    for case in service::CONNECTIONS.map(service::case) {
        for guard in Guard::ALL {
            let of = |what| samples.spread(&key(&case, guard.name(), what));
            let [rate, rslock] =
                [guard, Guard::Rslock].map(|guard| key(&case, guard.name(), service::RATE));
            table.add([
                format!("{case}: {}", guard.name()),
                with_spread(of(service::RATE), significant),
                with_spread(of(service::P50), time),
                with_spread(of(service::P99), time),
                with_spread(of(service::PROCESSOR), time),
                with_spread(of(service::SERVERS), time),
                with_spread(samples.ratio(&rate, &rslock), times),
            ]);
        }
    }
    table
}
