//! The pages as a browser shows them, over real servers.

#[path = "../support/mod.rs"]
mod harness;
#[path = "../../../tests/support/mod.rs"]
mod support;

mod drive;
mod markup;
