//! The identity that servers report: ids of other forms, no id, and the id of another server on the
//! same connection. The servers are real, and their answers are altered.

use std::sync::{Arc, Mutex};

use tower_redlock::{
    Redlock,
    node::{
        Finding, NodeHealth,
        redis::{Address, Connecting, Connector, RestartGuard},
    },
};

use crate::fixture::{
    RedisServer, Resp, all_vote, eventually_async,
    guard::{forgets, guarded, quick, refused, tag, taken},
    over,
    tap::tapped,
    urls,
};

async fn settled_by(servers: &[RedisServer], connector: Altered) -> Redlock {
    let redlock = guarded(quick(), urls(servers)).connector(connector).build().unwrap();
    all_vote(&redlock).await;
    redlock
}

fn run_id(server: &RedisServer) -> String {
    let text = match server.cli(&["INFO", "server"]) {
        Resp::Bulk(Some(bytes)) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    let line = text.lines().find_map(|line| line.strip_prefix("run_id:"));
    line.expect("a run id").to_owned()
}

/// The connection stays open, and leads to another server.
#[tokio::test]
async fn failover_on_open_connection_enters_probation() {
    let servers = RedisServer::start_n(3);
    let connector = Altered::default();
    let redlock = settled_by(&servers, connector.clone()).await;
    let before = tag(&servers[1]);
    forgets(&redlock, 1, || connector.change_read(&run_id(&servers[1]), &"7".repeat(40))).await;
    assert_ne!(tag(&servers[1]), before);
    assert_eq!(redlock.health()[1].run_id.as_deref(), Some(&*"7".repeat(40)));
}

#[tokio::test]
async fn ids_of_other_forms_are_hashed() {
    let servers = RedisServer::start_n(3);
    let mut connector = Altered::default();
    for (number, server) in servers.iter().enumerate() {
        let id = run_id(server);
        let other = match number {
            0 => format!("{}-{}", &id[..8], &id[9..]),
            // An id of 10 digits, and another line.
            1 => format!("{}\r\nrest:{}", &id[..10], "0".repeat(23)),
            _ => id.to_uppercase(),
        };
        connector = connector.read(&id, &other);
    }
    let redlock = settled_by(&servers, connector).await;
    drop(taken(&redlock, "x").await);

    for health in redlock.health() {
        let incarnation = health.incarnation.expect("an incarnation");
        assert!(incarnation.len() == 32 && incarnation.bytes().all(|b| b.is_ascii_hexdigit()));
    }
}

#[tokio::test]
async fn servers_without_run_id_are_unfit() {
    let servers = RedisServer::start_n(3);
    let connector = || Altered::default().read("run_id:", "run_no:");
    let redlock = guarded(quick(), urls(&servers)).connector(connector()).build().unwrap();
    eventually_async("the servers are found unfit", async || {
        let unfit = |health: NodeHealth| health.state.to_string().contains("INFO has no run_id");
        redlock.health().into_iter().all(unfit)
    })
    .await;
    refused(&redlock, "x").await;
    assert!(servers.iter().all(|server| tag(server).is_empty()));
    let unguarded = over(quick(), urls(&servers)).restart_guard(RestartGuard::Off);
    let redlock = unguarded.connector(connector()).build().unwrap();
    all_vote(&redlock).await;
    drop(taken(&redlock, "x").await);
    for health in redlock.health() {
        assert_eq!(health.findings, [Finding::NoRunId]);
        assert_eq!(health.run_id, None);
    }
}

/// A text, and its replacement of the same length.
type Change = (String, String);

/// Changes of data that is read. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Altered {
    read: Arc<Mutex<Vec<Change>>>,
}

impl Altered {
    /// Replaces a text in answers from now on.
    pub(super) fn read(self, from: &str, to: &str) -> Self {
        self.change_read(from, to);
        self
    }

    /// Like [`read`](Self::read), while the connector is in use.
    pub(super) fn change_read(&self, from: &str, to: &str) {
        assert_eq!(from.len(), to.len());
        self.read.lock().unwrap().push((from.into(), to.into()));
    }
}

impl Connector for Altered {
    fn connect(&self, address: &Address) -> Connecting {
        let read = Arc::clone(&self.read);
        tapped(address, move |bytes| alter(bytes, &read.lock().unwrap()))
    }
}

fn alter(bytes: &mut [u8], changes: &[Change]) {
    for (from, to) in changes {
        let length = from.len();
        for at in 0..(bytes.len() + 1).saturating_sub(length) {
            if &bytes[at..at + length] == from.as_bytes() {
                bytes[at..at + length].copy_from_slice(to.as_bytes());
            }
        }
    }
}
