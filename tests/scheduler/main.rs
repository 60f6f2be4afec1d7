//! Tests of the scheduler, over the testing kit's clock and nodes.

mod blocking;
mod broken_off;
mod candidate;
mod clocks;
mod control;
mod crash;
mod errors;
mod fleet_control;
mod fleet_history;
mod fleet_state;
mod hangs;
mod layers;
mod leader_only;
mod log_lines;
mod missed;
#[path = "../support/mock_node.rs"]
mod mock_node;
mod outage;
mod panics;
mod past_schedules;
mod races;
mod repetition;
mod reporting;
mod run;
mod run_log;
mod scene;
mod schedule_changes;
mod shutdown;
mod site;
mod slots;
mod status;
mod thousand_jobs;
mod ticks;
mod triggers;
mod wakeups;
mod warnings;
