//! The pages as a browser shows them, over real servers.

#[path = "../../../tests/support/mod.rs"]
mod support;
#[path = "../support/mod.rs"]
mod web;

mod access;
mod actions;
mod anywhere;
mod drive;
mod fixture;
mod jobs;
mod load;
mod locks;
mod markup;
mod nodes;
mod overview;
mod people;
mod sets;
