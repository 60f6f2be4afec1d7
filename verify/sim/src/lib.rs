//! A simulation of the whole client over the crate's own scripts, in virtual time.
//!
//! The client is the production code, used through its public traits: [`Connector`], [`Spawner`],
//! [`Clock`], and a seed for its random numbers. Servers are [`redis`] servers in memory, which run
//! the crate's Lua scripts; the [`net`]work between them loses, delays and partitions. Everything
//! runs on one thread, on a clock that moves when there is nothing left to do, so that a seed
//! repeats a run exactly.
//!
//! [`Connector`]: tower_redlock::node::redis::Connector
//! [`Spawner`]: tower_redlock::lock::Spawner
//! [`Clock`]: tower_redlock::time::Clock

pub mod control;
pub mod net;
pub mod oracle;
pub mod redis;
pub mod rng;
pub mod trace;
pub mod world;
