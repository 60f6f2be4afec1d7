//! The memory that a record takes on a server.

use std::{convert::Infallible, time::Duration};

use futures_util::future::join_all;
use tower_redlock::{Redlock, once::Once};

use crate::fixture::{RedisServer, connected, over};

const MARKERS: usize = 10_000;

/// Bytes per record according to the documentation of `retain`.
const DOCUMENTED_BYTES: u64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_key_keeps_to_documented_memory() {
    let server = RedisServer::start();
    let settings =
        Redlock::builder().ttl(Duration::from_secs(60)).node_timeout(Duration::from_secs(3));
    let redlock = connected(over(settings.owner("payments@host-1:4711"), [server.url()])).await;
    // The length of typical ids of webhooks.
    let key = |i: usize| format!("msg_2KWPBgLlAfxdpx2AI54pPJ{i:05}");
    let used = || server.info("memory", "used_memory").unwrap().parse::<u64>().unwrap();
    let run = async |keys: std::ops::Range<usize>| {
        let run = |i| {
            let redlock = redlock.clone();
            async move { redlock.once(key(i)).run(|_| async { Ok::<_, Infallible>(()) }).await }
        };
        for ended in join_all(keys.map(run)).await {
            assert!(matches!(ended, Ok(Once::Ran(()))), "{ended:?}");
        }
    };
    run(0..100).await;
    let before = used();
    for batch in 0..MARKERS / 500 {
        run(100 + batch * 500..600 + batch * 500).await;
    }
    let grown = (used() - before) / MARKERS as u64;
    let usage = server.cli(&["MEMORY", "USAGE", &format!("redlock:done:once:{}", key(7_777))]);
    println!("memory of a done key: {grown} bytes by INFO, {} by MEMORY USAGE", usage.int());
    assert_eq!(server.keys("redlock:done:*").len(), MARKERS + 100);
    assert!((100..=DOCUMENTED_BYTES).contains(&grown), "{grown} bytes");
}
