//! A job that several processes schedule, over real servers.
//!
//! | what | where |
//! |---|---|
//! | a minute with kills and freezes | `minute` |
//! | how soon somebody takes over from a killed replica | `takeover` |
//! | a replica: its clock, its job | `replica`, `clock` |
//! | replicas that are started, killed and frozen | `company` |
//! | what the job writes, and what is judged by it | `journal`, `verdict` |

mod clock;
mod journal;
mod minute;
mod replica;
mod replicas;
mod takeover;
mod verdict;
