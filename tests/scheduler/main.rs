//! What the scheduler promises, over the testing kit's clock and nodes.

mod again;
mod asked;
mod blocking;
mod broken_off;
mod clocks;
mod control;
mod crash;
mod errors;
mod hangs;
mod layers;
mod leading;
mod learning;
mod led;
mod lines;
mod log;
mod many;
mod missed;
#[path = "../support/mock_node.rs"]
mod mock_node;
mod outage;
mod over;
mod panics;
mod races;
mod run;
mod scene;
mod schedules;
mod shutdown;
mod site;
mod slots;
mod status;
mod ticks;
mod told;
mod warnings;
mod woken;
