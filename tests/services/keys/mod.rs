//! Keys inside axum's routers: the name that a request's lock gets, as its handler sees it.

mod bounds;
mod fixture;
mod reserved;
mod routes;
mod unmatched;
