use std::time::{Duration, Instant};

use tower_redlock::Redlock;

use crate::support::RedisServer;

#[tokio::test]
async fn acquires_and_releases() {
    let servers = RedisServer::start_n(5);
    let redlock = Redlock::builder().nodes(servers.iter().map(|s| s.url())).build().unwrap();
    redlock.ready().await;
    println!("{:?}", redlock.health());
    let lock = redlock.lock("a").await.unwrap();
    println!("{lock:?}");
    println!("{:?}", servers[0].get("redlock:lock:a").map(|v| String::from_utf8(v)));
    println!("{:?}", redlock.lock("a").await);
    println!("{:?}", lock.release().await);
    let start = Instant::now();
    for _ in 0..2000 {
        let lock = redlock.lock("a").await.unwrap();
        drop(lock);
    }
    println!("{:?} each", start.elapsed() / 2000);
    redlock.shutdown().await;
    for server in &servers {
        assert_eq!(server.keys("redlock:lock:*"), Vec::<String>::new());
    }
    let _ = Duration::ZERO;
}
