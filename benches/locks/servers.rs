use crate::support::{RedisServer, Resp, eventually};

/// Five servers on this machine.
#[derive(Debug)]
pub(crate) struct Servers(Vec<RedisServer>);

impl Servers {
    pub(crate) fn start() -> Self {
        Self(RedisServer::start_n(5))
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.0.iter().map(RedisServer::url).collect()
    }

    /// Name and version, as a server tells them.
    pub(crate) fn version(&self) -> String {
        let info = self.0[0].cli(&["INFO", "server"]).text();
        let field = |name| info.lines().find_map(|line: &str| line.strip_prefix(name));
        match (field("valkey_version:"), field("redis_version:")) {
            (Some(version), _) => format!("valkey {version}"),
            (None, version) => format!("redis {}", version.unwrap_or("of unknown version")),
        }
    }

    /// Stops the last server until the answer is dropped.
    pub(crate) fn freeze_one(&self) -> Frozen<'_> {
        let server = self.0.last().expect("there are five");
        server.freeze();
        Frozen(server)
    }

    /// Waits until all that was sent is worked off and every connection is closed, then deletes
    /// all keys: who comes next finds the servers as the first one did.
    pub(crate) fn settle(&self) {
        self.all_gone();
        for server in &self.0 {
            assert_eq!(server.cli(&["FLUSHALL"]), Resp::Simple("OK".into()));
        }
    }

    /// Waits until all that was sent is worked off and every connection is closed.
    pub(crate) fn all_gone(&self) {
        for server in &self.0 {
            eventually("the server has no other client", || {
                // A connection that was closed counts until everything that it sent was run.
                let info = server.cli(&["INFO", "clients"]).text();
                info.lines().any(|line| line == "connected_clients:1")
            });
        }
    }
}

pub(crate) struct Frozen<'a>(&'a RedisServer);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.thaw();
    }
}
