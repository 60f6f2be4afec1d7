//! The world of a run: its machines, the faults, and the work of the clients.

mod clock;
mod gate;
mod machine;
mod naive;
mod plan;
mod process;
mod run;
mod scenario;
mod sets;
mod work;

pub use self::{
    plan::{Fault, Step, plan},
    run::{Outcome, Settings, run},
    scenario::{Contestant, FAILOVER_SEEDS, Profile, SET_SEEDS, STEP_SEEDS, Scenario, Work},
    sets::{List, Other},
};
