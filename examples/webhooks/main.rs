//! Webhooks that are sent again and again, and handled once: two receivers, one of which is killed
//! in the middle of its work, and a sender that goes on until it sees a 2xx.
//!
//! ```text
//! cargo run --release --features axum --example webhooks               receive until Ctrl-C
//! cargo run --release --features axum --example webhooks -- --check    send 1,000 events, then judge
//!
//! REDLOCK_NODES=redis://…,redis://…,redis://… cargo run …
//! ```
//!
//! With `REDLOCK_NODES`, each receiver is a process, and killed is SIGKILL: nobody gives its locks
//! back, so its events wait until those have expired. Without, the nodes live in this process, and
//! so do the receivers, each with a runtime of its own: of one that is killed all tasks are dropped,
//! and its locks are given back on the way.
//!
//! "Once" is about what was recorded: an event whose receiver dies behind the effect, and before the
//! nodes keep that it is done, is handled again. Those are counted apart, as the log of effects
//! tells which receiver wrote a line. Where that must not happen either, the effect and the
//! knowledge of it belong in one transaction: see `OnceRequest::unless`.
//!
//! Read first: `receiver.rs`, which is all that an application needs, and `signature.rs`. `shop.rs`
//! and `effects.rs` stand for the application; `site.rs` starts and kills receivers, `sender.rs`,
//! `forgeries.rs` and `story.rs` drive, `verdict.rs` counts.

mod args;
mod effects;
mod forgeries;
#[path = "../support/nodes.rs"]
mod nodes;
mod receiver;
mod sender;
mod shop;
mod signature;
mod site;
mod story;
mod verdict;

use std::{error::Error, process::ExitCode};

use crate::{
    args::{Command, USAGE},
    effects::Effects,
    nodes::Nodes,
    shop::Shop,
};

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let done = match args::parse(std::env::args().skip(1)) {
        Ok(Command::Serve) => serve().await.map(|()| ExitCode::SUCCESS),
        Ok(Command::Check) => check().await,
        Ok(Command::Receiver { name, effects }) => {
            site::be(&name, effects).await.map(|()| ExitCode::SUCCESS)
        }
        Ok(Command::Help) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("webhooks: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("webhooks: {error}");
        ExitCode::FAILURE
    })
}

/// What the sender shows whoever sets up a webhook. For an example only: a real one is in no code.
fn secret() -> String {
    let given = std::env::var("WEBHOOK_SECRET").ok();
    given.unwrap_or_else(|| "whsec_dGhpcyBpcyBubyBzZWNyZXQgYXQgYWxs".into())
}

async fn check() -> Result<ExitCode, Failure> {
    let nodes = Nodes::from_env();
    nodes.wait_until_ready().await?;
    Ok(verdict::print(&story::play(nodes).await?))
}

async fn serve() -> Result<(), Failure> {
    let nodes = Nodes::from_env();
    nodes.wait_until_ready().await?;
    let effects = std::env::temp_dir().join("tower-redlock-webhooks.log");
    let shop = Shop::new("receiver", Effects::open(&effects)?);
    let redlock = nodes.builder().owner("receiver").build()?;
    let (time, body) = (signature::now(), r#"{"amount":7}"#);
    let id = format!("evt_{time}");
    let signature = signature::Key::new(&secret())?.sign(&id, time, body.as_bytes());
    let interrupt = tokio::signal::ctrl_c();
    site::serve(redlock, shop, "127.0.0.1:8080", interrupt, |addr| {
        println!("http://{addr}/webhooks writes to {}; Ctrl-C stops it", effects.display());
        println!("\nwithin five minutes, and then once more:\n");
        println!(
            "curl -i http://{addr}/webhooks -H 'content-type: application/json' \\\n  \
             -H '{}: {id}' -H '{}: {time}' \\\n  -H '{}: {signature}' -d '{body}'",
            signature::ID,
            signature::TIMESTAMP,
            signature::SIGNATURE
        );
    })
    .await
}
