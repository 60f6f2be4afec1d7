//! `redlock run` as its users start it: the program itself, real commands, real servers.

#[path = "../../../tests/support/mod.rs"]
mod support;

mod codes;
mod crontab;
mod fixture;
mod hostile;
mod leftovers;
mod losses;
mod modes;
mod nested;
mod rounds;
mod shared;
mod signals;
mod slots;
mod systemd;
mod waits;
