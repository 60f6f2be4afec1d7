//! Servers that a client of the former form of keys enrolled.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tower_redlock::{
    Redlock,
    error::{AdoptError, Reason},
};

use super::scene::{MAX_TTL, all_vote, quick, refusal, tag, taken, urls};
use crate::support::{HANG_GUARD, RedisServer};

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
