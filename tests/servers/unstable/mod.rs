//! Servers and proxies that misbehave for long: connections stay few.

mod connections;
mod errors;
mod scene;
mod wakeups;
