//! Work that is done once per key, over nodes that fail and clocks that are moved by hand.

mod ends;
mod fixture;
mod layer;
mod lost;
mod owed;
mod people;
mod quota;
mod recording;
mod refused;
mod repeats;
mod unless;
