//! A separate connection for bulk data, so that votes are not delayed.

use std::{panic::AssertUnwindSafe, time::Duration};

use ::redis::{Pipeline, Value};
use futures_util::FutureExt;

use super::NodeSet;
use crate::{
    error::Reason,
    node::redis::{
        encode::prefix_pattern,
        handshake,
        side_connection::SideConnection,
        values::{list, text},
        wire::MAX_LONG,
    },
};

/// Timeout without progress after which a connection has failed.
const SILENCE: Duration = Duration::from_secs(5);

pub(super) struct BulkConnection {
    connection: SideConnection,
}

impl BulkConnection {
    /// Opens a connection to a node, unless the node is down.
    pub(super) async fn open(set: &NodeSet, node: usize) -> Result<Self, Reason> {
        let member = &set.members()[node];
        if let Some(reason) = member.status.down() {
            return Err(reason);
        }
        let (endpoint, access) = (&member.endpoint, &set.settings.access);
        let opening = async {
            let login = handshake::current_login(endpoint, access).await?;
            handshake::open_beside(endpoint, access, login).await
        };
        // A connector is code outside this crate.
        match AssertUnwindSafe(opening).catch_unwind().await {
            Ok(connection) => Ok(Self { connection: connection? }),
            Err(_) => Err(Reason::NotConnected("connecting panicked".into())),
        }
    }

    /// Runs commands; errors are among the replies.
    pub(super) async fn ask(&mut self, pipeline: &Pipeline) -> Result<Vec<Value>, Reason> {
        self.connection.ask_within(pipeline, SILENCE, MAX_LONG).await
    }

    /// Runs one command that answers with a list.
    pub(super) async fn list(&mut self, pipeline: &Pipeline) -> Result<Vec<Value>, Reason> {
        list(self.ask(pipeline).await?)
    }

    /// Returns the next cursor, and a page of the keys that begin with a prefix.
    pub(super) async fn scan(
        &mut self,
        cursor: &str,
        prefix: &str,
        count: usize,
    ) -> Result<(String, Vec<Vec<u8>>), Reason> {
        let mut pipeline = Pipeline::with_capacity(1);
        let pattern = prefix_pattern(prefix);
        pipeline.cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
        let mut items = self.list(&pipeline).await?.into_iter();
        let (Some(cursor), Some(Value::Array(found))) = (items.next(), items.next()) else {
            return Err(Reason::Protocol("SCAN did not answer with a page".into()));
        };
        let key = |key| match key {
            Value::BulkString(key) if key.starts_with(prefix.as_bytes()) => Some(key),
            // The keys are copied to other servers under these names.
            _ => None,
        };
        Ok((text(&cursor).to_string(), found.into_iter().filter_map(key).collect()))
    }
}

/// Number of keys scanned in one call.
const BATCH: usize = 1_000;
/// Maximum number of calls, as a server may be full of other keys.
const MAX_TURNS: usize = 10_000;

/// Counts the lock keys of a node in small steps, so that votes are not delayed.
pub(crate) async fn count(set: &NodeSet, node: usize) -> Result<u64, Reason> {
    let mut side = BulkConnection::open(set, node).await?;
    let mut cursor = String::from("0");
    let mut found = 0_u64;
    for _ in 0..MAX_TURNS {
        let keys;
        (cursor, keys) = side.scan(&cursor, &set.keys.lock_prefix, BATCH).await?;
        found = found.saturating_add(keys.len() as u64);
        if cursor == "0" || cursor.is_empty() {
            return Ok(found);
        }
    }
    Err(Reason::Protocol("too many keys to scan".into()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::node::redis::{IoStream, connection_login::ConnectionLogin, wire::Wire};

    impl BulkConnection {
        pub(in super::super) fn over(stream: impl IoStream + 'static) -> Self {
            let login = ConnectionLogin::new(&"node".into(), None, None);
            Self { connection: SideConnection::new(Wire::new(Box::new(stream)), login) }
        }
    }

    #[tokio::test]
    async fn foreign_keys_are_not_scanned() {
        let (ours, mut server) = tokio::io::duplex(1024);
        let mut connection = BulkConnection::over(ours);
        let answering = async {
            assert!(server.read(&mut [0; 1024]).await.unwrap() > 0);
            let keys = "$8\r\np:done:a\r\n$8\r\np:lock:a\r\n$5\r\nother\r\n:1\r\n";
            let page = format!("*2\r\n$1\r\n7\r\n*4\r\n{keys}");
            server.write_all(page.as_bytes()).await.unwrap();
        };

        let (page, ()) = tokio::join!(connection.scan("0", "p:done:", 10), answering);

        assert_eq!(page, Ok(("7".into(), vec![b"p:done:a".to_vec()])));
    }
}
