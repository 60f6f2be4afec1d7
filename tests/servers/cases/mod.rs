//! Cases that well-known lock libraries get wrong, over real servers.

mod nodes;

mod blocking;
mod cancel;
mod fencing;
mod inspect;
mod keeper;
mod late;
mod leader;
mod lifecycle;
mod listing;
mod loss;
mod minority;
mod other_locks;
mod overrun;
mod own_keys;
mod queue;
mod release;
mod sets;
mod split;
mod stall;
mod threads;
