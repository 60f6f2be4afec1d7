//! The pages as a browser shows them, over real servers.

#[path = "../support/mod.rs"]
mod harness;
#[path = "../../../tests/support/mod.rs"]
mod support;

mod access;
mod actions;
mod anywhere;
mod drive;
mod jobs;
mod load;
mod locks;
mod markup;
mod nodes;
mod overview;
mod people;
mod scene;
mod sets;
