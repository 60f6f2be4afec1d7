//! A job that several processes schedule, over real servers.
//!
//! | what | where |
//! |---|---|
//! | half a minute with kills and freezes | `minute` |
//! | the time until another replica takes over from a killed one | `takeover` |
//! | a pause and the history, after everything was killed and restarted | `restart` |
//! | a replica: its clock, its job | `replica`, `clock` |
//! | replicas that are started, killed and frozen | `replicas` |
//! | the lines that the job writes, and checks of them | `journal`, `verdict` |

mod clock;
mod journal;
mod minute;
mod replica;
mod replicas;
mod restart;
mod takeover;
mod verdict;
