//! The commands over two sets of servers, of which one is down.

use std::time::{Duration, SystemTime};

use tower_redlock::{Redlock, Resource, Schedule, node::redis::RestartGuard};

use crate::{
    program::{Outcome, PATIENT, run},
    support::{RedisServer, all_vote, urls},
};

/// Two sets of three servers, and a name in each.
struct Sets {
    servers: [Vec<RedisServer>; 2],
    fleet: Redlock,
    names: [String; 2],
}

impl Sets {
    async fn start() -> Self {
        let servers = [RedisServer::start_n(3), RedisServer::start_n(3)];
        let set = |servers: &Vec<RedisServer>| {
            let builder = Redlock::builder().nodes(urls(servers)).ttl(Duration::from_secs(60));
            let builder = builder.node_timeout(Duration::from_secs(3)).owner("night-shift");
            builder.restart_guard(RestartGuard::Off)
        };
        let fleet = Redlock::sharded(servers.each_ref().map(set)).unwrap();
        all_vote(&fleet).await;
        let mut names = [None, None];
        for number in 0.. {
            let name = format!("n{number}");
            let lock = fleet.lock(name.as_str()).await.unwrap();
            let key = format!("redlock:lock:{name}");
            let set = servers.iter().position(|set| set.iter().any(|server| server.exists(&key)));
            lock.release().await.unwrap();
            names[set.unwrap()].get_or_insert(name);
            if names.iter().all(Option::is_some) {
                break;
            }
        }
        Self { servers, fleet, names: names.map(Option::unwrap) }
    }

    fn take_down(&mut self, set: usize) {
        self.servers[set].iter_mut().for_each(RedisServer::kill);
    }

    #[track_caller]
    fn redlock(&self, args: &[&str]) -> Outcome {
        let nodes = self.servers.each_ref().map(|servers| urls(servers).join(",")).join(";");
        run(&nodes, &[&PATIENT, args].concat())
    }
}

async fn tick(redlock: &Redlock, job: &str) {
    let hourly = Schedule::every(Duration::from_secs(3_600));
    let tick = redlock.job_tick(job, hourly).at(SystemTime::now());
    tick.run(async |_| Ok::<_, std::convert::Infallible>(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_and_leaders_of_all_sets_are_listed() {
    let sets = Sets::start().await;
    let mut held = Vec::new();
    for name in &sets.names {
        held.push(sets.fleet.lock(name.as_str()).await.unwrap());
        let leader = Resource::of_leader(name).unwrap();
        held.push(sets.fleet.lock(leader).await.unwrap());
    }

    let listed = sets.redlock(&["ls"]);

    for name in &sets.names {
        listed.is(0, &[&format!("\n{name} "), &format!("leader:{name} ")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_is_broken_beside_a_dead_set() {
    for down in [0, 1] {
        let mut sets = Sets::start().await;
        let (dead, alive) = (sets.names[down].clone(), sets.names[1 - down].clone());
        let _held = sets.fleet.lock(alive.as_str()).await.unwrap();
        sets.take_down(down);
        let set = format!("set {} of 2", down + 1);

        let listed = sets.redlock(&["ls"]);
        let status = sets.redlock(&["status"]);
        let broken = sets.redlock(&["break", &alive, "--yes"]);
        let refused = sets.redlock(&["break", &dead, "--yes"]);

        listed.is(69, &[&alive, "locks may be missing", &set]);
        status.says(&[&alive, "locks or jobs may be missing", &set]);
        broken.is(0, &["deleted on a quorum", "is free"]);
        refused.is(69, &[&set]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_steered_beside_a_dead_set() {
    for down in [0, 1] {
        let mut sets = Sets::start().await;
        let (dead, alive) = (sets.names[down].clone(), sets.names[1 - down].clone());
        for name in &sets.names {
            tick(&sets.fleet, name).await;
        }
        sets.redlock(&["jobs"]).is(0, &[&dead, &alive]);
        sets.take_down(down);
        let set = format!("set {} of 2", down + 1);

        let listed = sets.redlock(&["jobs", "list"]);
        listed.is(69, &[&alive, "idle", "jobs may be missing", &set]);
        sets.redlock(&["status"]).says(&["1 job\n", &alive, "locks or jobs may be missing", &set]);
        for command in ["pause", "resume", "trigger", "history", "next"] {
            sets.redlock(&["jobs", command, &alive]).is(0, &[]);
            let refused = sets.redlock(&["jobs", command, &dead]);
            refused.is(69, &[&format!("{set}: only 0 of 3 nodes vote"), "do: "]);
        }
        sets.redlock(&["jobs", "forget", &alive, "--yes"]).is(0, &["is forgotten"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_runs_beside_a_dead_set() {
    for down in [0, 1] {
        let mut sets = Sets::start().await;
        let (dead, alive) = (sets.names[down].clone(), sets.names[1 - down].clone());
        sets.take_down(down);

        // The part in braces decides about the set, and the lock of a key has a longer name.
        let key = format!("{{{alive}}}");
        for task in [
            &[&*alive][..],
            &["--leader", &alive],
            &["--once", &key],
            &["--tick", &alive, "--cron", "0 * * * *"],
        ] {
            let ran = sets.redlock(&[&["run"], task, &["--", "echo", "it ran"]].concat());
            ran.is(0, &["it ran"]);
        }
        let refused = sets.redlock(&["run", &dead, "--wait", "1s", "--", "echo", "it ran"]);
        refused.is(69, &[&format!("set {} of 2: only 0 of 3", down + 1)]).never_says("it ran");
    }
}
