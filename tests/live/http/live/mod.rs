//! Real servers and real connections.

pub(super) mod client;
mod client_side;
mod crowd;
mod ends;
mod http2;
mod log;
mod majority;
mod methods;
mod overruns;
mod refused_upgrades;
mod site;
mod slow_senders;
mod streams;
mod upgrades;
