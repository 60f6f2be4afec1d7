//! Disables single safety checks, so that the simulation can show that it detects their absence.

#[cfg_attr(
    not(redlock_sim),
    allow(unreachable_pub, reason = "public in the build of the simulation")
)]
pub use redlock_core::switches::*;

/// Makes this thread draw its random numbers from a seed.
#[cfg(redlock_sim)]
pub fn seed(seed: u64) {
    crate::random::seeded::replace(Some(seed));
}
