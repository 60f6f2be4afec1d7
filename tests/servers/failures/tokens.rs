//! Credentials that expire: tokens from an asynchronous callback.

use std::{
    collections::BTreeSet,
    future::pending,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{Stream, future::join_all, stream::unfold};
use redis::{BasicAuth, StreamingCredentialsProvider};
use tokio::sync::watch;
use tower_redlock::{
    Redlock,
    error::Reason,
    node::{
        NodeHealth,
        redis::{AuthToken, Credentials},
    },
};

use crate::fixture::{
    Feature, RedisServer, Resp, all_vote, eventually_async,
    faults::{down, manager, patient, works},
    has, in_time, urls,
};

/// The term of the first token. A renewal in its last third has enough time on a busy machine.
const TERM: Duration = Duration::from_secs(3);

/// Sets up the user of a token: `app-one` has the password `s3cret-one`.
fn admit(server: &RedisServer, token: &str) {
    let word = format!(">s3cret-{token}");
    let rules = ["ACL", "SETUSER", &format!("app-{token}"), "on", &word, "~*", "&*", "+@all"];
    assert_eq!(server.cli(&rules), Resp::Simple("OK".into()));
}

fn token(name: &str) -> AuthToken {
    AuthToken::new(format!("app-{name}"), format!("s3cret-{name}"))
}

/// The behaviour of a callback after its first token.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Returns a token that does not expire.
    Other,
    Error,
    Hang,
    Panic,
    /// Returns a token that the server does not know.
    Unknown,
}

/// A callback whose first token expires. Later calls do what `next` says.
#[derive(Clone)]
struct Tokens {
    calls: Arc<AtomicUsize>,
    next: Arc<Mutex<Next>>,
    first: usize,
}

impl Tokens {
    /// The first `count` calls get the token that expires, one for each connection.
    fn new(count: usize, next: Next) -> Self {
        Self { calls: Arc::default(), next: Arc::new(Mutex::new(next)), first: count }
    }

