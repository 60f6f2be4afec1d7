//! Keys inside axum's routers: the name that a request's lock gets, as its handler sees it.
#![cfg(feature = "axum")]

mod bounds;
mod reserved;
mod routes;
mod site;
mod unmatched;
