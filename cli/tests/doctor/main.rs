//! The commands that examine and change sets of servers: the program itself, over real servers.

#[path = "../../../tests/support/mod.rs"]
mod support;

mod adopting;
mod holders;
mod lowering;
mod nodes;
mod rolling;
#[path = "../program/mod.rs"]
mod run;
mod sets;
mod several_sets;
mod usage;
