//! R14, one name, one server: a model of clients, servers and names that move.

mod cases;
mod driver;
mod groups;
mod lock;
mod rule;
mod search;
mod world;
