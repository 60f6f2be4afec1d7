//! The layers around and inside every layer of tower and tower-http, in one `ServiceBuilder`.
//!
//! Most of these tests check that it compiles; one stack of many layers is run.

mod closures;
mod echo;
mod layers;
mod places;
mod stack;
mod waiting;
