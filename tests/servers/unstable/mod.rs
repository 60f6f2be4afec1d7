//! Servers and proxies that misbehave for long: connections and loaded scripts stay few.

mod connections;
mod errors;
mod scene;
mod scripts;
mod wakeups;
