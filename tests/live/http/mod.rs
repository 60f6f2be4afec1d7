//! The layer over HTTP: responses, bodies, and locks over real servers and real connections.

#[allow(dead_code, reason = "the tools of another test, of which only a part is used here")]
#[path = "../../hard_stop/tools.rs"]
mod tools;

mod answers;
mod bodies;
mod contract;
mod fixture;
mod live;
mod nested;
mod readers;
mod settings;
mod slots;
mod types;
mod upgrades;
mod with_axum;
