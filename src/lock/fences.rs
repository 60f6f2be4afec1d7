use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{
    resource::Resource,
    stripe::{STRIPES, stripes},
    token::block_end,
};

/// The largest fence that this process knows of, for each stripe: the nodes' and its own.
#[derive(Debug)]
pub(crate) struct Fences {
    last: Box<[AtomicU64]>,
}

impl Fences {
    pub(crate) fn new() -> Self {
        Self { last: (0..STRIPES).map(|_| AtomicU64::new(0)).collect() }
    }

    /// A token that is likely to be above every node's fence: the wall clock in µs, or just above
    /// what is known.
    pub(crate) fn propose(&self, resource: &Resource, wall: Duration) -> u64 {
        let wall = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        let known = stripes(resource).map(|stripe| self.last[stripe].load(Ordering::Relaxed)).max();
        let token = wall.max(known.unwrap_or(0).saturating_add(1));
        self.see(resource, block_end(token));
        token
    }

    pub(crate) fn see(&self, resource: &Resource, fence: u64) {
        if fence > 0 {
            for stripe in stripes(resource) {
                self.last[stripe].fetch_max(fence, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals_follow_the_wall_clock_and_stay_above_what_was_seen() {
        let fences = Fences::new();
        let resource = Resource::try_from("a").unwrap();
        let wall = Duration::from_secs(1);
        assert_eq!(fences.propose(&resource, wall), 1_000_000);
        assert_eq!(fences.propose(&resource, wall), 1_000_256, "above the first one's block");
        fences.see(&resource, 5_000_000);
        assert_eq!(fences.propose(&resource, wall), 5_000_001);
        let later = Duration::from_secs(9);
        assert_eq!(fences.propose(&resource, later), 9_000_000);
    }

    #[test]
    fn a_set_is_proposed_above_the_maximum_of_its_stripes() {
        let fences = Fences::new();
        fences.see(&Resource::try_from("b").unwrap(), 700);
        let set = Resource::try_from(["a", "b"]).unwrap();
        assert_eq!(fences.propose(&set, Duration::ZERO), 701);
        assert_eq!(fences.propose(&Resource::try_from("a").unwrap(), Duration::ZERO), 957);
    }
}
