//! One run: the world of a scenario, from its start to the verdict.

use std::{collections::BTreeMap, time::Duration};

use tower_redlock::switches::{self, Switch};

use super::{
    machine::{Machines, hosts},
    plan::plan,
    scenario::{Contestant, Profile, Scenario, Work},
    sets::{List, NEVER_SENT, Other},
};
use crate::{
    net::{Net, Power, Return},
    oracle::{Oracle, Promise, Violation},
    redis::{Patch, set_patches, unused_patches},
    rng::Rng,
    trace::Trace,
};

/// Guards to disable in a run, and details to show.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// A guard of the client.
    pub switch: Option<Switch>,
    /// A guard that only the last client lacks.
    pub last_lacks: Option<Switch>,
    /// Guards of the scripts.
    pub patches: Vec<Patch>,
    /// Whether every command of the servers is a line of the trace.
    pub shows_commands: bool,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The violations of promises.
    pub violations: Vec<Violation>,
    /// The trace of the run.
    pub trace: String,
    /// The number of events of each kind.
    pub counts: BTreeMap<&'static str, u64>,
    /// Virtual duration of the run.
    pub simulated: Duration,
}

/// Runs a scenario.
///
/// # Panics
///
/// If no runtime can be created, if the client panics, or if a patch matches no script.
pub fn run(scenario: &Scenario, settings: &Settings) -> Outcome {
    set_patches(settings.patches.clone());
    switches::take_out(settings.switch);
    switches::seed(scenario.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .rng_seed(tokio::runtime::RngSeed::from_bytes(&scenario.seed.to_le_bytes()))
        .build()
        .expect("a runtime");
    let outcome = runtime.block_on(tokio::task::unconstrained(play(scenario, settings)));
    drop(runtime);
    let unused = unused_patches();
    assert!(unused.is_empty(), "no script has {unused:?}: the guard is still there");
    switches::take_out(None);
    outcome
}

async fn play(scenario: &Scenario, settings: &Settings) -> Outcome {
    let mut rng = Rng::of(scenario.seed, 3);
    let trace = Trace::new(settings.shows_commands);
    let hosts = hosts(scenario, &mut rng);
    let net = Net::new(scenario.clients, hosts, Rng::of(scenario.seed, 4), trace.clone());
    for client in 0..scenario.clients {
        (0..scenario.machines()).for_each(|server| net.set_pace(client, server, scenario.pace));
    }
    let oracle = Oracle::new(&net, scenario.profile.excuses());
    trace.event(0, format!("{scenario:?}"));
    if scenario.list != List::Plain {
        trace.watch(&NEVER_SENT);
    }
    let delivery = tokio::spawn(tokio::task::unconstrained(net.clone().run()));
    let mut machines =
        Machines::new(scenario, &net, &oracle, &mut rng).last_lacks(settings.last_lacks);
    for client in 0..scenario.clients {
        if !scenario.is_stray(client) {
            machines.start(client);
        }
    }
    let mut steps = plan(scenario, &mut Rng::of(scenario.seed, 5));
    if let Some(Other::LastClient(_)) = scenario.other {
        oracle.forbid(scenario.clients - 1);
        steps.insert(0, (scenario.faults_from, super::plan::Fault::Start(scenario.clients - 1)));
    }
    for (at, fault) in steps {
        let now = net.now() / 1_000;
        tokio::time::sleep(Duration::from_millis(at.saturating_sub(now))).await;
        oracle.event(&fault);
        machines.apply(&fault);
    }
    oracle.event("faults end");
    machines.repair();
    settle(scenario, &net, &oracle, &machines).await;
    for client in 0..scenario.clients {
        machines.kill(client, true);
    }
    delivery.abort();
    // Drops the killed tasks.
    tokio::task::yield_now().await;
    let simulated = Duration::from_micros(net.now());
    let (violations, counts) = (oracle.violations(), oracle.counts());
    Outcome { violations, trace: trace.text(), counts, simulated }
}

/// Checks the liveness after the faults: each client sees all nodes vote, acquires each name, and
/// leaves no key.
async fn settle(scenario: &Scenario, net: &Net, oracle: &Oracle, machines: &Machines) {
    let is_checked =
        scenario.contestant.is_crate() && scenario.other != Some(Other::LastClient(List::Majority));
    if is_checked {
        all_nodes_vote(scenario, net, oracle, machines).await;
    }
    // Time for the end of a hold, with its waiters.
    tokio::time::sleep(Duration::from_millis(2 * scenario.ttl)).await;
    if is_checked {
        super::work::every_process_acquires(machines, oracle).await;
        super::work::no_request_starves(machines, oracle).await;
        super::work::no_request_for_slots_starves(machines, oracle).await;
        super::work::neither_kind_starves(machines, oracle).await;
        super::work::writers_that_leave_delay_nobody(machines, oracle).await;
        ticks_go_on(scenario, oracle).await;
        each_set_fails_alone(scenario, net, oracle, machines).await;
    }
    machines.processes().for_each(super::process::Process::stop);
    // Time for the end of holds, and of requests that wait.
    tokio::time::sleep(Duration::from_millis(5_000 + 3 * scenario.ttl)).await;
    for process in machines.processes() {
        let left = process.shared.tasks_left();
        if left > 0 {
            let client = process.shared.client;
            oracle.broken(Promise::Ends, format!("{left} tasks of c{client} don't end"));
        }
    }
    if oracle.trace().watched() > 0 {
        oracle.broken(Promise::Sets, "a request for names of two sets was sent");
    }
    let late = Duration::from_millis(scenario.ttl + scenario.ttl / 50 + 10);
    tokio::time::sleep(late).await;
    for (server, keys) in net.locks(|_| true).into_iter().enumerate() {
        if !keys.is_empty() {
            oracle.broken(Promise::NoDeadlock, format!("s{server} keeps {}", keys.join(", ")));
        }
    }
}

/// Waits until each client sees all nodes vote: after a change of the lists, once the servers were taken
/// over.
async fn all_nodes_vote(scenario: &Scenario, net: &Net, oracle: &Oracle, machines: &Machines) {
    let takeover = match scenario.other {
        Some(Other::AllClients { .. }) => 2 * scenario.ttl + 14_000,
        _ => 0,
    };
    let deadline = net.now() + 1_000 * (4 * scenario.ttl + 12_000 + takeover);
    loop {
        let missing: Vec<_> = machines.members().filter_map(missing).collect();
        if missing.is_empty() {
            break;
        }
        if net.now() > deadline {
            oracle.broken(Promise::Liveness, missing.join("; "));
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    oracle.event("all nodes vote");
}

/// Checks that names fail while their set is down, and only these.
async fn each_set_fails_alone(
    scenario: &Scenario,
    net: &Net,
    oracle: &Oracle,
    machines: &Machines,
) {
    let sets = scenario.sets(scenario.final_list());
    if sets.len() < 2 {
        return;
    }
    let mut failed = BTreeMap::<_, u32>::new();
    for set in &sets {
        oracle.event(format!("down: {set:?}"));
        for server in set {
            net.crash(*server, Power::Down);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        for (name, has_failed) in super::work::names_that_fail(machines, oracle).await {
            *failed.entry(name).or_default() += u32::from(has_failed);
        }
        for server in set {
            net.restart(*server, Return::Whole);
        }
        all_nodes_vote(scenario, net, oracle, machines).await;
    }
    for (name, times) in failed.iter().filter(|(_, times)| **times != 1) {
        oracle.broken(Promise::Sets, format!("{name} failed in the absence of {times} sets"));
    }
    oracle.count("each set down");
}

fn missing(process: &super::process::Process) -> Option<String> {
    let health = process.redlock.as_ref()?.health();
    let silent: Vec<_> = health.iter().filter(|node| !node.is_voting()).collect();
    let names = || silent.iter().map(|node| format!("{node:?}")).collect::<Vec<_>>().join(", ");
    (!silent.is_empty()).then(|| format!("c{} misses votes of {}", process.shared.client, names()))
}

/// Waits until more ticks are run. If the voting nodes agree on an earlier clock than before, a job
/// waits until that clock has caught up.
async fn ticks_go_on(scenario: &Scenario, oracle: &Oracle) {
    let keeps_time =
        !matches!(scenario.profile, Profile::Clocks | Profile::Setbacks | Profile::Beyond);
    if scenario.work != Work::Jobs || scenario.contestant != Contestant::Crate || !keeps_time {
        return;
    }
    let (before, deadline) = (oracle.ticks_of("fast"), oracle.now() + 50_000_000);
    while oracle.ticks_of("fast") < before + 2 {
        if oracle.now() > deadline {
            oracle.broken(Promise::Liveness, "no tick is run any more");
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
