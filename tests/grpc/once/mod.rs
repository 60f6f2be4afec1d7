//! A [`OnceLayer`](tower_redlock::OnceLayer) with the face for gRPC.

mod bodies;
mod duplicates;
mod ends;
mod gone;
mod nested;
mod placed;
mod site;
mod streams;
