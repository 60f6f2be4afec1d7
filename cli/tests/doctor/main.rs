//! The commands that examine and change sets of servers: the program itself, over real servers.

#[path = "../../../tests/support/mod.rs"]
mod support;

mod adopting;
mod holders;
mod lowering;
mod nodes;
#[path = "../program/mod.rs"]
mod program;
mod rolling;
mod sets;
mod several_sets;
mod usage;
