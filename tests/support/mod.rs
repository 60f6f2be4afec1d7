//! The tools that the integration tests share: servers, nodes, clocks, and managers over them.
//!
//! - [`RedisServer`]: a real server process (`redis-server`, or what `REDLOCK_TEST_SERVER` names)
//!   that can be frozen, killed, restarted with or without its data, full, a replica, or have a
//!   wrong clock.
//! - [`Proxy`]: a network between a client and a server that can be slow, silent or down, and that
//!   can deliver a request after the client has closed the connection.
//! - [`Breaker`]: a network that repeatedly ends connections early.
//! - [`FakeServer`]: a scripted server, for replies that a real one rarely gives.
//! - [`Sentinels`], [`Cluster`]: a master that another server may replace.
//! - [`ServerFixture`]: servers behind proxies, and managers over them.
//! - [`scene::Scene`]: a clock that is moved by hand, nodes inside the process, and a manager.
//! - [`mock_node::MockNode`]: a node whose operations a closure handles.
//! - [`hand_clock::HandClock`]: a clock that is moved by hand, or runs apart from another.
//! - [`intercept::Interceptor`]: a connector that may answer in place of a server.
//! - [`has`]: the features that a test needs of its servers.
//! - [`acl`]: the user that the README describes; [`RedisServer::url`] logs in as it.
//! - [`eventually`], [`eventually_async`]: wait for a condition, with a guard against hanging.
//!
//! Servers and proxies listen on 127.0.0.1, each on its own port, and end when they are dropped. None
//! needs a tokio runtime: [`Proxy`] and [`FakeServer`] run on their own threads, so a test may block
//! and may use any runtime flavour.
//!
//! Targets without servers include single files of this folder. `pair.rs` and `log.rs` are included
//! by those that need them, as not every target has their dependencies.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "several test binaries share this module, and each uses only a part of it"
)]

pub mod acl;
mod background;
mod breaker;
mod cli;
mod clocked;
mod cluster;
mod fake;
mod feature;
pub mod hand_clock;
mod home;
pub mod intercept;
mod launch;
mod link;
mod managers;
mod memory;
pub mod mock_node;
#[cfg(test)]
mod output;
mod port;
mod process;
mod program;
mod proxy;
mod relay;
mod replication;
mod resp;
mod restart;
pub mod scene;
mod sentinels;
mod server;
mod server_clock;
mod temp_dir;
mod wait;

pub use breaker::{Breaker, Breaks};
pub use cluster::Cluster;
pub use fake::{Command, FakeServer, Reaction};
pub use feature::{Feature, has, is_lacking};
pub use managers::{LONG, ServerFixture, all_vote, connected, in_time, over, patient, urls};
pub use port::{Port, unused as unused_port};
pub use process::Process;
pub use proxy::Proxy;
pub use resp::{Resp, decode};
pub use restart::Snapshot;
pub use sentinels::{SERVICE, Sentinel, Sentinels};
pub use server::RedisServer;
pub use temp_dir::TempDir;
pub use wait::{HANG_GUARD, eventually, eventually_async};
