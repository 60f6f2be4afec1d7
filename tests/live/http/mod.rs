//! The layer over HTTP: responses, bodies, and locks over real servers and real connections.

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
