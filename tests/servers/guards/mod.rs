//! Servers that may have forgotten, that are listed twice, or that belong to other sets: none of them
//! may vote.
//!
//! Probations are as short as the TTL. A test that passes only because of a guard has a counterpart
//! that shows what happens without it, or says in its commit how it failed then.

mod adopt;
mod claims;
mod copying;
mod crowd;
mod duplicates;
mod fences;
mod full;
mod history;
mod hostile_sources;
mod layouts;
mod learning;
mod max_ttl;
mod moves;
mod names;
mod new_sets;
mod prospects;
mod readiness;
mod records;
mod restart;
mod takeover;
