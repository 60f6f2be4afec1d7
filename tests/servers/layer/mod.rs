//! The tower layer: the contract of services, and requests over HTTP.

mod contract;
mod errors;
mod http;
mod http_cancel;
mod outage;
mod site;
