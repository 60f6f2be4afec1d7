//! What the scheduler promises, over the testing kit's clock and nodes.

mod blocking;
mod control;
mod crash;
mod errors;
mod layers;
mod learning;
mod led;
mod log;
mod many;
mod missed;
mod outage;
mod races;
mod run;
mod scene;
mod shutdown;
mod site;
mod status;
mod ticks;
