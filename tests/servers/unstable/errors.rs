//! Servers that complete the greeting, and then answer each command with an error.

use super::scene::Unstable;
use crate::{
    failures::fake,
    support::{FakeServer, Reaction},
};

/// Checks a server that answers each lock like this.
async fn costs_little(answer: Reaction, reasons: &[&str]) {
    let server = fake::greeting(move |_| answer.clone());
    let unstable = Unstable::new(server.url());
    unstable.costs_little(|| server.connections(), reasons).await;
}

#[tokio::test]
async fn command_ends_connection() {
    costs_little(Reaction::Close, &["connection lost"]).await;
}

#[tokio::test]
async fn loading_after_the_greeting() {
    costs_little(Reaction::error("LOADING reading"), &["loading"]).await;
}

#[tokio::test]
async fn login_needed_after_the_greeting() {
    costs_little(Reaction::error("NOAUTH Authentication required."), &["NOAUTH"]).await;
}

#[tokio::test]
async fn moved_after_the_greeting() {
    costs_little(Reaction::error("MOVED 7 10.0.0.1:1"), &["10.0.0.1:1"]).await;
}

#[tokio::test]
async fn read_only_after_the_greeting() {
    costs_little(Reaction::error("READONLY no"), &["read-only"]).await;
}

#[tokio::test]
async fn busy_votes() {
    costs_little(Reaction::error("BUSY a script"), &["busy"]).await;
}

#[tokio::test]
async fn full_votes() {
    costs_little(Reaction::error("OOM full"), &["out of memory"]).await;
}

#[tokio::test]
async fn unwritable_votes() {
    costs_little(Reaction::error("MISCONF disk"), &["MISCONF"]).await;
}

#[tokio::test]
async fn garbage_votes() {
    costs_little(Reaction::Reply(b"HTTP/1.1 400 Bad\r\n\r\n".into()), &["connection lost"]).await;
}

#[tokio::test]
async fn too_many_clients() {
    let text = b"-ERR max number of clients reached\r\n";
    let server = FakeServer::start(|_| Reaction::Truncated(text.into()));
    let unstable = Unstable::new(server.url());
    unstable.costs_little(|| server.connections(), &["max number of clients"]).await;
}
