//! The cost of a bare request to the servers, as a lower bound.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use redis::{RedisError, aio::MultiplexedConnection};

/// Sends the commands of the algorithm with the redis crate alone: one connection to each server,
/// all answers awaited, no token, no clock, and no check except that a quorum was set.
#[derive(Debug)]
pub(crate) struct Floor {
    /// The connections to the servers that were up.
    nodes: Vec<MultiplexedConnection>,
    quorum: usize,
    delete: String,
    next_value: AtomicU64,
}

const COMPARE_AND_DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('DEL', KEYS[1]) else return 0 end";

impl Floor {
    pub(crate) async fn connect(urls: &[String]) -> Self {
        let mut nodes = Vec::new();
        let mut delete = String::new();
        for url in urls {
            if let Ok((node, loaded)) = connect(url).await {
                nodes.push(node);
                delete = loaded;
            }
        }
        Self { nodes, quorum: urls.len() / 2 + 1, delete, next_value: AtomicU64::new(0) }
    }

    /// Acquires a name. Returns the value to release it with.
    pub(crate) async fn acquire(&self, name: &str) -> Result<String, String> {
        let value = format!("{:020}", self.next_value.fetch_add(1, Ordering::Relaxed));
        let set = self.nodes.iter().map(async |node| {
            let mut command = redis::cmd("SET");
            command.arg(name).arg(&value).arg("NX").arg("PX").arg(10_000);
            command.query_async::<Option<String>>(&mut node.clone()).await
        });
        let granted = join_all(set).await.into_iter().filter(|set| matches!(set, Ok(Some(_))));
        let granted = granted.count();
        if granted < self.quorum {
            self.give_back(name, &value).await;
            return Err(format!("set on {granted} nodes"));
        }
        Ok(value)
    }

    pub(crate) async fn give_back(&self, name: &str, value: &str) {
        let delete = self.nodes.iter().map(async |node| {
            let mut command = redis::cmd("EVALSHA");
            command.arg(&self.delete).arg(1).arg(name).arg(value);
            command.query_async::<u8>(&mut node.clone()).await
        });
        let _ = join_all(delete).await;
    }
}

async fn connect(url: &str) -> Result<(MultiplexedConnection, String), RedisError> {
    let mut node = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let mut load = redis::cmd("SCRIPT");
    let delete = load.arg("LOAD").arg(COMPARE_AND_DELETE).query_async(&mut node).await?;
    Ok((node, delete))
}
