//! Moves of several sets to other servers.

use std::time::{Duration, Instant};

use tower_redlock::{
    Lock, Redlock,
    error::{AdoptError, Reason, VoteOutcome},
};

use crate::fixture::{
    RedisServer, all_vote, eventually_async,
    guard::{MAX_TTL, quick, refusal, tag, taken},
    in_time,
    sets::names,
};

/// Sets of nodes that are named by their addresses.
fn build(sets: &[&[RedisServer]]) -> Redlock {
    let set = |servers: &&[RedisServer]| quick().nodes(servers.iter().map(RedisServer::url));
    Redlock::sharded(sets.iter().map(set)).unwrap()
}

fn tags(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(tag).collect()
}

/// The layouts of servers that vote in a set: what a change of their record would change.
fn layouts(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(|server| crate::fixture::guard::meta(server)["layout"].clone()).collect()
}

/// Waits until the nodes of these sets were seen.
async fn connected(redlock: &Redlock, sets: std::ops::Range<usize>) {
    eventually_async("every node is connected", async || {
        let nodes = redlock.sets()[sets.clone()].iter().flat_map(Redlock::health);
        nodes.map(|node| node.run_id).all(|run| run.is_some())
    })
    .await;
}

/// Groups of three servers; the first two are the sets of a client that holds a lock in each.
struct Moving {
    servers: Vec<RedisServer>,
    holder: Redlock,
    operator: Redlock,
    names: [String; 2],
    held: [Lock; 2],
}

impl Moving {
    async fn start(groups: usize) -> Self {
        let servers = RedisServer::start_n(3 * groups);
        let [a, b] = [&servers[..3], &servers[3..6]];
        let (holder, operator) = (build(&[a, b]), build(&[a, b]));
        all_vote(&holder).await;
        all_vote(&operator).await;
        let names = names(&holder, &[a, b], "n").await;
        let held = [taken(&holder, &names[0]).await, taken(&holder, &names[1]).await];
        Self { servers, holder, operator, names, held }
    }

    fn group(&self, number: usize) -> &[RedisServer] {
        &self.servers[3 * number..3 * number + 3]
    }
}

#[tokio::test]
async fn each_set_moves_to_the_one_with_its_number() {
    let fixture = Moving::start(4).await;
    let client = build(&[fixture.group(2), fixture.group(3)]);
    let first = fixture.names.clone().map(|name| {
        let client = client.clone();
        tokio::spawn(async move { taken(&client, &name).await })
    });
    eventually_async("the new nodes are connected", async || {
        fixture.servers[6..].iter().all(|server| tag(server).starts_with("p "))
    })
    .await;
    assert!(fixture.held.iter().all(Lock::is_valid));
    let begun = Instant::now();
    let wait = in_time(client.adopt(&fixture.operator)).await.unwrap();
    assert_eq!(wait, MAX_TTL.mul_f64(1.01) + Duration::from_millis(2));
    for (task, held) in first.into_iter().zip(&fixture.held) {
        let next = in_time(task).await.unwrap();
        assert!(!held.is_valid(), "two clients hold the lock");
        assert!(next.fencing_token() > held.fencing_token());
    }
    assert!(begun.elapsed() > MAX_TTL, "{:?}", begun.elapsed());
    all_vote(&client).await;
    for (set, group) in [(1, 2), (2, 3)] {
        let layouts = layouts(fixture.group(group));
        assert!(layouts[0].contains(&format!("set {set} of 2")), "{layouts:?}");
    }
    for node in 0..6 {
        assert!(matches!(refusal(&fixture.holder, node).await, Reason::OtherLayout { .. }));
    }
}

/// The other set is the same in both lists: it needs no move.
#[tokio::test]
async fn one_set_moves_while_the_other_stays() {
    for stays in [0, 1] {
        let fixture = Moving::start(3).await;
        let mut sets = [fixture.group(0), fixture.group(1)];
        sets[1 - stays] = fixture.group(2);
        let client = build(&sets);
        let before = tags(fixture.group(stays));

        in_time(client.adopt(&fixture.operator)).await.unwrap();

        let next = taken(&client, &fixture.names[1 - stays]).await;
        assert!(!fixture.held[1 - stays].is_valid(), "two clients hold the lock");
        assert!(next.fencing_token() > fixture.held[1 - stays].fencing_token());
        assert_eq!(tags(fixture.group(stays)), before);
        fixture.held[stays].extend().await.unwrap();
        assert_eq!(in_time(client.adopt(&build(&sets))).await, Err(AdoptError::SameLayout));
    }
}

