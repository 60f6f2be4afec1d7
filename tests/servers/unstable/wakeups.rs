//! Connections for wake-ups that end early, while the connection for votes stays open.

use super::scene::Unstable;
use crate::{
    failures::fake,
    support::{FakeServer, Reaction, in_time},
};

/// Checks the cost of a waiting request on a server that answers subscriptions like this.
async fn costs_little(answer: Reaction) {
    let held = Reaction::array(&[
        Reaction::int(3),
        Reaction::int(0),
        Reaction::bulk("another"),
        Reaction::int(60_000),
    ]);
    let server: FakeServer = fake::greeting(move |command| match &*command[0] {
        b"SUBSCRIBE" => answer.clone(),
        _ => held.clone(),
    });
    let unstable = Unstable::new(server.url());
    in_time(unstable.redlock().ready()).await.unwrap();
    let waiting = unstable.redlock().lock("b").wait(std::time::Duration::from_secs(60));
    tokio::select! {
        () = unstable.costs_little(|| server.connections(), &["wake-ups"]) => {}
        result = waiting.into_future() => panic!("{result:?}"),
    }
}

#[tokio::test]
async fn subscription_ends_connection() {
    costs_little(Reaction::Close).await;
}

#[tokio::test]
async fn subscription_is_an_error() {
    costs_little(Reaction::error("ERR unknown command 'SUBSCRIBE'")).await;
}
