//! Servers and proxies that misbehave for a long time: connections, loaded scripts and log lines
//! stay few, and the reason stays visible.

mod clocks;
mod connections;
mod directories;
mod errors;
mod incarnations;
mod scene;
mod scripts;
#[cfg(feature = "http")]
mod store;
mod wakeups;
