//! Tables of the cost of locks: processor time, memory, and requests per second of a service.

use super::{
    format::{bytes, median, significant, time, times, with_spread},
    table::Table,
    tables::SERVED,
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
    Table::of_cases(
        samples,
        Crowd::ALL.map(Crowd::case),
        &[
            ("memory of a manager", |row| row.spread(many::MEMORY_OF_MANAGER, bytes)),
            ("threads", |row| row.median(many::THREADS, significant)),
            ("until all may acquire", |row| row.spread(many::CONNECTED, time)),
            ("idle: client's processor time a second", |row| row.spread(many::IDLE_CLIENT, time)),
            ("idle: servers', together", |row| row.spread(many::IDLE_SERVERS, time)),
            ("idle: commands a second", |row| row.median(many::IDLE_COMMANDS, significant)),
            ("idle: memory on each server", |row| row.median(many::IDLE_MEMORY, bytes)),
        ],
    )
}

pub(crate) fn reconnects(samples: &Samples) -> Table {
    Table::of_cases(
        samples,
        reconnect::MANAGERS.map(reconnect::case),
        &[
            ("longest PING of a healthy server before", |row| {
                row.spread(reconnect::WORST_BEFORE, time)
            }),
            ("from the restart to the last vote", |row| row.spread(reconnect::WORST, time)),
            ("its p99", |row| row.spread(reconnect::P99, time)),
            ("from the loss to the first vote", |row| row.spread(reconnect::PROBATION, time)),
            ("from the first to the last manager", |row| row.spread(reconnect::ALL_VOTE, time)),
        ],
    )
}

pub(crate) fn wanted(samples: &Samples) -> Table {
    Table::of_cases(
        samples,
        Wanted::ALL.map(Wanted::case),
        &[
            ("grants per second", |row| row.spread(waits::RATE, significant)),
            ("share of the time held", |row| row.spread(many::HELD, significant)),
            ("wait: p50", |row| row.median(waits::P50, time)),
            ("p99", |row| row.median(waits::P99, time)),
            ("longest", |row| row.median(waits::LONGEST, time)),
            (SERVED, |row| row.spread(waits::LEAST_TO_MOST, significant)),
            ("acquires that a server runs for a grant", |row| {
                row.spread(many::ACQUIRES, significant)
            }),
            ("scripts", |row| row.spread(many::SCRIPTS, significant)),
        ],
    )
}

pub(crate) fn service(samples: &Samples) -> Table {
    Table::of_contestants(
        samples,
        service::CONNECTIONS.map(service::case),
        &Guard::ALL.map(Guard::name),
        &[
            ("requests per second", |row| row.spread(service::RATE, significant)),
            ("p50", |row| row.spread(service::P50, time)),
            ("p99", |row| row.spread(service::P99, time)),
            ("service's processor time of a request", |row| row.spread(service::PROCESSOR, time)),
            ("servers', together", |row| row.spread(service::SERVERS, time)),
            ("requests to those with rslock", |row| {
                row.ratio_to_who(service::RATE, Guard::Rslock.name(), times)
            }),
        ],
    )
}
