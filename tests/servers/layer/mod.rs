//! The tower layer: the contract of services, and requests over HTTP.

mod contract;
mod outage;
