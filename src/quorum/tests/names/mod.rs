//! R14, one name, one server: a model of clients, servers and names that move.

mod activation;
mod cases;
mod controls;
mod driver;
mod faults;
mod groups;
mod holds;
mod limits;
mod lock;
mod outline;
mod rule;
mod search;
mod settle;
mod spread;
mod walk;
mod world;
