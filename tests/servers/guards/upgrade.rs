//! Servers that a client of the former form of keys enrolled, and the fences that it stored.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tower_redlock::{
    Redlock,
    error::{AdoptError, Reason},
};

use crate::fixture::{
    HANG_GUARD, RedisServer, Resp, all_vote,
    guard::{MAX_TTL, pairs, quick, refusal, tag, taken},
    urls,
};

/// Servers with the records of former clients, whose tokens are ahead of the clocks.
struct FormerSet {
    servers: Vec<RedisServer>,
    tags: Vec<String>,
    fence: u64,
}

fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}

impl FormerSet {
    fn start() -> Self {
        let servers = RedisServer::start_n(3);
        let mut names: Vec<_> =
            servers.iter().map(|server| format!("{}/0", server.addr())).collect();
        names.sort();
        let layout = format!("3 nodes ({}), prefix redlock, restart guard on", names.join(", "));
        let fence = micros() + 30_000_000;
        let id = |server: &RedisServer, section, field| {
            server.info(section, field).unwrap()[..16].to_owned()
        };
        let tags: Vec<_> = servers
            .iter()
            .enumerate()
            .map(|(node, server)| {
                let run =
                    id(server, "server", "run_id") + &id(server, "replication", "master_replid");
                let hash = fnv(&layout);
                // State, run and history, layout, nonce, epoch, and its own view of the other
                // nodes.
                format!("a {run} {hash:016x} {node:016x} 6b09744a {:016x}", 0x77 + node)
            })
            .collect();
        for (server, tag) in servers.iter().zip(&tags) {
            let (floor, stripes) =
                (fence.to_string(), (0..1024).map(|stripe| format!("f{stripe}")));
            let max_ttl = MAX_TTL.as_millis().to_string();
            let mut set = vec!["HSET".to_owned(), "redlock:meta".to_owned()];
            let fields = [("tag", &**tag), ("layout", &layout), ("max_ttl", &max_ttl)];
            let marks = [("floor", &*floor), ("seen", "1"), ("size", "3"), ("once", "")];
            let stored = fields.into_iter().chain(marks);
            set.extend(stored.flat_map(|(field, value)| [field.to_owned(), value.to_owned()]));
            set.extend(stripes.flat_map(|stripe| [stripe, floor.clone()]));
            server.cli(&set);
        }
        Self { servers, tags, fence }
    }

    fn client(&self) -> Redlock {
        quick().nodes(urls(&self.servers)).build().unwrap()
    }

    /// Returns the number of servers that still grant to former clients: the servers that keep
    /// their tag.
    fn former_votes(&self) -> usize {
        self.servers.iter().zip(&self.tags).filter(|(server, old)| tag(server) == **old).count()
    }
}

#[tokio::test]
async fn adopt_moves_from_the_former_form() {
    let set = FormerSet::start();
    let client = set.client();
    let Reason::OtherLayout { found, ours } = refusal(&client, 0).await else { panic!() };
    assert!(ours.starts_with(&*found) && ours.contains("upgrade"), "{found} {ours}");
    assert_eq!(set.former_votes(), 3);
    let adopted = Instant::now();
    let wait = client.adopt(&set.client()).await.unwrap();
    assert_eq!(set.former_votes(), 0, "a former client still gets votes");
    assert!(wait > MAX_TTL);
    // The lock of a former client expires meanwhile.
    let lock = client.lock("x").wait(HANG_GUARD).await.unwrap();
    assert!(adopted.elapsed() > MAX_TTL, "{:?}", adopted.elapsed());
    assert!(lock.fencing_token().get() > set.fence);
    all_vote(&client).await;
    assert_eq!(client.adopt(&set.client()).await, Err(AdoptError::SameLayout));
}

/// The records of former servers do not show which of them vote together, so all have to move.
#[tokio::test]
async fn adopt_of_a_majority_is_refused() {
    let set = FormerSet::start();
    let client = set.client();
    assert!(matches!(refusal(&client, 0).await, Reason::OtherLayout { .. }));
    set.servers[2].freeze();
    let refused = client.adopt(&set.client()).await;
    assert!(matches!(refused, Err(AdoptError::OldSet { needed: 2, .. })), "{refused:?}");
    set.servers[2].thaw();
    let again = client.adopt(&set.client()).await;
    assert!(again.is_ok(), "{again:?}");
    drop(taken(&client, "x").await);
}

#[tokio::test]
async fn unused_former_form_is_taken_over() {
    let set = FormerSet::start();
    let client = set.client();
    let lock = client.lock("x").wait(Duration::from_secs(120)).await.unwrap();
    assert!(lock.fencing_token().get() > set.fence);
    assert!(set.former_votes() < 2);
}

const CHANGE: &str = include_str!("../../../src/node/redis/scripts/change.lua");
const FENCES: &str = include_str!("../../../src/node/redis/scripts/fences.lua");

/// A server with these fences under the key `before`.
fn server(fences: &[(&str, &str)]) -> RedisServer {
    let server = RedisServer::start();
    let fields = fences.iter().flat_map(|(stripe, fence)| [*stripe, *fence]);
    let command: Vec<_> = ["HSET", "before"].into_iter().chain(fields).collect();
    server.cli(&command);
    server
}

fn scores(server: &RedisServer, key: &str) -> BTreeMap<String, String> {
    pairs(server.cli(&["ZRANGE", key, "0", "-1", "WITHSCORES"]))
}

#[test]
fn hash_becomes_a_sorted_set() {
    let server = server(&[("3", "1764000000000007"), ("5", "9")]);
    server.cli(&["ZADD", "after", "8", "3", "40", "5", "41", "6"]);
    let change = ["EVAL", CHANGE, "3", "meta", "before", "after", "0", "0", "0", "0"];
    assert_eq!(server.cli(&change), Resp::Int(1));
    let fences = [("3", "1764000000000007"), ("5", "40"), ("6", "41")];
    let expected = fences.map(|(stripe, fence)| (stripe.to_owned(), fence.to_owned()));
    assert_eq!(scores(&server, "after"), BTreeMap::from(expected), "the greater ones");
    assert!(!server.exists("before"));
}

#[test]
fn both_forms_are_read() {
    let server = server(&[("3", "7")]);
    server.cli(&["ZADD", "later", "8", "4"]);
    server.cli(&["HSET", "meta", "tag", "a 1"]);
    let read = |key: &str| {
        let mut answer = server.cli(&["EVAL", FENCES, "2", key, "meta"]).items().into_iter();
        let fences = answer.next().expect("the fences").items();
        let tag = answer.next().expect("the tag").text();
        (fences.into_iter().map(Resp::text).collect::<Vec<_>>(), tag)
    };

    assert_eq!(read("before"), (vec!["3".into(), "7".into()], "a 1".into()));
    assert_eq!(read("later"), (vec!["4".into(), "8".into()], "a 1".into()));
    assert_eq!(read("missing").0, [""; 0]);
}
