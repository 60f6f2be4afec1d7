//! R14, one name, one server: a model of clients, servers and names that move.
//!
//! Random walks take the steps of clients, servers and look-ups one by one, and look for two
//! holders, tokens out of order, and disjoint groups that could each grant a lock.
//! `verify/model.md` describes the model, the runs and the findings.
//!
//! | what | where |
//! |---|---|
//! | the state; the steps | `world`; `step` |
//! | faults, and how many names may change at once | `faults` |
//! | clocks that run at different rates | `clocks` |
//! | what a client reads, stores, waits for and activates | `client_view`, `activation` |
//! | locks and tokens; votes by plain commands; or the groups that could grant one | `lock`; `plain`; `groups` |
//! | work that is done once under a lock, ticks that are claimed; copies of records | `work`; `copies` |
//! | random walks | `walk` |
//! | every state of a small set; hashes of states | `exhaust`; `fingerprint` |
//! | the parts of the rule; the sets that are searched | `rule`, `setups` |
//! | tests: nothing is found with the rule | `holds` |
//! | tests: something is found without a part of it, or with a simpler rule | `controls` |
//! | tests: something is found beyond its limits | `limits` |
//! | tests: the set becomes whole again | `settle` |
//!
//! `NAMES_WALKS=20 cargo test --release --lib names` takes 20 times as many walks;
//! `-- --ignored` runs the controls that need more than the others.

mod activation;
mod client_view;
mod clocks;
mod controls;
mod copies;
mod exhaust;
pub(super) mod faults;
mod fingerprint;
pub(super) mod groups;
mod holds;
mod limits;
mod lock;
mod plain;
pub(super) mod rule;
mod settle;
pub(super) mod setups;
pub(super) mod step;
pub(super) mod walk;
mod work;
pub(super) mod world;
