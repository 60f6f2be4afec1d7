//! The example `doctor` as its users run it: the program itself, over real servers.
#![cfg(feature = "config")]

#[path = "../support/mod.rs"]
mod support;

mod adopting;
mod holders;
mod lowering;
mod nodes;
mod rolling;
mod run;
mod sets;
mod usage;
