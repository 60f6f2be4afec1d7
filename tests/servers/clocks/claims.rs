//! Claims of ticks under the strict clock guard.

use crate::support::{Feature, has};
use std::time::Duration;

use tower_redlock::{RedlockBuilder, error::Reason, node::Op};

use super::scene::{MINUTES, Scene, in_time, patient};
use crate::{
    jobs::{CLAIMED, ask, claim, claims, of_tick, prepare, promised, stored},
    support::{RedisServer, eventually_async, over},
};

const MARKS: &str = "redlock:marks";

fn strict() -> RedlockBuilder {
    patient().clock_guard(Duration::from_secs(2))
}

#[tokio::test]
async fn wrong_clock_keeps_no_claim() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    for off in [MINUTES, -MINUTES, 5.0, -5.0] {
        let scene = Scene::new();
        scene.servers[0].set_clock_offset(off);
        let redlock = scene.manager(strict()).await;
        let send = |node: usize, op: Op| in_time(ask(&redlock.nodes()[node], op));
        for op in [prepare("a", 5), claim("a", &of_tick(5, 100))] {
            assert_eq!(send(0, op).await, Err(Reason::ClockOff), "{off} s");
        }
        assert!(!scene.servers[0].exists(MARKS));
        assert_eq!(send(1, prepare("a", 5)).await, promised(None));
        assert_eq!(send(1, claim("a", &of_tick(5, 100))).await, CLAIMED);
        // A query of claims does not use the server's clock.
        assert_eq!(send(0, claims(["a"])).await, stored([None]));
        scene.servers[0].set_clock_offset(0.0);
    }
}

#[tokio::test]
async fn other_history_keeps_no_claim() {
    if !has(&[Feature::ExpiryTime]) {
        return;
    }
    for op in [prepare("a", 5), claim("a", &of_tick(5, 100))] {
        let server = RedisServer::with(&["--enable-debug-command", "yes"]);
        let redlock = over(strict(), [server.url()]).build().unwrap();
        in_time(redlock.ready()).await.unwrap();
        let node = &redlock.nodes()[0];
        assert_eq!(in_time(ask(node, prepare("a", 1))).await, promised(None));
        // A health check may run in between and make the new history known.
        eventually_async("the script detects the restart", async || {
            let before = (history(&server), server.cli(&["HGETALL", MARKS]));
            server.cli(&["DEBUG", "CHANGE-REPL-ID"]);
            assert_ne!(history(&server), before.0);
            let response = in_time(ask(node, op.clone())).await;
            let refused = matches!(response, Err(Reason::WrongTag { .. }));
            assert!(!refused || server.cli(&["HGETALL", MARKS]) == before.1, "nothing is stored");
            refused
        })
        .await;
    }
}

fn history(server: &RedisServer) -> Option<String> {
    server.info("replication", "master_replid")
}