    fn set(&self, next: Next) {
        *self.next.lock().unwrap() = next;
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn credentials(&self) -> Credentials {
        let tokens = self.clone();
        Credentials::callback(move || {
            let is_first = tokens.calls.fetch_add(1, Ordering::SeqCst) < tokens.first;
            let next = *tokens.next.lock().unwrap();
            async move {
                match next {
                    _ if is_first => Ok(token("one").valid_for(TERM)),
                    Next::Other => Ok(token("two")),
                    Next::Error => Err("no identity for this machine".into()),
                    Next::Hang => pending().await,
                    Next::Panic => panic!("on purpose"),
                    Next::Unknown => Ok(token("three")),
                }
            }
        })
    }

    /// A manager over this server and two others, to which the URLs log in.
    fn manager(&self, servers: &[RedisServer]) -> Redlock {
        admit(&servers[0], "one");
        admit(&servers[0], "two");
        let urls = [servers[0].plain_url(), servers[1].url(), servers[2].url()];
        patient(urls).credentials(self.credentials()).build().unwrap()
    }
}

/// The ids of the connections of a token's user.
fn clients(server: &RedisServer, token: &str) -> BTreeSet<String> {
    let list = server.cli(&["CLIENT", "LIST"]).text();
    let user = format!(" user=app-{token} ");
    let lines = list.lines().filter(|line| line.contains(&user));
    lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// The node's connection, and the connection that reports releases, get new credentials without a
/// reconnect.
async fn authenticates_again(servers: &[RedisServer], redlock: &Redlock, changes: impl FnOnce()) {
    all_vote(redlock).await;
    let held = redlock.lock("held").await.unwrap();
    let other = manager(urls(servers));
    let lock = other.lock("a").await.unwrap();
    let waiting = tokio::spawn(redlock.lock("a").wait(TERM * 10).into_future());
    eventually_async("both are open", async || clients(&servers[0], "one").len() == 2).await;
    let former = clients(&servers[0], "one");
    changes();
    eventually_async("both have the new login", async || clients(&servers[0], "two") == former)
        .await;
    // Deleting a user ends its connections.
    assert_eq!(servers[0].cli(&["ACL", "DELUSER", "app-one"]), Resp::Int(1));
    eventually_async("releases are reported again", async || {
        servers[0].cli(&["PUBSUB", "NUMSUB", "redlock:free:a"]).items()[1] == Resp::Int(1)
    })
    .await;
    assert!(redlock.health().iter().all(NodeHealth::is_voting), "{:?}", redlock.health());
    assert!(held.is_valid());
    lock.release().await.unwrap();
    in_time(waiting).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(clients(&servers[0], "two"), former);
}

#[tokio::test]
async fn open_connections_authenticate_again() {
    let servers = RedisServer::start_n(3);
    let tokens = Tokens::new(2, Next::Other);
    let redlock = tokens.manager(&servers);

    authenticates_again(&servers, &redlock, || {}).await;

    assert_eq!(tokens.calls(), 4);
}

/// A provider of the redis crate, with its latest credentials.
struct Provider(watch::Sender<&'static str>);

type CredentialsStream = Pin<Box<dyn Stream<Item = redis::RedisResult<BasicAuth>> + Send>>;

impl StreamingCredentialsProvider for Provider {
    fn subscribe(&self) -> CredentialsStream {
        let mut names = self.0.subscribe();
        names.mark_changed();
        Box::pin(unfold(names, |mut names| async move {
            names.changed().await.ok()?;
            let name = *names.borrow_and_update();
            let auth = BasicAuth::new(format!("app-{name}"), format!("s3cret-{name}"));
            Some((Ok(auth), names))
        }))
    }
}

#[tokio::test]
async fn pushed_credentials_are_used() {
    let servers = RedisServer::start_n(3);
    admit(&servers[0], "one");
    admit(&servers[0], "two");
    let names = watch::Sender::new("one");
    let urls = [servers[0].plain_url(), servers[1].url(), servers[2].url()];
    let credentials = Credentials::provider(Provider(names.clone()));
    let redlock = patient(urls).credentials(credentials).build().unwrap();

    authenticates_again(&servers, &redlock, || {
        names.send_replace("two");
    })
    .await;
}

/// The node votes until its token expires, is then down for this reason, and works again when the
/// callback does. A lock is held meanwhile.
async fn fails_until_repaired(fault: Next, expected: &str) {
    let servers = RedisServer::start_n(3);
    let tokens = Tokens::new(1, fault);
    let redlock = tokens.manager(&servers);
    all_vote(&redlock).await;
    let lock = redlock.lock("a").await.unwrap();
    let former = clients(&servers[0], "one");
    assert_eq!(former.len(), 1);
    eventually_async("the callback is called again", async || {
        assert!(redlock.health()[0].is_voting(), "{:?}", redlock.health());
        tokens.calls() > 1
    })
    .await;
    assert_eq!(clients(&servers[0], "one"), former);
    let mut shown = String::new();
    eventually_async("the node is down for it", async || {
        let reason = down(&redlock, 0).await;
        shown = format!("{reason} {reason:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        matches!(reason, Reason::Auth(_)) && shown.contains(expected)
    })
    .await;
    works(&redlock).await;
    assert!(redlock.health()[1..].iter().all(NodeHealth::is_voting), "{:?}", redlock.health());
    assert!(lock.is_valid());
    if matches!(fault, Next::Hang) {
        return;
    }
    tokens.set(Next::Other);
    all_vote(&redlock).await;
    lock.release().await.unwrap();
}

#[tokio::test]
async fn failed_renewal_is_the_reason_until_repaired() {
    let faults = [
        (Next::Error, "no identity for this machine"),
        (Next::Hang, "has not returned"),
        (Next::Panic, "panicked"),
        (Next::Unknown, "WRONGPASS"),
    ];
    join_all(faults.map(|(fault, expected)| fails_until_repaired(fault, expected))).await;
}

/// Renewals that fail, and succeed before the former token expires, have no effect.
#[tokio::test]
async fn repeated_renewal_keeps_the_connection() {
    let servers = RedisServer::start_n(3);
    let tokens = Tokens::new(2, Next::Error);
    let redlock = tokens.manager(&servers);
    all_vote(&redlock).await;
    let lock = manager(urls(&servers)).lock("a").await.unwrap();
    let waiting = tokio::spawn(redlock.lock("a").wait(TERM * 10).into_future());
    eventually_async("both are open", async || clients(&servers[0], "one").len() == 2).await;
    let former = clients(&servers[0], "one");
    eventually_async("both failed", async || tokens.calls() > 3).await;
    tokens.set(Next::Unknown);
    let failed = tokens.calls();
    eventually_async("both were refused", async || tokens.calls() > failed + 1).await;
    tokens.set(Next::Other);
    eventually_async("both are renewed", async || clients(&servers[0], "two") == former).await;
    assert!(redlock.health()[0].is_voting());
    lock.release().await.unwrap();
    in_time(waiting).await.unwrap().unwrap().release().await.unwrap();
    works(&redlock).await;
}

/// The callback of a node that never connects does not delay the other nodes.
#[tokio::test]
async fn hanging_callback_delays_no_other() {
    let servers = RedisServer::start_n(3);
    let redlock = Tokens::new(0, Next::Hang).manager(&servers);
    works(&redlock).await;
}

#[tokio::test]
async fn cluster_connections_authenticate_again() {
    use crate::fixture::Cluster;
    if !has(&[Feature::ClusterPort]) {
        return;
    }
    let cluster = Cluster::start();
    cluster.servers.iter().for_each(|server| {
        admit(server, "one");
        admit(server, "two");
    });
    let is_renewed = Arc::new(AtomicBool::new(false));
    let credentials = Credentials::callback({
        let is_renewed = is_renewed.clone();
        move || {
            let is_renewed = is_renewed.load(Ordering::SeqCst);
            // The servers of a Cluster are queried every half second, and a renewal takes two
            // queries.
            let ending = token("one").valid_for(2 * TERM);
            async move { Ok(if is_renewed { token("two") } else { ending }) }
        }
    });
    let redlock =
        patient([cluster.url()]).key_prefix("{redlock}").credentials(credentials).build().unwrap();
    all_vote(&redlock).await;
    let former =
        || -> Vec<_> { cluster.servers.iter().map(|server| clients(server, "one")).collect() };
    // The hosts of the URL, and the shard with its replica, which may be one of these hosts.
    eventually_async("all that are asked are connected", async || {
        let open: usize = former().iter().map(BTreeSet::len).sum();
        let shard = cluster.servers.iter().filter(|server| !clients(server, "one").is_empty());
        open > shard.count()
    })
    .await;
    let former = former();
    is_renewed.store(true, Ordering::SeqCst);
    eventually_async("all have the new login", async || {
        let all = cluster.servers.iter().zip(&former);
        all.into_iter().all(|(server, former)| former.is_subset(&clients(server, "two")))
    })
    .await;
    assert!(redlock.health()[0].is_voting());
}
