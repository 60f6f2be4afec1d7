//! Requests while too few servers vote.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use axum::{Router, routing::post};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower_redlock::{LockOptions, Redlock, RedlockBuilder, RedlockLayer, key, lock::LockEventKind};

use crate::fixture::{
    HANG_GUARD, LONG, Proxy, RedisServer, all_vote, connected, in_time, over, serve, urls,
};

/// Time in which a request is answered that does not wait.
const AT_ONCE: Duration = Duration::from_secs(2);

/// A service whose requests to `/{name}` may wait for a minute for the lock on the name.
struct Service {
    addr: SocketAddr,
    redlock: Redlock,
}

impl Service {
    async fn open(redlock: Redlock, options: LockOptions) -> Self {
        let layer = RedlockLayer::new(redlock.clone(), key::path_param("name")).wait(LONG);
        let work = post(async || "done").route_layer(layer.options(options).http());
        let app = Router::new().route("/{name}", work);
        Self { addr: serve(app).await, redlock }
    }

    /// Returns the response to a request, and the time that it took.
    async fn post(&self, name: &str) -> (String, Duration) {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        let head = format!(
            "POST /{name} HTTP/1.1\r\nhost: site\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        in_time(stream.read_to_string(&mut answer)).await.unwrap();
        (answer, begun.elapsed())
    }

    async fn is_done(&self, name: &str) {
        let (answer, _) = self.post(name).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// Sends requests until one was refused, and asserts that the next ones are refused at once.
    async fn is_refused_at_once(&self) {
        let mut events = self.redlock.events();
        let (answer, _) = self.post("first").await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        let answers = futures_util::future::join_all((0..50).map(|_| self.post("next"))).await;

        for (answer, took) in answers {
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
            assert!(answer.contains(r#""code":"no-quorum""#), "{answer}");
            assert!(took < AT_ONCE, "{took:?}");
        }
        let refused = in_time(async {
            loop {
                let event = events.recv().await.expect("the manager is there");
                if let LockEventKind::Refused { error, .. } = event.kind {
                    return error.to_string();
                }
            }
        });
        let refused = refused.await;
        assert!(refused.contains("too few votes count (node-1: "), "{refused}");
    }
}

fn builder(servers: &[RedisServer]) -> RedlockBuilder {
    over(Redlock::builder(), urls(servers))
}

#[tokio::test]
async fn stopped_majority_refuses_requests_at_once() {
    let mut servers = RedisServer::start_n(3);
    let redlock = connected(builder(&servers)).await;
    let service = Service::open(redlock, LockOptions::new()).await;
    service.is_done("before").await;

    servers[..2].iter_mut().for_each(RedisServer::kill);
    service.is_refused_at_once().await;

    servers[..2].iter_mut().for_each(RedisServer::restart);
    all_vote(&service.redlock).await;
    service.is_done("after").await;
}

#[tokio::test]
async fn hung_majority_refuses_requests_at_once() {
    let servers = RedisServer::start_n(3);
    let redlock = connected(builder(&servers)).await;
    let service = Service::open(redlock, LockOptions::new()).await;

    servers[..2].iter().for_each(RedisServer::freeze);
    service.is_refused_at_once().await;

    servers[..2].iter().for_each(RedisServer::thaw);
    all_vote(&service.redlock).await;
    service.is_done("after").await;
}

#[tokio::test]
async fn stopped_minority_refuses_no_request() {
    let mut servers = RedisServer::start_n(3);
    let redlock = connected(builder(&servers)).await;
    let other = connected(builder(&servers)).await;
    let service = Service::open(redlock, LockOptions::new()).await;
    servers[0].kill();
    let lock = other.lock("held").await.unwrap();

    let release = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        lock.release().await.unwrap();
    };
    let ((), ()) = tokio::join!(service.is_done("held"), release);
}

#[tokio::test]
async fn first_connections_are_waited_for() {
    let mut servers = RedisServer::start_n(3);
    servers.iter_mut().for_each(RedisServer::kill);
    let redlock = builder(&servers).build().unwrap();
    let service = Service::open(redlock, LockOptions::new()).await;

    let start = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        // Side by side, and beside the service, which takes them for away after a time.
        let restart = move || {
            std::thread::scope(|scope| {
                for server in &mut servers {
                    scope.spawn(|| server.restart());
                }
            });
            servers
        };
        tokio::task::spawn_blocking(restart).await.unwrap()
    };
    let ((), _servers) = tokio::join!(service.is_done("first"), start);
}

#[tokio::test]
async fn reconnect_refuses_no_request() {
    let servers = RedisServer::start_n(3);
    let proxies: Vec<_> = servers.iter().map(|server| Proxy::start(server.addr())).collect();
    let redlock = connected(over(Redlock::builder(), proxies.iter().map(Proxy::url))).await;
    let service = Service::open(redlock, LockOptions::new()).await;

    for i in 0..5 {
        proxies.iter().for_each(Proxy::drop_clients);
        service.is_done(&format!("request-{i}")).await;
    }
}

#[tokio::test]
async fn requests_that_may_wait_outlive_an_outage() {
    let mut servers = RedisServer::start_n(3);
    let redlock = connected(builder(&servers)).await;
    let options = LockOptions::new().wait_without_quorum(true);
    let service = Service::open(redlock.clone(), options).await;
    servers[..2].iter_mut().for_each(RedisServer::kill);

    let by_hand = async { in_time(redlock.lock("by hand").wait(HANG_GUARD).into_future()).await };
    let start = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        servers[..2].iter_mut().for_each(RedisServer::restart);
    };
    let ((), by_hand, ()) = tokio::join!(service.is_done("waits"), by_hand, start);

    assert!(by_hand.is_ok(), "{by_hand:?}");
}
