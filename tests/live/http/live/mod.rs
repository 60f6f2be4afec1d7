//! Real servers and real connections.

pub(super) mod client;
mod client_side;
mod crowd;
mod ends;
mod frozen;
mod http2;
mod log;
mod majority;
mod methods;
mod overruns;
mod readers;
mod refused_upgrades;
mod site;
mod slow_senders;
mod stalled;
mod streams;
mod upgrades;
