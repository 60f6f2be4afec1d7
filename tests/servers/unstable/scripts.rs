//! Servers that forget scripts.

use std::time::Duration;

use super::scene::Unstable;
use crate::{
    failures::fake,
    support::{FakeServer, Reaction, RedisServer},
};

/// Maximum number of scripts that one client loads per second, counting the 13 at connect and one per use.
const MOST_LOADS: usize = 30;

fn loads(server: &RedisServer) -> usize {
    usize::try_from(server.calls("script|load")).expect("few calls")
}

#[tokio::test]
async fn flushed_again_and_again() {
    let server = RedisServer::start();
    let unstable = Unstable::new(server.url());
    let flushing = async {
        loop {
            server.cli(&["SCRIPT", "FLUSH"]);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };

    let rate = tokio::select! {
        rate = unstable.rate(|| loads(&server)) => rate,
        () = flushing => unreachable!("it has no end"),
    };

    assert!(rate <= MOST_LOADS, "{rate} scripts are loaded in a second");

    unstable.logs_little();
}

async fn loads_little(server: FakeServer) {
    let unstable = Unstable::new(server.url());
    let rate = unstable.rate(|| server.count("SCRIPT")).await;
    assert!(rate <= MOST_LOADS, "{rate} scripts are loaded in a second");
    unstable.logs_little();
}

#[tokio::test]
async fn digests_are_never_known() {
    let server = fake::greeting(|command| match &*command[0] {
        b"EVALSHA" => Reaction::error("NOSCRIPT No matching script. Please use EVAL."),
        _ => fake::granted(command),
    });
    loads_little(server).await;
}

#[tokio::test]
async fn scripts_are_forgotten_each_time() {
    let greeter = fake::Greeter::new();
    let server = FakeServer::start(move |command| {
        let is_script = matches!(&*command[0], b"EVAL" | b"EVALSHA");
        if is_script && command.get(3).is_some_and(|key| !key.ends_with(b":meta")) {
            return Reaction::error("NOSCRIPT No matching script. Please use EVAL.");
        }
        greeter.greet(command).unwrap_or_else(|| fake::granted(command))
    });
    let unstable = Unstable::new(server.url());

    unstable.costs_little(|| server.count("SCRIPT") / MOST_LOADS, &["NOSCRIPT"]).await;
}
