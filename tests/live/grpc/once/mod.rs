//! A [`OnceLayer`](tower_redlock::OnceLayer) over gRPC.

mod bodies;
mod duplicates;
mod ends;
mod gone;
mod nested;
mod placed;
mod site;
mod streams;
