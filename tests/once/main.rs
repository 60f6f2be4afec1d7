//! Work that is done once per key, over nodes that fail and clocks that are moved by hand.

#[allow(dead_code, reason = "the tools of another test, of which only a part is used here")]
#[path = "../support/log.rs"]
mod log;
#[path = "../support/pair.rs"]
mod pair;
#[path = "../support/mod.rs"]
mod support;

mod ends;
mod layer;
mod lost;
mod owed;
mod people;
mod quota;
mod recording;
mod refused;
mod repeats;
mod scene;
mod unless;
