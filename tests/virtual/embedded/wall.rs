//! Wall clocks that are temporarily wrong.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tower_redlock::{
    LockError, Redlock,
    error::{Reason, VoteOutcome},
    node::{EmbeddedNodes, Op},
};

use super::{
    handoff::fixture::{WAIT, waiting},
    nodes::shared,
};
use crate::durations::HOUR;
use crate::support::{
    hand_clock::HandClock,
    mock_node::{MockNode, with_nodes},
    scene::Scene,
};

const NOON: Duration = Duration::from_secs(1_700_000_000);

/// The system's clock, with a wall clock that is set by hand.
fn at_noon() -> HandClock {
    let clock = HandClock::system();
    clock.set_wall(NOON);
    clock
}

async fn token(redlock: &Redlock) -> u64 {
    let lock = redlock.lock("x").await.unwrap_or_else(|error| panic!("no lock: {error}"));
    lock.fencing_token().get()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

mod set_back {
    use super::*;

    fn manager() -> (HandClock, Redlock) {
        let Scene { clock, redlock, .. } = Scene::on(at_noon(), 3);
        (clock, redlock)
    }

    #[tokio::test]
    async fn used_names_are_granted() {
        let (wall, redlock) = manager();
        let first = token(&redlock).await;
        wall.set_wall(NOON.saturating_sub(2 * HOUR));
        let mut last = first;
        for _ in 0..20 {
            let next = token(&redlock).await;
            assert!(next > last, "{next} after {last}");
            last = next;
        }
        assert!(last < first + micros(Duration::from_secs(10)), "they go on from there");
    }

    #[tokio::test]
    async fn a_day_ahead_stops_nothing() {
        let (wall, redlock) = manager();
        let first = token(&redlock).await;
        wall.set_wall(NOON + 24 * HOUR);
        let ahead = token(&redlock).await;
        assert!(ahead >= first + micros(24 * HOUR));
        wall.set_wall(NOON);
        let back = token(&redlock).await;
        assert!(back > ahead);
        assert!(token(&redlock).await > back);
    }
}

/// Nodes without a wall clock of their own, which use the client's.
mod unknown_to_the_client {
    use super::*;

    fn manager() -> (HandClock, Redlock) {
        let (theirs, ours) = (at_noon(), at_noon());
        let nodes = shared(&EmbeddedNodes::with_clock(3, theirs));
        let redlock = with_nodes(ours.builder(), nodes).build().unwrap();
        (ours, redlock)
    }

    #[tokio::test]
    async fn refused_proposals_are_not_remembered() {
        let (wall, redlock) = manager();
        let first = token(&redlock).await;

        for ahead in [2 * HOUR, 24 * HOUR, Duration::from_secs(61)] {
            wall.set_wall(NOON + ahead);
            for _ in 0..3 {
                let error = redlock.lock("x").await.unwrap_err();
                assert!(error.to_string().contains("more than 60 s ahead"), "{error}");
                let LockError::NoQuorum { votes } = error else { panic!("{error}") };
                let refused = VoteOutcome::NotCounted(Reason::TokenAhead);
                assert!(votes[..2].iter().all(|vote| vote.outcome == refused), "{votes}");
            }
            wall.set_wall(NOON);
            let next = token(&redlock).await;
            // Tokens are microseconds, and all proposals are further ahead. The rest is real time.
            assert!(next < first + 60_000_000, "{ahead:?}: {next} after {first}");
        }
    }
}

/// A node that grants nothing must not be the lead node, as the contenders would split their votes
/// again.
#[tokio::test]
async fn late_node_is_no_lead() {
    let [clock, behind] = [NOON, NOON.saturating_sub(HOUR)].map(|wall| {
        let clock = HandClock::new();
        clock.set_wall(wall);
        clock
    });
    let is_loading = Arc::new(AtomicBool::new(true));
    let asked = Arc::<Mutex<Vec<usize>>>::default();
    let late = EmbeddedNodes::with_clock(1, behind);
    let nodes = EmbeddedNodes::with_clock(5, clock.clone());
    let inner = late.nodes("redlock").chain(nodes.nodes("redlock").skip(1));
    let nodes = inner.enumerate().map(|(node, inner)| {
        let behind = if node == 0 { HOUR } else { Duration::ZERO };
        let (is_loading, asked) = (Arc::clone(&is_loading), Arc::clone(&asked));
        MockNode::over(&inner, move |op, reply, inner| {
            if matches!(op, Op::Acquire(_)) {
                asked.lock().unwrap().push(node);
                if node > 2 && is_loading.load(Ordering::SeqCst) {
                    return reply.send(Err(Reason::Loading));
                }
            }
            inner.send(op, reply);
        })
        .behind(behind)
    });
    let redlock = with_nodes(clock.builder(), nodes).build().unwrap();
    // Two nodes of five grant.
    let request = waiting(redlock.lock("x").wait(WAIT));
    assert_eq!(asked.lock().unwrap()[..5], [0, 1, 2, 3, 4]);
    is_loading.store(false, Ordering::SeqCst);
    asked.lock().unwrap().clear();
    // The pause after two attempts without a quorum takes at most 160 ms.
    clock.advance(Duration::from_millis(161));
    drop(request.await.unwrap());
    assert_eq!(*asked.lock().unwrap(), [1, 0, 2, 3, 4]);
}
