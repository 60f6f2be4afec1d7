//! Releases of several slots, as a waiting request sees them.

use super::*;
use crate::{
    Redlock,
    node::{EmbeddedNodes, Hint},
};

/// A request for one of two slots, after a round that tried both.
struct Fixture {
    redlock: Redlock,
    retries: RetryHistory,
}

impl Fixture {
    fn new() -> Self {
        let redlock = Redlock::builder().nodes_from(&EmbeddedNodes::new(3)).build().unwrap();
        let mut retries = RetryHistory::default();
        retries.listen(redlock.client(), &Resource::of_slots("x", 2));
        retries.begin_at(redlock.client().now());
        Self { redlock, retries }
    }

    /// Reports the release of a slot by some nodes.
    fn report(&mut self, slot: usize, nodes: impl IntoIterator<Item = usize>) {
        let releases = Arc::clone(&self.retries.name_waits().nth(slot).unwrap().releases);
        for node in nodes {
            releases.hint(node, &Hint::Freed { listening: Some(1) });
        }
    }

    fn begin(&mut self) -> Vec<usize> {
        let client = self.redlock.client();
        self.retries.begin_released(client, client.now()).0
    }
}

#[test]
fn round_of_one_slot_forgets_no_report_of_another() {
    let mut fixture = Fixture::new();
    fixture.report(0, [0, 1]);
    fixture.report(1, [0]);
    assert_eq!(fixture.begin(), [0]);

    fixture.report(1, [2]);

    assert_eq!(fixture.begin(), [1]);
    assert_eq!(fixture.begin(), [0; 0], "a round of all slots follows");
}

#[test]
fn release_during_a_round_is_new_to_the_next() {
    let mut fixture = Fixture::new();
    fixture.report(0, [0, 1]);
    assert_eq!(fixture.begin(), [0]);

    fixture.report(0, [0, 2]);
    fixture.report(1, [1, 2]);

    assert_eq!(fixture.begin(), [0, 1]);
}

#[test]
fn round_of_all_slots_forgets_earlier_reports() {
    let mut fixture = Fixture::new();
    fixture.report(0, [0]);
    fixture.report(1, [0]);
    assert_eq!(fixture.begin(), [0; 0]);

    fixture.report(1, [1]);

    assert_eq!(fixture.begin(), [0; 0], "one node has reported it since");
}
