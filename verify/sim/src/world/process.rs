//! One process of a client: a manager of the crate, and its users.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use tower_redlock::Redlock;

use super::{
    clock::HostClock,
    gate::Gate,
    machine::name_of,
    naive::Naive,
    scenario::{Profile, Scenario},
    sets::List,
    work,
};
use crate::{
    net::{Net, SimConnector},
    oracle::Oracle,
    rng::Rng,
};

/// A process, until it is killed.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) gate: Gate,
    pub(super) redlock: Option<Redlock>,
    pub(super) shared: Arc<Shared>,
}

/// The state shared by the tasks of a process.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) client: usize,
    pub(super) number: u64,
    pub(super) scenario: Scenario,
    pub(super) list: List,
    pub(super) oracle: Oracle,
    pub(super) gate: Gate,
    pub(super) clock: HostClock,
    pub(super) stop: tokio::sync::watch::Sender<bool>,
    pub(super) tasks: Arc<AtomicUsize>,
}

impl Shared {
    /// Returns whether the work should end.
    pub(super) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// The owner name of the process.
    pub(super) fn owner(&self) -> String {
        format!("c{}.{}", self.client, self.number)
    }

    /// Returns the number of slots that the process uses, if it uses any.
    pub(super) fn slots(&self) -> Option<u32> {
        let turn = self.number.checked_rem(self.scenario.slots.len().try_into().ok()?)?;
        self.scenario.slots.get(usize::try_from(turn).ok()?).copied()
    }

    pub(super) fn ttl(&self) -> Duration {
        Duration::from_millis(self.scenario.ttl)
    }
}

impl Process {
    /// Starts a process on a client's machine, and its work. `number` distinguishes the machine's
    /// processes.
    pub(super) fn start(
        scenario: &Scenario,
        (net, oracle): (&Net, &Oracle),
        clock: &HostClock,
        (client, number): (usize, u64),
        (list, gate): (List, Gate),
    ) -> Self {
        let (stop, _) = tokio::sync::watch::channel(false);
        let shared = Shared {
            client,
            number,
            scenario: scenario.clone(),
            list,
            oracle: oracle.clone(),
            gate: gate.clone(),
            clock: clock.clone(),
            stop,
            tasks: Arc::default(),
        };
        let shared = Arc::new(shared);
        let rng = Rng::of(scenario.seed, 1_000 + 50 * number + client as u64);
        let connector = SimConnector::new(net, client);
        if !scenario.contestant.is_crate() {
            let naive =
                Arc::new(Naive::new(connector, clock.clone(), scenario.servers, rng.clone()));
            work::start_naive(&shared, &naive, rng);
            return Self { gate, redlock: None, shared };
        }
        let sentinels = (2 * scenario.servers..scenario.machines()).map(|at| format!("s:{at}"));
        let sentinels = sentinels.collect::<Vec<_>>().join(",");
        let builder = |servers: Vec<usize>| {
            let mut builder = Redlock::builder();
            for server in servers {
                let url = if scenario.profile == Profile::Failovers {
                    format!("redis+sentinel://{sentinels}/{}", name_of(server))
                } else {
                    format!("redis://s:{server}")
                };
                builder = builder.named_node(format!("n{server}"), url);
            }
            builder
                .ttl(shared.ttl())
                .drift_factor(scenario.drift_factor())
                .owner(shared.owner())
                .max_hold(Duration::from_secs(3_600))
                .connector(connector.clone())
                .clock(clock.clone())
                .spawner(gate.clone())
        };
        let mut sets = scenario.sets(list).into_iter().map(builder);
        let redlock = if list.has_places() {
            Redlock::sharded(sets)
        } else {
            sets.next().expect("a list has a set").build()
        };
        let redlock = redlock.expect("the settings are valid");
        work::start(&shared, &redlock, rng);
        Self { gate, redlock: Some(redlock), shared }
    }

    /// Requests the end of the work.
    pub(super) fn stop(&self) {
        self.shared.stop.send_replace(true);
    }
}