#[tokio::test]
async fn another_number_of_sets_changes_nothing() {
    let fixture = Moving::start(3).await;
    let before = tags(&fixture.servers[..6]);
    let [a, b, c] = [fixture.group(0), fixture.group(1), fixture.group(2)];
    let single = quick().nodes(c.iter().map(RedisServer::url)).build().unwrap();
    for (client, new) in [(build(&[a, b, c]), 3), (build(&[c]), 1), (single, 1)] {
        let error = in_time(client.adopt(&fixture.operator)).await.unwrap_err();
        assert_eq!(error, AdoptError::OtherNumber { old: 2, new });
        assert!(error.to_string().contains("stop all clients, and start them"), "{error}");
    }
    assert_eq!(tags(&fixture.servers[..6]), before);
    for held in &fixture.held {
        held.extend().await.unwrap();
    }
}

#[tokio::test]
async fn sets_in_another_order_change_nothing() {
    let fixture = Moving::start(2).await;
    let before = tags(&fixture.servers);
    let client = build(&[fixture.group(1), fixture.group(0)]);
    connected(&client, 0..2).await;
    let error = in_time(client.adopt(&fixture.operator)).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("nothing was moved: of the new set 1 of 2, at least 2"), "{text}");
    assert!(
        text.contains("belongs to another set")
            && text.contains("enrolled for")
            && text.contains(", set 2 of 2,"),
        "{text}"
    );
    assert_eq!(tags(&fixture.servers), before);
    for held in &fixture.held {
        held.extend().await.unwrap();
    }
}

#[tokio::test]
async fn dead_set_is_named_before_anything_moves() {
    for (dead, what) in [(0, "old"), (1, "old"), (2, "new"), (3, "new")] {
        let mut fixture = Moving::start(4).await;
        let client = build(&[fixture.group(2), fixture.group(3)]);
        connected(&client, 0..2).await;
        let before = tags(&fixture.servers[..6]);
        fixture.servers[3 * dead..3 * dead + 3].iter_mut().for_each(RedisServer::kill);
        let error = in_time(client.adopt(&fixture.operator)).await.unwrap_err();
        let text = error.to_string();
        let set = format!("nothing was moved: of the {what} set {} of 2, at least 2", dead % 2 + 1);
        assert!(text.starts_with(&set) && text.contains("then retry"), "{text}");
        for alive in (0..2).filter(|group| *group != dead) {
            let range = 3 * alive..3 * alive + 3;
            assert_eq!(tags(&fixture.servers[range.clone()]), before[range]);
            fixture.held[alive].extend().await.unwrap();
        }
    }
}

/// That servers vote for the new list does not show that a move gave them what the old ones know.
#[tokio::test]
async fn retry_teaches_servers_that_voted_for_the_list_before() {
    let fixture = Moving::start(4).await;
    let lists = [fixture.group(2), fixture.group(3)];
    let former = build(&lists);
    all_vote(&former).await;
    former.shutdown().await;
    let client = build(&lists);
    connected(&client, 0..2).await;
    for server in fixture.group(2) {
        server.set_config("min-replicas-to-write", "1");
    }
    let error = in_time(client.adopt(&fixture.operator)).await.unwrap_err();
    assert!(matches!(error, AdoptError::InSet { .. }), "{error}");
    for server in fixture.group(2) {
        server.set_config("min-replicas-to-write", "0");
    }
    let wait = in_time(client.adopt(&fixture.operator)).await.unwrap();
    assert!(wait > MAX_TTL, "{wait:?}");
    let next = taken(&client, &fixture.names[0]).await;
    assert!(!fixture.held[0].is_valid(), "two clients hold the lock");
    assert!(next.fencing_token() > fixture.held[0].fencing_token());
}

#[tokio::test]
async fn failure_half_way_says_what_was_moved() {
    let fixture = Moving::start(4).await;
    let client = build(&[fixture.group(2), fixture.group(3)]);
    connected(&client, 0..2).await;
    // Their records can be read, and not changed.
    for server in fixture.group(3) {
        server.set_config("min-replicas-to-write", "1");
    }
    let error = in_time(client.adopt(&fixture.operator)).await.unwrap_err();
    let AdoptError::InSet { set, moved, error: root } = &error else { panic!("{error:?}") };
    assert_eq!((set.number, set.count, &moved[..]), (2, 2, &[1][..]));
    let AdoptError::NewSet { votes, .. } = &**root else { panic!("{root:?}") };
    assert!(votes.iter().all(|vote| vote.outcome != VoteOutcome::Granted), "{votes}");
    let text = error.to_string();
    assert!(text.starts_with("set 2 of 2: ") && text.ends_with("; set 1 was moved"), "{text}");
    for server in fixture.group(3) {
        server.set_config("min-replicas-to-write", "0");
    }
    in_time(client.adopt(&fixture.operator)).await.unwrap();
    for (name, held) in fixture.names.iter().zip(&fixture.held) {
        let next = taken(&client, name).await;
        assert!(!held.is_valid(), "two clients hold the lock");
        assert!(next.fencing_token() > held.fencing_token());
    }
}
