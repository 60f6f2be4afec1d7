//! The layers over and under every layer of tower and tower-http, in one `ServiceBuilder`.
//!
//! Most of it is whether it compiles; one stack of many is run.

mod closures;
mod echo;
mod layers;
mod stack;
mod waiting;
