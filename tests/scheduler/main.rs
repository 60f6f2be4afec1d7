//! What the scheduler promises, over the testing kit's clock and nodes.

mod blocking;
mod control;
mod crash;
mod outage;
mod races;
mod scene;
mod site;
mod status;
