//! Tests of the algorithm, on its public face only: events in, actions out.
//!
//! | what | where |
//! |---|---|
//! | a node in memory, with the semantics of the scripts | `model` |
//! | one lease and its traffic, every action checked as it comes | `attempt` |
//! | what a node told a lease, apart from what the lease makes of it | `heard` |
//! | many leases, nodes, and a network that does what it likes | `world` |
//! | what may happen in such a world | `steps` |
//! | exclusion, validity, release, over random worlds | `safety` |
//! | the order of the tokens, over random worlds | `fencing` |
//! | nodes that come back without their keys, over random worlds | `restarts` |
//! | every attempt ends, in time, and the order of the answers does not matter | `decision` |
//! | many that start at once, until one wins | `contention` |
//! | jobs: which run is the latest, case by case | `claims` |
//! | jobs: one start per tick, over random worlds | `claim_model` |
//! | a lower `max_ttl`, with long TTLs still about, over random worlds | `lowering` |
//! | records of work that is done: what a quorum keeps, every quorum tells | `records` |
//! | names that move between servers, for the rule of who votes and who starts | `names` |
//! | examples to read, one for each rule | `cases` |
//!
//! `PROPTEST_CASES=10000 cargo test --lib quorum` looks longer.

mod attempt;
mod cases;
mod claim_model;
mod claims;
mod contention;
mod decision;
mod fencing;
mod heard_answers;
mod layouts;
mod max_ttl_model;
mod names;
mod node;
mod records;
mod restarts;
mod safety;
mod world;
mod world_steps;
