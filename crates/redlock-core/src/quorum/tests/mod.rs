//! Tests of the algorithm by its public interface: events in, actions out.
//!
//! | what | where |
//! |---|---|
//! | a node in memory, with the semantics of the scripts | `node` |
//! | one lease and its traffic, with a check of each action | `attempt` |
//! | the usual parameters of a lease | `fixture` |
//! | what a node answered a lease, independent of the lease | `heard_answers` |
//! | many leases, nodes, and an unreliable network; its steps | `world`; `world_steps` |
//! | exclusion, validity, release, over random worlds | `safety` |
//! | the order of the tokens, over random worlds | `fencing` |
//! | nodes that restart without their keys, over random worlds | `restarts` |
//! | every attempt ends in time, and the order of the answers does not matter | `decision` |
//! | contenders that start at once, until one wins | `contention` |
//! | jobs: which run is the latest, case by case | `claims` |
//! | records of work that is done: what a quorum stores, every quorum reports | `records` |
//! | names that move between servers: the rule of which servers vote and start | `names` |
//! | servers that move from one layout to another | `layouts` |
//! | steps of a clock below what is detected: one holder, over random worlds | `steps` |
//! | walks over a model that continue from new states, and short traces | `search` |
//! | small worlds of which every state is visited | `explored` |
//! | examples, one for each rule | `cases` |
//!
//! `PROPTEST_CASES=10000 cargo test --package redlock-core quorum` runs more cases.

mod attempt;
mod cases;
mod claims;
mod contention;
mod decision;
mod explored;
mod fencing;
mod fixture;
mod heard_answers;
mod layouts;
mod names;
mod node;
mod records;
mod restarts;
mod safety;
mod search;
mod steps;
mod world;
mod world_steps;
