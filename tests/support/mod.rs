//! What the integration tests stand on: real servers, and two ways to make a server misbehave.
//!
//! - [`RedisServer`]: a real `redis-server` process that can be frozen, killed, restarted with or
//!   without its data, full, a replica, or wrong about the time.
//! - [`Proxy`]: a network between a client and a server that can be slow, silent or down, and that
//!   can deliver a request after its client is gone.
//! - [`FakeServer`]: a scripted server, for replies that a real one gives only on a bad day.
//! - [`acl`]: the user that the README describes; [`RedisServer::url`] logs in as it.
//! - [`eventually`], [`eventually_async`]: wait for a condition, with a guard against hanging.
//!
//! All of them listen on 127.0.0.1, on a port of their own, and are gone when dropped. None needs a
//! tokio runtime, and [`Proxy`] and [`FakeServer`] run on threads of their own, so a test may block
//! and may use any runtime flavour.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "several test binaries share this module, and each uses only a part of it"
)]

pub mod acl;
mod background;
mod cli;
mod clock;
mod clocked;
mod fake;
pub mod hand_clock;
mod home;
mod launch;
mod link;
mod managers;
mod memory;
pub mod mock_node;
mod port;
mod process;
mod proxy;
mod relay;
mod replication;
mod resp;
mod restart;
pub mod scene;
mod server;
mod temp_dir;
mod wait;

pub use fake::{Command, FakeServer, Reaction};
pub use managers::{LONG, ServerScene, all_vote, connected, in_time, over, patient, urls};
pub use port::{Port, unused as unused_port};
pub use process::Process;
pub use proxy::Proxy;
pub use resp::Resp;
pub use restart::Snapshot;
pub use server::RedisServer;
pub use temp_dir::TempDir;
pub use wait::{HANG_GUARD, eventually, eventually_async};
