//! The cost of a change of the view for the clients of a set, in virtual time.

use std::{future::Future, pin::Pin, time::Duration};

use tower_redlock::{
    LockError, Redlock,
    lock::Spawner,
    node::NodeHealth,
    time::{Clock, Timestamp},
};
use tower_redlock_sim::{
    net::{EPOCH, Net, Return, ServerHost, SimConnector},
    redis::Server,
    rng::Rng,
    trace::Trace,
};

/// A correct clock.
#[derive(Debug)]
struct RightClock(Net);

impl Clock for RightClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(86_400) + Duration::from_micros(self.0.now())
    }

    fn wall(&self) -> Duration {
        Duration::from_micros(EPOCH + self.0.now())
    }
}

#[derive(Debug)]
struct Tasks;

impl Spawner for Tasks {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(tokio::task::unconstrained(task));
    }

    fn runs_jobs(&self) -> bool {
        true
    }
}

const TTL: Duration = Duration::from_millis(200);

fn client(net: &Net, index: usize, servers: usize) -> Redlock {
    let mut builder = Redlock::builder().ttl(TTL).owner(format!("c{index}"));
    for server in 0..servers {
        builder = builder.named_node(format!("n{server}"), format!("redis://s:{server}"));
    }
    builder
        .max_hold(Duration::from_secs(3_600))
        .connector(SimConnector::new(net, index))
        .clock(RightClock(net.clone()))
        .spawner(Tasks)
        .build()
        .expect("the settings are valid")
}

async fn all_vote(clients: &[Redlock]) {
    while !clients.iter().all(|client| client.health().iter().all(NodeHealth::is_voting)) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The failures while the views of a set changed.
#[derive(Debug, Default)]
struct Failed {
    with_one_retry: Vec<LockError>,
    waiting: Vec<LockError>,
    lost: usize,
    requests: usize,
}

/// Requests locks while a server of the set restarts without its data, until it votes again. All
/// names change their view twice: by its enrolment, and by its activation.
async fn restart_under_load(seed: u64, servers: usize) -> Failed {
    let mut rng = Rng::of(seed, 3);
    let hosts = (0..servers).map(|_| ServerHost::new(Server::new(rng.hex40(), rng.hex40())));
    let net = Net::new(3, hosts.collect(), Rng::of(seed, 4), Trace::new(false));
    let delivery = tokio::spawn(tokio::task::unconstrained(net.clone().run()));
    let clients: Vec<_> = (0..3).map(|index| client(&net, index, servers)).collect();
    all_vote(&clients).await;
    let mut held = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        held.push(client.lock(format!("kept {number}")).await.expect("all nodes vote"));
    }
    let is_over = std::cell::Cell::new(false);
    let failed = std::cell::RefCell::new(Failed::default());
    let ask = async |number: usize, client: &Redlock| {
        let mut rng = Rng::of(seed, 10 + number as u64);
        while !is_over.get() {
            tokio::time::sleep(Duration::from_micros(rng.within(100, 3_000))).await;
            // A separate name, or one that the other clients request as well.
            let waits = rng.chance(50);
            let name = if waits { "common".into() } else { format!("own {number}") };
            let request = client.lock(name).wait(Duration::from_secs(2));
            let request = if waits { request } else { request.max_attempts(2) };
            let result = request.await.map(drop);
            let mut failed = failed.borrow_mut();
            failed.requests += 1;
            if let Err(error) = result {
                let of = if waits { &mut failed.waiting } else { &mut failed.with_one_retry };
                of.push(error);
            }
        }
    };
    let restart = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        net.restart(0, Return::Blank);
        // The clients learn of it one after the other.
        tokio::time::sleep(Duration::from_millis(100)).await;
        all_vote(&clients).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        is_over.set(true);
    };
    tokio::join!(restart, ask(0, &clients[0]), ask(1, &clients[1]), ask(2, &clients[2]));
    let mut failed = failed.into_inner();
    failed.lost = held.iter().filter(|lock| !lock.is_valid()).count();
    delivery.abort();
    failed
}

/// The change ends when N−q+1 servers know of the enrolment. Until then votes are split.
#[test]
fn view_change_costs_no_request() {
    for seed in 0..20 {
        for servers in [3, 5] {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .expect("a runtime");
            let failed = runtime.block_on(restart_under_load(seed, servers));
            assert!(failed.requests > 100, "seed {seed}, {servers} servers: {failed:?}");
            let count = failed.with_one_retry.len() + failed.waiting.len() + failed.lost;
            assert_eq!(count, 0, "seed {seed}, {servers} servers: {failed:?}");
        }
    }
}
