//! Cases that well-known lock libraries get wrong, over real servers.

pub(crate) mod child;
mod nodes;
pub(crate) mod scene;

mod blocking;
mod cancel;
mod congestion;
mod fencing;
mod foreign;
mod inspect;
mod keeper;
mod late;
mod leader;
mod lifecycle;
mod listing;
mod loss;
mod minority;
mod other_locks;
mod outage;
mod overrun;
mod own_keys;
mod processes;
mod queue;
mod release;
mod renewal;
mod runtime;
mod sets;
mod split;
mod stall;
mod threads;
mod waiting;
