//! R14, one name, one server: a model of clients, servers and names that move.
//!
//! Random walks take the steps of clients, servers and look-ups one by one, and look for two
//! holders, tokens out of order, and disjoint groups that could each grant a lock.
//! `docs/model.md` says what is modelled, what was run and what was found.
//!
//! | what | where |
//! |---|---|
//! | the state; the steps | `world`; `step` |
//! | faults, and how many names may change at once | `faults` |
//! | clocks that run at different rates | `clocks` |
//! | what a client reads, tells, waits for and activates | `driver`, `spread`, `activation` |
//! | locks and tokens; or the groups that could grant one | `lock`; `groups` |
//! | work that is done once under a lock, ticks that are claimed; how records are copied | `work`; `copies` |
//! | random walks, and searches that go on from new states | `walk`, `search`, `outline` |
//! | every state of a small set; when two are alike | `exhaust`; `canonical` |
//! | the parts of the rule; the sets that are searched | `rule`, `cases` |
//! | tests: nothing is found with the rule | `holds` |
//! | tests: something is found without a part of it | `controls` |
//! | tests: something is found with a simpler rule | `retired` |
//! | tests: something is found beyond its limits | `limits` |
//! | tests: the set becomes whole again | `settle` |
//! | servers that are moved from one layout to another | `layouts` |
//!
//! `NAMES_WALKS=20 cargo test --release --lib names` takes 20 times as many walks;
//! `-- --ignored` runs the controls that need more than the others.

mod activation;
mod canonical;
mod cases;
mod clocks;
mod controls;
mod copies;
mod driver;
mod exhaust;
mod faults;
mod groups;
mod holds;
mod layouts;
mod limits;
mod lock;
mod outline;
mod retired;
mod rule;
mod search;
mod settle;
mod spread;
mod step;
mod walk;
mod work;
mod world;
