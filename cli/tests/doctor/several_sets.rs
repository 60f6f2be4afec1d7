//! Several sets of servers: lists to which they cannot move, and servers of another set.

use std::time::Duration;

use tower_redlock::{Lock, Redlock};

use crate::{
    program::{Doctor, urls},
    support::{RedisServer, all_vote},
};

const TTL: Duration = Duration::from_secs(3);
const SETTINGS: &str = "ttl = '3s'\nnode_timeout = '300ms'";

/// A list of sets, as on the command line.
fn list(sets: &[&[RedisServer]]) -> String {
    sets.iter().map(|servers| urls(servers).join(",")).collect::<Vec<_>>().join(";")
}

fn doctor(sets: &[&[RedisServer]], settings: &str) -> Doctor {
    Doctor::configured(&[list(sets)], settings)
}

/// A client of the sets that holds locks in all of them, and renews them.
async fn holder(sets: &[&[RedisServer]]) -> (Redlock, Vec<Lock>) {
    let set = |servers: &&[RedisServer]| {
        Redlock::builder().nodes(urls(servers)).ttl(TTL).node_timeout(TTL / 10)
    };
    let redlock = Redlock::sharded(sets.iter().map(set)).unwrap();
    all_vote(&redlock).await;
    let mut held = Vec::new();
    for number in 0..8 {
        held.push(redlock.lock(format!("n{number}")).await.unwrap());
    }
    (redlock, held)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adoption_of_sets_that_cannot_move_names_them() {
    let mut servers = RedisServer::start_n(9);
    let old = [&servers[..3], &servers[3..6]];
    let (_client, held) = holder(&old).await;
    let from = list(&old);

    let one = doctor(&[&servers[6..]], SETTINGS);
    let outcome = one.command(&["adopt", "--from", &from, "--yes"]);
    outcome.is(78, &["not adopted: 2 sets of nodes cannot become 1", "stop all clients"]);
    let swapped = doctor(&[&servers[3..6], &servers[..3]], SETTINGS);
    let outcome = swapped.command(&["adopt", "--from", &from, "--yes"]);
    outcome.is(69, &["not adopted: nothing was moved: of the new set 1 of 2", ", set 2 of 2,"]);
    let said = outcome.stdout.matches("give all clients").count()
        + outcome.stderr.matches("give all clients").count();
    assert_eq!(said, 1, "the advice is printed once: {outcome:#?}");
    assert!(held.iter().all(Lock::is_valid), "the old sets grant");

    servers[6..].iter_mut().for_each(RedisServer::kill);
    let half = doctor(&[&servers[..3], &servers[6..]], SETTINGS);
    let outcome = half.command(&["adopt", "--from", &from, "--yes"]);
    outcome.is(69, &["not adopted: nothing was moved: of the new set 2 of 2", "then retry"]);
    assert!(held.iter().all(Lock::is_valid), "the old sets grant");
}

/// The reason is long, and the same for all nodes of a set.
#[test]
fn advice_on_another_set_is_printed_once() {
    let servers = RedisServer::start_n(6);
    let (a, b) = servers.split_at(3);
    doctor(&[a, b], "ttl = '1s'").run(&["--wait", "--no-probe"]).is(0, &["HEALTHY"]);

    let outcome = doctor(&[b, a], "ttl = '1s'").run(&["--no-probe"]);

    outcome.is(2, &["belongs to another set of nodes", "redlock adopt --from"]);
    assert_eq!(outcome.stdout.matches("It is enrolled for [").count(), 2, "{outcome:#?}");
    for server in &servers {
        outcome.says(&[&crate::program::name(server)]);
    }
}
