//! The commands that show locks and records, measure, and print pages: the program itself, over real
//! servers.

#[path = "../../../tests/support/mod.rs"]
mod support;

mod bench;
mod completions;
mod fixture;
mod frozen;
mod http;
mod jobs;
mod live;
mod locks;
mod once;
mod output;
#[path = "../program/mod.rs"]
mod program;
mod screen;
mod serve;
mod sets;
mod status;
mod terminal;
